//! Rows that occur more than once. A test row that is also a training row does not test anything.
//!
//! Rows are compared by a 64-bit digest of their features. Rows without features are ignored: they are all equal, and they
//! are counted elsewhere.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::csr::Csr;

/// Counts of rows that occur more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duplicates {
    /// Training rows whose features equal those of an earlier training row.
    pub within_train: u64,
    /// Rows of the other part whose features equal those of a training row.
    pub in_train: u64,
    /// Those of `in_train` whose labels also equal those of such a training row.
    pub with_equal_labels: u64,
}

/// Some rows of a data set.
#[derive(Clone, Copy)]
pub struct LabelledRows<'a> {
    pub features: &'a Csr,
    pub labels: &'a Csr,
    pub rows: &'a [u32],
}

impl Duplicates {
    /// Counts the rows of `other` that are also in `train`.
    pub fn between(train: LabelledRows, other: LabelledRows) -> Self {
        let train_digests = train.digests();
        let mut labels_of: HashMap<u64, Vec<u64>> = HashMap::with_capacity(train_digests.len());
        let mut found = Self::default();
        for (features, labels) in train_digests.into_iter().flatten() {
            let seen = labels_of.entry(features).or_default();
            found.within_train += u64::from(!seen.is_empty());
            seen.push(labels);
        }
        for (features, labels) in other.digests().into_iter().flatten() {
            if let Some(seen) = labels_of.get(&features) {
                found.in_train += 1;
                found.with_equal_labels += u64::from(seen.contains(&labels));
            }
        }
        found
    }
}

impl LabelledRows<'_> {
    /// Returns the pairs of a row and the first row before it with the same features, as positions in `rows`.
    pub fn twins(self) -> Vec<(usize, usize)> {
        let mut first_with = HashMap::new();
        let mut twins = Vec::new();
        for (at, digests) in self.digests().into_iter().enumerate() {
            let Some((features, _)) = digests else { continue };
            let first = *first_with.entry(features).or_insert(at);
            if first != at {
                twins.push((at, first));
            }
        }
        twins
    }

    /// Returns the digests of (features, labels) of each row; `None` for a row without features.
    fn digests(self) -> Vec<Option<(u64, u64)>> {
        let digests_of = |&row: &u32| {
            let row = row as usize;
            let columns = self.features.row(row);
            let pair = || (digest(columns, self.features.row_values(row)), digest(self.labels.row(row), &[]));
            (!columns.is_empty()).then(pair)
        };
        self.rows.par_iter().map(digests_of).collect()
    }
}

fn digest(columns: &[u32], values: &[f32]) -> u64 {
    let mut bytes = Vec::with_capacity(8 * columns.len());
    bytes.extend(columns.iter().flat_map(|column| column.to_le_bytes()));
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    let hash = blake3::hash(&bytes);
    let head: [u8; 8] = std::array::from_fn(|at| hash.as_bytes()[at]);
    u64::from_le_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::{ones, weighted};
    use super::*;

    #[test]
    fn test_rows_among_the_training_rows_are_counted() {
        let train = weighted(3, &[vec![(0, 1.0)], vec![(1, 0.5)], vec![(1, 0.5)], vec![]]);
        let train_labels = ones(2, &[vec![0], vec![1], vec![0, 1], vec![0]]);
        let test = weighted(3, &[vec![(0, 2.0)], vec![(1, 0.5)], vec![(0, 1.0)], vec![]]);
        let test_labels = ones(2, &[vec![0], vec![0, 1], vec![1], vec![0]]);
        let found = Duplicates::between(
            LabelledRows { features: &train, labels: &train_labels, rows: &[0, 1, 2, 3] },
            LabelledRows { features: &test, labels: &test_labels, rows: &[0, 1, 2, 3] },
        );
        assert_eq!(found, Duplicates { within_train: 1, in_train: 2, with_equal_labels: 1 });
    }

    #[test]
    fn rows_with_equal_features_are_twins_of_the_first_of_them() {
        let features =
            weighted(3, &[vec![(1, 0.5)], vec![], vec![(1, 0.5)], vec![(1, 2.0)], vec![], vec![(1, 0.5)]]);
        let labels = ones(2, &[vec![0], vec![1], vec![], vec![], vec![], vec![]]);
        let rows = LabelledRows { features: &features, labels: &labels, rows: &[0, 1, 2, 3, 4, 5] };
        assert_eq!(rows.twins(), [(2, 0), (5, 0)]);
    }
}
