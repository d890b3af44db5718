//! The weights that `weight: auto` stands for.

use super::csr::Features;
use super::weight::Weight;

/// Above this share of values that are not zero, features are dense.
const DENSE: f64 = 0.5;
/// Below this share, standardising all features would need too much memory.
const TOO_SPARSE: f64 = 0.1;
/// How far the length of a row may be from one, if its values were weighted and scaled before.
const LENGTH_TOLERANCE: f64 = 1e-3;
/// Standardised values beyond this many deviations are outliers.
pub const CLIP: f32 = 3.0;

/// What the training rows contain.
#[derive(Default)]
struct FeatureSummary {
    rows: usize,
    /// Values that are not zero.
    values: u64,
    /// All values are 0 or 1.
    binary: bool,
    /// All values are whole numbers and not negative.
    counts: bool,
    /// All rows that are not empty have length one.
    unit_rows: bool,
    /// How many values of each feature are not zero.
    by_feature: Vec<u64>,
    /// Which features have values other than 0 and 1.
    is_numeric: Vec<bool>,
}

/// Chooses weights by the type of the features, and says why. `docs/models.md` has the same rule as a table.
pub(super) fn choose(features: &Features, train: &[u32]) -> (Weight, String) {
    let found = FeatureSummary::of(features, train);
    let tf_idf = Weight { tf_idf: true, l2: true, ..Weight::default() };
    if found.binary {
        return (tf_idf, "all values are 0 or 1".to_owned());
    }
    let (dense, all) = (found.share(|feature| found.is_numeric[feature]), found.share(|_| true));
    let percent = (100.0 * dense).round();
    if found.counts && dense < DENSE {
        return (tf_idf, format!("the values are counts, of which {percent} % are not 0"));
    }
    if found.unit_rows {
        return (Weight::default(), "the rows have length one, so they are weighted already".to_owned());
    }
    if dense >= DENSE && all >= TOO_SPARSE {
        let weight = Weight { standardise: true, clip: Some(CLIP), ..Weight::default() };
        return (weight, format!("the features are numbers, of which {percent} % are not 0"));
    }
    let weight = Weight { l2: true, ..Weight::default() };
    (weight, "most values are 0 and the others are no counts, so they are weights already".to_owned())
}

impl FeatureSummary {
    fn of(features: &Features, train: &[u32]) -> Self {
        let cols = features.cols();
        let mut found = Self {
            rows: train.len(),
            binary: true,
            counts: true,
            unit_rows: true,
            by_feature: vec![0; cols],
            is_numeric: vec![false; cols],
            ..Self::default()
        };
        for &row in train {
            let mut square = 0.0;
            features.for_each_value(row as usize, |feature, value| {
                found.values += 1;
                found.by_feature[feature] += 1;
                found.counts &= value > 0.0 && value.fract() == 0.0;
                if value != 1.0 {
                    found.binary = false;
                    found.is_numeric[feature] = true;
                }
                square += f64::from(value) * f64::from(value);
            });
            found.unit_rows &= square == 0.0 || (square.sqrt() - 1.0).abs() < LENGTH_TOLERANCE;
        }
        found
    }

    /// Returns the share of the values of some features that are not zero.
    fn share(&self, is_meant: impl Fn(usize) -> bool) -> f64 {
        let meant = self.by_feature.iter().enumerate().filter(|(feature, _)| is_meant(*feature));
        let (count, values) = meant.fold((0, 0), |(count, values), (_, &own)| (count + 1, values + own));
        values as f64 / (count as f64 * self.rows as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::csr::{Csr, DenseMatrix};
    use super::*;

    fn chosen(rows: &[&[f32]]) -> (String, String) {
        let cols = rows[0].len();
        let dense = Features::Dense(DenseMatrix { rows: rows.len(), cols, values: rows.concat().into() });
        let train: Vec<u32> = (0..rows.len() as u32).collect();
        let (weight, reason) = choose(&dense, &train);
        let sparse: Csr = crate::data::dataset_part::sparse(dense);
        assert_eq!(choose(&Features::Sparse(sparse), &train).0, weight, "however they are stored");
        (weight.describe(), reason)
    }

    #[test]
    fn the_choice_follows_from_the_values_and_says_so() {
        let pair = |steps: &str, reason: &str| (steps.to_owned(), reason.to_owned());
        assert_eq!(chosen(&[&[0.0, 1.0], &[1.0, 1.0]]), pair("tf_idf, l2", "all values are 0 or 1"));
        let counts = "the values are counts, of which 33 % are not 0";
        assert_eq!(
            chosen(&[&[0.0, 3.0, 1.0], &[0.0, 0.0, 1.0], &[2.0, 0.0, 0.0]]),
            pair("tf_idf, l2", counts)
        );
        let numbers = "the features are numbers, of which 100 % are not 0";
        assert_eq!(chosen(&[&[0.5, 30.0], &[-2.0, 41.0]]), pair("standardise, clip 3", numbers));
        let mixed = "the features are numbers, of which 75 % are not 0";
        assert_eq!(
            chosen(&[&[0.5, 30.0, 0.0, 1.0], &[0.0, 41.0, 1.0, 0.0]]),
            pair("standardise, clip 3", mixed),
            "features of 0 and 1 may be sparse"
        );
        assert_eq!(chosen(&[&[0.6, -0.8], &[1.0, 0.0]]).0, "unchanged");
        assert_eq!(chosen(&[&[0.5, 0.0, 0.0], &[0.0, 0.7, 0.0], &[0.0, 0.0, 0.2]]).0, "l2");
        assert_eq!(chosen(&[&[0.0, 0.0]]).0, "tf_idf, l2", "without values");
    }
}
