//! [`Idf`], the global signal: how rare a label is.

use serde::{Deserialize, Serialize};

use crate::config::number_or_word::PosWeight;
use crate::data::csr::Csr;

/// The frequency of each label in the training rows, and its rarity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idf {
    /// Number of training rows, N.
    pub rows: u64,
    pub eps: f64,
    /// Number of training rows with each label, f_l.
    pub counts: Vec<u64>,
    /// Eq. 8: IDF_l = ln(N / (f_l + eps)).
    pub values: Vec<f64>,
}

impl Idf {
    /// Computes the rarity from counts.
    pub fn new(rows: u64, counts: Vec<u64>, eps: f64) -> Self {
        let values = counts.iter().map(|&count| (rows as f64 / (count as f64 + eps)).ln()).collect();
        Self { rows, eps, counts, values }
    }

    /// Computes the rarity from the labels of some rows.
    pub fn of_rows(labels: &Csr, rows: &[u32], eps: f64) -> Self {
        let mut counts = vec![0; labels.cols];
        for &row in rows {
            for &label in labels.row(row as usize) {
                counts[label as usize] += 1;
            }
        }
        Self::new(rows.len() as u64, counts, eps)
    }

    /// Returns the weight of a positive for each label; 1 for a label without positives.
    pub fn positive_weights(&self, choice: PosWeight) -> Vec<f64> {
        let ratio = |count: u64| (self.rows.saturating_sub(count)) as f64 / count as f64;
        let weight = |&count: &u64| match choice {
            PosWeight::Number(weight) => weight,
            PosWeight::Sqrt if count > 0 => ratio(count).sqrt(),
            PosWeight::Log if count > 0 => ratio(count).ln_1p(),
            PosWeight::None | PosWeight::Sqrt | PosWeight::Log => 1.0,
        };
        self.counts.iter().map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarity_is_that_of_equation_8() {
        let idf = Idf::new(1000, vec![0, 1, 500], 1.0);
        assert_eq!(idf.values, [1000f64.ln(), 500f64.ln(), (1000.0 / 501.0_f64).ln()]);
    }

    #[test]
    fn only_the_chosen_rows_are_counted() {
        let labels = Csr {
            cols: 3,
            indptr: vec![0, 2, 3, 3].into(),
            indices: vec![0, 2, 2].into(),
            values: vec![].into(),
        };
        assert_eq!(Idf::of_rows(&labels, &[0, 2], 1.0).counts, [1, 0, 1]);
        assert_eq!(Idf::of_rows(&labels, &[0, 1], 1.0).counts, [1, 0, 2]);
    }

    #[test]
    fn positives_are_weighted_by_the_class_ratio() {
        let idf = Idf::new(100, vec![20, 50, 0], 1.0);
        assert_eq!(idf.positive_weights(PosWeight::None), [1.0; 3]);
        assert_eq!(idf.positive_weights(PosWeight::Number(10.0)), [10.0; 3]);
        assert_eq!(idf.positive_weights(PosWeight::Sqrt), [2.0, 1.0, 1.0]);
        assert_eq!(idf.positive_weights(PosWeight::Log), [4f64.ln_1p(), 1f64.ln_1p(), 1.0]);
    }
}
