//! Divides labels into groups of similar ones by balanced 2-means of their centroids.

use rayon::prelude::*;

use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::signal::dot_index::entries;

/// The largest number of rounds of 2-means.
const MAX_ROUNDS: usize = 20;
/// 2-means ends when the mean cosine of labels and centres rises by less than this.
const SMALLEST_RISE: f32 = 1e-4;

/// The largest number of features with values in all centroids together: they take 8 bytes each.
const MOST_ENTRIES: u64 = 100_000_000;
/// The number of labels whose centroids are computed at a time.
const LABELS_AT_ONCE: usize = 4096;

/// The centroid of each label: the sum of its training rows, scaled to length one. If there are too many features in all of
/// them, each keeps only its strongest ones.
pub(super) struct Centroids(Csr);

impl Centroids {
    /// Computes the centroids; `rows_of` has the rows of each label.
    pub(super) fn new(features: &Csr, rows_of: &Csr) -> Self {
        Self::with_at_most(MOST_ENTRIES, features, rows_of)
    }

    /// Computes centroids with at most `entries` features in all of them together, but at least one in each.
    fn with_at_most(entries: u64, features: &Csr, rows_of: &Csr) -> Self {
        let counts = (0..rows_of.rows()).into_par_iter().map_init(
            || RowSum::new(features.cols),
            |sum, label| sum.of(features, rows_of.row(label)).len() as u64,
        );
        let counts: Vec<u64> = counts.collect();
        let kept = largest_length(&counts, entries);
        let total = counts.iter().map(|&count| count.min(kept)).sum::<u64>() as usize;
        let mut indptr = vec![0u64];
        let (mut indices, mut values) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for first in (0..counts.len()).step_by(LABELS_AT_ONCE) {
            let labels = (first..counts.len().min(first + LABELS_AT_ONCE)).into_par_iter();
            let centroids = labels.map_init(
                || RowSum::new(features.cols),
                |sum, label| {
                    let mut centroid = sum.of(features, rows_of.row(label));
                    keep_strongest(&mut centroid, kept as usize);
                    scale_to_one(&mut centroid);
                    centroid
                },
            );
            for centroid in centroids.collect::<Vec<_>>() {
                indices.extend(centroid.iter().map(|&(feature, _)| feature));
                values.extend(centroid.iter().map(|&(_, value)| value));
                indptr.push(indices.len() as u64);
            }
        }
        Self(Csr {
            cols: features.cols,
            indptr: indptr.into(),
            indices: indices.into(),
            values: values.into(),
        })
    }

    /// Divides labels into `groups` of nearly equal size. The labels of a group are ascending. `centre` has a zero for
    /// each feature, before and after the call.
    pub(super) fn divide(
        &self,
        labels: Vec<u32>,
        groups: usize,
        random: &mut Random,
        centre: &mut [f32],
    ) -> Vec<Vec<u32>> {
        if groups < 2 || labels.len() < 2 {
            return vec![labels];
        }
        let first_groups = groups.div_ceil(2);
        let (first, second) = self.halve(labels, first_groups, groups, random, centre);
        let mut divided = self.divide(first, first_groups, random, centre);
        divided.extend(self.divide(second, groups - first_groups, random, centre));
        divided
    }

    /// Divides labels into two parts, whose sizes are as `share` to the rest of `whole`.
    fn halve(
        &self,
        labels: Vec<u32>,
        share: usize,
        whole: usize,
        random: &mut Random,
        centre: &mut [f32],
    ) -> (Vec<u32>, Vec<u32>) {
        let size = (labels.len() * share / whole).clamp(1, labels.len() - 1);
        let one = random.below(labels.len());
        let other = (one + 1 + random.below(labels.len() - 1)) % labels.len();
        let mut parts = [vec![labels[one]], vec![labels[other]]];
        let mut reached = f32::NEG_INFINITY;
        for _ in 0..MAX_ROUNDS {
            let cosines = [0, 1].map(|part| self.cosines(&parts[part], &labels, centre));
            let mut order: Vec<usize> = (0..labels.len()).collect();
            let preference = |at: usize| cosines[0][at] - cosines[1][at];
            order.sort_by(|&a, &b| preference(b).total_cmp(&preference(a)).then(a.cmp(&b)));
            let (first, second) = order.split_at(size);
            let sum =
                |part: usize, members: &[usize]| members.iter().map(|&at| cosines[part][at]).sum::<f32>();
            let mean = (sum(0, first) + sum(1, second)) / labels.len() as f32;
            parts = [first, second].map(|members| members.iter().map(|&at| labels[at]).collect());
            if mean - reached < SMALLEST_RISE {
                break;
            }
            reached = mean;
        }
        for part in &mut parts {
            part.sort_unstable();
        }
        let [first, second] = parts;
        (first, second)
    }

    /// Returns the cosines of labels with the centre of some of them. `centre` is zero before and after the call.
    fn cosines(&self, members: &[u32], labels: &[u32], centre: &mut [f32]) -> Vec<f32> {
        for &label in members {
            for (feature, value) in entries(&self.0, label as usize) {
                centre[feature as usize] += value;
            }
        }
        let product = |&label: &u32| -> f32 {
            entries(&self.0, label as usize).map(|(feature, value)| value * centre[feature as usize]).sum()
        };
        let mut cosines: Vec<f32> = labels.iter().map(product).collect();
        // The length of the centre: the sum of its products with its members is its square.
        let square: f64 = members.iter().map(|label| f64::from(product(label))).sum();
        let scale = if square > 0.0 { (1.0 / square.sqrt()) as f32 } else { 0.0 };
        for cosine in &mut cosines {
            *cosine *= scale;
        }
        for &label in members {
            for &feature in self.0.row(label as usize) {
                centre[feature as usize] = 0.0;
            }
        }
        cosines
    }
}

/// Adds up rows. Between two sums, all numbers are zero.
struct RowSum {
    values: Vec<f32>,
    is_used: Vec<bool>,
}

impl RowSum {
    fn new(features: usize) -> Self {
        Self { values: vec![0.0; features], is_used: vec![false; features] }
    }

    /// Returns the features that occur in some rows, ascending, and the sums of their values.
    fn of(&mut self, features: &Csr, rows: &[u32]) -> Vec<(u32, f32)> {
        let mut used = Vec::new();
        for &row in rows {
            for (feature, value) in entries(features, row as usize) {
                if !std::mem::replace(&mut self.is_used[feature as usize], true) {
                    used.push(feature);
                }
                self.values[feature as usize] += value;
            }
        }
        used.sort_unstable();
        let sums = used.into_iter().map(|feature| {
            self.is_used[feature as usize] = false;
            (feature, std::mem::take(&mut self.values[feature as usize]))
        });
        sums.collect()
    }
}

/// Returns the largest length at which lists, cut to it, have at most `total` entries together; at least 1.
fn largest_length(lengths: &[u64], total: u64) -> u64 {
    let fits = |length: u64| lengths.iter().map(|&own| own.min(length)).sum::<u64>() <= total;
    let (mut largest, mut above) = (1, lengths.iter().max().map_or(1, |longest| longest + 1));
    while above - largest > 1 {
        let middle = largest + (above - largest) / 2;
        *if fits(middle) { &mut largest } else { &mut above } = middle;
    }
    largest
}

/// Keeps the values that are farthest from zero, of equal ones those of the lower features, in the order of the features.
fn keep_strongest(values: &mut Vec<(u32, f32)>, count: usize) {
    if values.len() > count {
        let stronger = |a: &(u32, f32), b: &(u32, f32)| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0));
        values.select_nth_unstable_by(count - 1, stronger);
        values.truncate(count);
        values.sort_unstable_by_key(|&(feature, _)| feature);
    }
}

/// Scales values to length one; zeros stay zeros.
fn scale_to_one(values: &mut [(u32, f32)]) {
    let length = values.iter().map(|&(_, value)| f64::from(value).powi(2)).sum::<f64>().sqrt() as f32;
    if length > 0.0 {
        for (_, value) in values {
            *value /= length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::scores::by_column;

    #[test]
    fn centroids_are_cut_to_their_strongest_features_only_if_there_are_too_many() {
        let features = Csr {
            cols: 6,
            indptr: vec![0, 3, 5, 6].into(),
            indices: vec![0, 2, 4, 2, 5, 1].into(),
            values: vec![1.0, -3.0, 2.0, -1.0, 1.0, 4.0].into(),
        };
        // Label 0 has rows 0 and 1, label 1 has row 2, and label 2 has none.
        let labels = Csr::from_rows(3, &[vec![0], vec![0], vec![1]]);
        let centroids = |entries| Centroids::with_at_most(entries, &features, &by_column(&labels)).0;
        let all = centroids(5);
        assert_eq!((all.row(0), all.row(1), all.row(2)), (&[0, 2, 4, 5][..], &[1][..], &[][..]));
        assert_eq!(all, centroids(1000));
        let length = 22f32.sqrt();
        assert_eq!(all.row_values(0), [1.0, -4.0, 2.0, 1.0].map(|value| value / length));
        // Of the two features with equal sums, the lower one is kept.
        assert_eq!(centroids(4).row(0), [0, 2, 4]);
        let two = centroids(3);
        assert_eq!((two.row(0), two.row(1)), (&[2, 4][..], &[1][..]));
        assert_eq!(two.row_values(0), [-4.0, 2.0].map(|value| value / 20f32.sqrt()));
        assert_eq!(centroids(0).row(0), [2], "every label keeps a feature");
    }
}
