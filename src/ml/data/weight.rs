//! Weighting features: x_j (ln((1 + N) / (1 + df_j)) + 1), then rows of length one. N and df come
//! from the training rows alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::Csr;
use super::stats::column_counts;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weight {
    /// Multiply counts or ones by the inverse document frequency.
    pub tf_idf: bool,
    /// Scale every row to length one.
    pub l2: bool,
}

/// A weighting with its document frequencies.
pub struct Weighting {
    idf: Option<Vec<f32>>,
    l2: bool,
}

impl Weight {
    pub fn fit(self, features: &Csr, train: &[u32]) -> Weighting {
        let idf =
            self.tf_idf.then(|| idf(&column_counts(features, train.iter().copied()), train.len() as u64));
        Weighting { idf, l2: self.l2 }
    }
}

/// ln((1 + rows) / (1 + df)) + 1 of each feature.
pub fn idf(document_frequencies: &[u64], rows: u64) -> Vec<f32> {
    let of = |&df: &u64| (((1 + rows) as f64 / (1 + df) as f64).ln() + 1.0) as f32;
    document_frequencies.iter().map(of).collect()
}

impl Weighting {
    /// The factor of each feature, where there are any.
    pub fn idf(&self) -> Option<&[f32]> {
        self.idf.as_deref()
    }

    pub fn l2(&self) -> bool {
        self.l2
    }

    /// The first step: values times the IDF of their features, as the features are numbered in the
    /// matrix that the weighting was fitted on.
    pub fn scale(&self, columns: &[u32], values: &mut [f32]) {
        if let Some(idf) = &self.idf {
            columns.iter().zip(values).for_each(|(&column, value)| *value *= idf[column as usize]);
        }
    }

    /// The second step, after features were left out: a row of length one.
    pub fn normalise(&self, values: &mut [f32]) {
        if self.l2 {
            normalise(values);
        }
    }
}

/// Scales a row to length one; a row of zeros stays one.
pub fn normalise(values: &mut [f32]) {
    let square: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    if square > 0.0 {
        let scale = 1.0 / square.sqrt();
        values.iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::ones;
    use super::*;

    #[test]
    fn weights_follow_the_formula_with_frequencies_of_the_training_rows() {
        let features = ones(3, &[vec![0, 1], vec![0], vec![1, 2]]);
        let weighting = Weight { tf_idf: true, l2: false }.fit(&features, &[0, 1]);
        let mut values = [2.0, 2.0, 2.0];
        weighting.scale(&[0, 1, 2], &mut values);
        let expected = [2.0 * (1.0f64.ln() + 1.0), 2.0 * (1.5f64.ln() + 1.0), 2.0 * (3.0f64.ln() + 1.0)];
        assert_eq!(values, expected.map(|value| value as f32));
    }

    #[test]
    fn rows_get_length_one_and_zeros_stay() {
        let weighting = Weight { tf_idf: false, l2: true }.fit(&ones(2, &[]), &[]);
        let mut values = [3.0, 4.0];
        weighting.normalise(&mut values);
        assert_eq!(values, [0.6, 0.8]);
        let mut zeros = [0.0, 0.0];
        weighting.normalise(&mut zeros);
        assert_eq!(zeros, [0.0, 0.0]);
    }
}
