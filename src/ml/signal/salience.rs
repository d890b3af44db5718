//! [`LabelCentroids`]: how salient a label is for a row, by the training rows that have the label.

use rayon::prelude::*;

use super::dot_index::{DotIndex, Product, entries};
use crate::data::csr::Csr;
use crate::data::examples::Examples;

/// For each label, the sum of its training rows, each scaled to length one.
pub struct LabelCentroids {
    index: DotIndex,
    /// The length of each sum.
    lengths: Vec<f32>,
    /// The number of training rows with features that have the label.
    counts: Vec<u32>,
}

impl LabelCentroids {
    /// Sums the training rows of each label.
    pub fn new(train: Examples) -> Self {
        let (features, labels) = (train.features, train.labels);
        let mut rows_of = vec![Vec::new(); labels.cols];
        for &row in train.rows.iter().filter(|&&row| !features.row(row as usize).is_empty()) {
            for &label in labels.row(row as usize) {
                rows_of[label as usize].push(row as usize);
            }
        }
        let sums: Vec<(Vec<u32>, Vec<f32>)> = rows_of
            .par_iter()
            .map_init(|| FeatureSums::new(features.cols), |sums, rows| sums.of(features, rows))
            .collect();
        let length = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt() as f32;
        let mut indptr = vec![0];
        indptr.extend(sums.iter().scan(0, |end, (indices, _)| {
            *end += indices.len() as u64;
            Some(*end)
        }));
        let lengths = sums.iter().map(|(_, values)| length(values)).collect();
        let (indices, values): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
        let centroids = Csr {
            cols: features.cols,
            indptr: indptr.into(),
            indices: indices.concat().into(),
            values: values.concat().into(),
        };
        let all: Vec<u32> = (0..labels.cols as u32).collect();
        let counts = rows_of.iter().map(|rows| rows.len() as u32).collect();
        Self { index: DotIndex::new(&centroids, &all, Product::Cosine), lengths, counts }
    }

    /// Returns the cosine of a row with the centroid of each label, for the labels where it is not zero. If the row is a
    /// training row, `own` are its labels, and it is left out of their centroids.
    pub fn of(&self, features: &Csr, row: usize, own: &[u32]) -> Vec<(u32, f64)> {
        let mut cosines = vec![0.0; self.lengths.len()];
        self.index.add_products(features, row, &mut cosines);
        if !features.row(row).is_empty() {
            for &label in own {
                let label = label as usize;
                cosines[label] = self.without_itself(label, cosines[label]);
            }
        }
        let all = (0..).zip(cosines).filter(|&(_, cosine)| cosine != 0.0);
        all.map(|(label, cosine)| (label, cosine.into())).collect()
    }

    /// Returns the cosine of a row of length one with the centroid of a label that it has, without the row itself. With
    /// the sum c and the row x, it is (x · c - 1) / |c - x|.
    fn without_itself(&self, label: usize, cosine: f32) -> f32 {
        if self.counts[label] < 2 {
            return 0.0;
        }
        let length = f64::from(self.lengths[label]);
        let product = f64::from(cosine) * length;
        let square = length * length - 2.0 * product + 1.0;
        if square > 1e-6 { ((product - 1.0) / square.sqrt()).clamp(-1.0, 1.0) as f32 } else { 0.0 }
    }
}

/// Sums sparse rows. Can be reused from sum to sum.
struct FeatureSums {
    sums: Vec<f64>,
    seen: Vec<u32>,
}

impl FeatureSums {
    fn new(features: usize) -> Self {
        Self { sums: vec![0.0; features], seen: Vec::new() }
    }

    /// Returns features and values of the sum of some rows, each scaled to length one.
    fn of(&mut self, features: &Csr, rows: &[usize]) -> (Vec<u32>, Vec<f32>) {
        for &row in rows {
            let scale = f64::from(Product::Cosine.scale(features, row));
            for (feature, value) in entries(features, row) {
                self.sums[feature as usize] += scale * f64::from(value);
                self.seen.push(feature);
            }
        }
        self.seen.sort_unstable();
        self.seen.dedup();
        let sums = &mut self.sums;
        self.seen
            .drain(..)
            .map(|feature| (feature, std::mem::take(&mut sums[feature as usize]) as f32))
            .unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Csr {
        let rows: [&[(u32, f32)]; 5] = [
            &[(0, 1.0), (1, 2.0)],
            &[(0, 3.0), (2, 1.0)],
            &[(1, 1.0), (2, 4.0)],
            &[],
            &[(0, 2.0), (1, 1.0), (2, 1.0)],
        ];
        let ends: Vec<u64> =
            (0..=5).map(|end| rows[..end].iter().map(|row| row.len() as u64).sum()).collect();
        let all = rows.concat();
        Csr {
            cols: 3,
            indptr: ends.into(),
            indices: all.iter().map(|entry| entry.0).collect::<Vec<_>>().into(),
            values: all.iter().map(|entry| entry.1).collect::<Vec<_>>().into(),
        }
    }

    fn centroids(labels: &[Vec<u32>]) -> LabelCentroids {
        let rows: Vec<u32> = (0..5).collect();
        LabelCentroids::new(Examples {
            features: &features(),
            labels: &Csr::from_rows(3, labels),
            rows: &rows,
        })
    }

    #[test]
    fn a_training_row_has_the_salience_that_it_has_without_its_own_labels() {
        let labels = [vec![0, 1], vec![0], vec![0, 2], vec![0, 2], vec![2]];
        let all = centroids(&labels);
        for (row, own) in labels.iter().enumerate() {
            let mut others = labels.clone();
            others[row].clear();
            let ours = all.of(&features(), row, own);
            let expected = centroids(&others).of(&features(), row, &[]);
            assert_eq!(ours.len(), expected.len(), "{row}: {ours:?} {expected:?}");
            for (a, b) in ours.iter().zip(&expected) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-5, "{row}: {ours:?} {expected:?}");
            }
        }
    }

    #[test]
    fn the_salience_of_a_new_row_is_its_cosine_with_the_sum_of_the_rows_of_the_label() {
        let all = centroids(&[vec![0], vec![0], vec![], vec![1], vec![2]]);
        let (a, b) = (5f64.sqrt(), 10f64.sqrt());
        let sum = [1.0 / a + 3.0 / b, 2.0 / a, 1.0 / b];
        let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
        let expected = (sum[1] + 4.0 * sum[2]) / (17f64.sqrt() * length);
        let found = all.of(&features(), 2, &[]);
        assert_eq!(
            found.iter().map(|entry| entry.0).collect::<Vec<_>>(),
            [0, 2],
            "label 1 has no row with features"
        );
        assert!((found[0].1 - expected).abs() < 1e-6, "{found:?} {expected}");
        assert!(all.of(&features(), 3, &[1]).is_empty(), "a row without features");
    }
}
