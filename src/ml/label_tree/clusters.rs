//! Divides labels into groups of similar ones by balanced 2-means of their centroids.

use rayon::prelude::*;

use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::signal::dot_index::entries;

/// The largest number of rounds of 2-means.
const MAX_ROUNDS: usize = 20;
/// 2-means ends when the mean cosine of labels and centres rises by less than this.
const SMALLEST_RISE: f32 = 1e-4;

/// The centroid of each label: the sum of its training rows, scaled to length one.
pub(super) struct Centroids(Csr);

impl Centroids {
    /// Computes the centroids; `rows_of` has the rows of each label.
    pub(super) fn new(features: &Csr, rows_of: &Csr) -> Self {
        let labels = (0..rows_of.rows()).into_par_iter();
        let summed: Vec<(Vec<u32>, Vec<f32>)> = labels
            .map_init(
                || vec![0f32; features.cols],
                |sums, label| {
                    let rows = rows_of.row(label);
                    let mut used: Vec<u32> =
                        rows.iter().flat_map(|&row| features.row(row as usize)).copied().collect();
                    used.sort_unstable();
                    used.dedup();
                    for &row in rows {
                        for (feature, value) in entries(features, row as usize) {
                            sums[feature as usize] += value;
                        }
                    }
                    let mut values: Vec<f32> =
                        used.iter().map(|&feature| std::mem::take(&mut sums[feature as usize])).collect();
                    scale_to_one(&mut values);
                    (used, values)
                },
            )
            .collect();
        let (mut indptr, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
        for (used, sums) in summed {
            indices.extend(used);
            values.extend(sums);
            indptr.push(indices.len() as u64);
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

/// Scales numbers to length one; zeros stay zeros.
fn scale_to_one(values: &mut [f32]) {
    let length = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt() as f32;
    if length > 0.0 {
        for value in values {
            *value /= length;
        }
    }
}
