//! [`Propensity`]: the probability that a true label is recorded in the data (Jain, Prabhu and Varma, KDD 2016).

use serde::{Deserialize, Serialize};

/// The two constants of the propensity model. The defaults are the paper's for data sets without constants of their own
/// (Wikipedia: 0.5 and 0.4, Amazon: 0.6 and 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Propensity {
    /// The constant A of the model.
    pub a: f64,
    /// The constant B of the model.
    pub b: f64,
}

impl Default for Propensity {
    fn default() -> Self {
        Self { a: 0.55, b: 1.5 }
    }
}

impl Propensity {
    /// Returns the inverse propensity of each label: 1/p_l = 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A,
    /// N training rows, N_l of them with label l.
    pub fn inverse(self, training_rows: usize, positives: &[u32]) -> Vec<f64> {
        // The formula is meant for many rows; with fewer than e of them C would be negative.
        let c = ((training_rows as f64).ln() - 1.0).max(0.0) * (self.b + 1.0).powf(self.a);
        positives.iter().map(|&count| 1.0 + c * (f64::from(count) + self.b).powf(-self.a)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_labels_weigh_more_and_the_formula_is_that_of_the_paper() {
        let inverse = Propensity::default().inverse(1000, &[0, 10, 1000]);
        let c = (1000f64.ln() - 1.0) * 2.5f64.powf(0.55);
        for (&weight, count) in inverse.iter().zip([0.0, 10.0, 1000.0]) {
            let propensity = 1.0 / (1.0 + c * (-0.55 * f64::ln(count + 1.5)).exp());
            assert!((weight - 1.0 / propensity).abs() < 1e-12);
        }
        assert!(inverse[0] > inverse[1] && inverse[1] > inverse[2]);
        assert_eq!(Propensity::default().inverse(1, &[1]), [1.0]);
    }
}
