//! Feature weights: x_j (ln((1 + N) / (1 + df_j)) + 1), then rows are scaled to length one. N and df are those of the training
//! rows only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::csr::Csr;
use super::stats::column_counts;

/// How features are weighted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weight {
    /// Multiply values by the inverse document frequency.
    pub tf_idf: bool,
    /// Scale every row to length one.
    pub l2: bool,
}

/// A [`Weight`] with the factors that were fitted on training rows.
pub struct FittedWeight {
    idf: Option<Vec<f32>>,
    l2: bool,
}

impl Weight {
    /// Fits the factors on training rows.
    pub fn fit(self, features: &Csr, train: &[u32]) -> FittedWeight {
        let idf =
            self.tf_idf.then(|| idf(&column_counts(features, train.iter().copied()), train.len() as u64));
        FittedWeight { idf, l2: self.l2 }
    }
}

/// Returns ln((1 + rows) / (1 + df)) + 1 for each feature.
pub fn idf(document_frequencies: &[u64], rows: u64) -> Vec<f32> {
    document_frequencies.iter().map(|&df| (((1 + rows) as f64 / (1 + df) as f64).ln() + 1.0) as f32).collect()
}

impl FittedWeight {
    /// Returns the factor of each feature; `None` without TF-IDF.
    pub fn idf(&self) -> Option<&[f32]> {
        self.idf.as_deref()
    }

    /// Returns whether rows are scaled to length one.
    pub fn l2(&self) -> bool {
        self.l2
    }

    /// Multiplies the values of a row by the IDF of their features, which are numbered as in the matrix that the weighting
    /// was fitted on. This is the first step.
    pub fn scale(&self, columns: &[u32], values: &mut [f32]) {
        if let Some(idf) = &self.idf {
            for (&column, value) in columns.iter().zip(values) {
                *value *= idf[column as usize];
            }
        }
    }

    /// Scales a row to length one, if so configured. This is the second step, after features have been filtered.
    pub fn normalise(&self, values: &mut [f32]) {
        if self.l2 {
            normalise(values);
        }
    }
}

/// Scales a row to length one. A row of zeros is not changed.
pub(crate) fn normalise(values: &mut [f32]) {
    let square: f64 = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    if square > 0.0 {
        let scale = 1.0 / square.sqrt();
        for value in values {
            *value = (f64::from(*value) * scale) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::ones;
    use super::*;

    #[test]
    fn weights_follow_the_formula_with_document_frequencies_of_the_training_rows() {
        let features = ones(3, &[vec![0, 1], vec![0], vec![1, 2]]);
        let weighting = Weight { tf_idf: true, l2: false }.fit(&features, &[0, 1]);
        let mut values = [2.0, 2.0, 2.0];
        weighting.scale(&[0, 1, 2], &mut values);
        let expected = [2.0 * (1.0f64.ln() + 1.0), 2.0 * (1.5f64.ln() + 1.0), 2.0 * (3.0f64.ln() + 1.0)];
        assert_eq!(values, expected.map(|value| value as f32));
    }

    #[test]
    fn rows_are_scaled_to_length_one_and_zeros_are_not_changed() {
        let weighting = Weight { tf_idf: false, l2: true }.fit(&ones(2, &[]), &[]);
        let mut values = [3.0, 4.0];
        weighting.normalise(&mut values);
        assert_eq!(values, [0.6, 0.8]);
        let mut zeros = [0.0, 0.0];
        weighting.normalise(&mut zeros);
        assert_eq!(zeros, [0.0, 0.0]);
    }
}
