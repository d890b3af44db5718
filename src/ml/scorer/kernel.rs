//! Kernels: how similar two rows are, from 0 to 1.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::config::model::KernelDistance;
use crate::data::csr::Csr;
use crate::data::random::Random;
use crate::signal::dot_index::{DotIndex, Product, entries};

/// The file of a Euclidean kernel. A kernel of cosines has none.
const FILE: &str = "kernel.json";
/// The number of pairs of rows whose distances are measured.
const PAIRS: usize = 2_000;

/// The similarity of two rows: exp(gamma (cos - 1)), or exp(-gamma d² / m) with the squared Euclidean distance d² and the
/// median m of the squared distances of training rows. For rows of length one, most of which have nothing in common, both
/// are the same: d² = 2 - 2 cos, and m = 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    gamma: f32,
    /// The median squared distance; `None` for cosines.
    median: Option<f32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EuclideanKernel {
    median_squared_distance: f32,
}

impl Kernel {
    /// Returns a kernel of cosines.
    pub fn cosine(gamma: f64) -> Self {
        Self { gamma: gamma as f32, median: None }
    }

    /// Returns a kernel for training rows. The median distance is that of a sample of pairs.
    pub fn fit(gamma: f64, distance: KernelDistance, features: &Csr, seed: u64) -> Self {
        let median = (distance == KernelDistance::Euclidean).then(|| median_distance(features, seed));
        Self { median, ..Self::cosine(gamma) }
    }

    /// Opens the kernel of a saved model.
    pub(super) fn load(directory: &Path, gamma: f64) -> Result<Self> {
        let path = directory.join(FILE);
        if !path.is_file() {
            return Ok(Self::cosine(gamma));
        }
        let damaged = || format!("{}: the model is damaged", path.display());
        let stored: EuclideanKernel = serde_json::from_slice(&std::fs::read(&path)?).with_context(damaged)?;
        let median = stored.median_squared_distance;
        ensure!(median > 0.0 && median.is_finite(), damaged());
        Ok(Self { median: Some(median), ..Self::cosine(gamma) })
    }

    /// Writes what [`Self::load`] needs.
    pub(super) fn save(&self, directory: &Path) -> Result<()> {
        if let Some(median_squared_distance) = self.median {
            let text = serde_json::to_vec(&EuclideanKernel { median_squared_distance })?;
            std::fs::write(directory.join(FILE), text)?;
        }
        Ok(())
    }

    /// Returns the similarity, given the cosine or the squared distance.
    pub fn of(&self, measure: f32) -> f32 {
        match self.median {
            None => (self.gamma * (measure - 1.0)).exp(),
            Some(median) => (-self.gamma * measure / median).exp(),
        }
    }

    /// Returns what [`KernelIndex::measures`] are.
    pub fn measure_name(&self) -> &'static str {
        if self.median.is_some() { "squared distance" } else { "cosine" }
    }
}

/// An index of rows, to compute the similarity of another row to all of them.
pub struct KernelIndex {
    kernel: Kernel,
    dots: DotIndex,
    /// The squared length of each row, for distances.
    squares: Vec<f32>,
}

impl KernelIndex {
    /// Indexes some rows of a matrix.
    pub fn new(kernel: Kernel, features: &Csr, rows: &[u32]) -> Self {
        let (product, measured): (_, &[u32]) = match kernel.median {
            None => (Product::Cosine, &[]),
            Some(_) => (Product::Dot, rows),
        };
        let squares = measured.iter().map(|&row| square(features, row as usize)).collect();
        Self { kernel, dots: DotIndex::new(features, rows, product), squares }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.dots.rows()
    }

    /// Computes the cosines or squared distances of a row of `queries` and every indexed row, into zeros.
    pub fn measures(&self, queries: &Csr, row: usize, into: &mut [f32]) {
        self.dots.add_products(queries, row, into);
        if self.kernel.median.is_some() {
            let own = square(queries, row);
            for (value, square) in into.iter_mut().zip(&self.squares) {
                *value = (own + square - 2.0 * *value).max(0.0);
            }
        }
    }

    /// Computes the similarities of a row of `queries` and every indexed row, into zeros.
    pub fn similarities(&self, queries: &Csr, row: usize, into: &mut [f32]) {
        self.measures(queries, row, into);
        for value in into.iter_mut() {
            *value = self.kernel.of(*value);
        }
    }
}

fn square(features: &Csr, row: usize) -> f32 {
    entries(features, row).map(|(_, value)| value * value).sum()
}

/// Returns the median squared distance of pairs of rows; 1 if most rows are equal.
fn median_distance(features: &Csr, seed: u64) -> f32 {
    let mut random = Random::new("kernel distance", seed);
    let rows = features.rows();
    let mut dense = vec![0f32; features.cols];
    let mut distance = || {
        let one = random.below(rows);
        let other = (one + 1 + random.below(rows - 1)) % rows;
        dense.fill(0.0);
        for (feature, value) in entries(features, one) {
            dense[feature as usize] += value;
        }
        for (feature, value) in entries(features, other) {
            dense[feature as usize] -= value;
        }
        dense.iter().map(|value| value * value).sum::<f32>()
    };
    if rows < 2 {
        return 1.0;
    }
    let mut distances: Vec<f32> = (0..PAIRS).map(|_| distance()).collect();
    distances.sort_unstable_by(f32::total_cmp);
    let median = distances[PAIRS / 2];
    if median > 0.0 { median } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[[f32; 3]]) -> Csr {
        let values: Vec<f32> = rows.concat();
        let indices = (0..rows.len()).flat_map(|_| 0..3).collect::<Vec<u32>>();
        let indptr = (0..=rows.len()).map(|row| 3 * row as u64).collect::<Vec<u64>>();
        Csr { cols: 3, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    #[test]
    fn a_euclidean_kernel_follows_its_formula() {
        let rows = matrix(&[[1.0, 2.0, 2.0], [0.0, 0.0, 2.0], [1.0, 2.0, -1.0]]);
        let kernel = Kernel { gamma: 2.0, median: Some(9.0) };
        let index = KernelIndex::new(kernel, &rows, &[0, 1, 2]);
        let mut values = [0.0; 3];
        index.similarities(&rows, 0, &mut values);
        for (value, distance) in values.iter().zip([0.0f32, 5.0, 9.0]) {
            assert!((value - (-2.0 * distance / 9.0).exp()).abs() < 1e-6, "{values:?}");
        }
    }

    #[test]
    fn for_rows_of_length_one_without_common_features_both_kernels_are_the_same() {
        let rows = matrix(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.6, 0.8], [0.0, 0.0, 1.0]]);
        let euclidean = Kernel { gamma: 3.0, median: Some(2.0) };
        let (mut a, mut b) = ([0.0; 4], [0.0; 4]);
        KernelIndex::new(euclidean, &rows, &[0, 1, 2, 3]).similarities(&rows, 2, &mut a);
        KernelIndex::new(Kernel::cosine(3.0), &rows, &[0, 1, 2, 3]).similarities(&rows, 2, &mut b);
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn the_median_distance_depends_on_the_seed_and_the_rows_only() {
        let rows: Vec<[f32; 3]> = (0..50).map(|row| [row as f32, (row % 7) as f32, 1.0]).collect();
        let median = |seed| median_distance(&matrix(&rows), seed);
        assert_eq!(median(0), median(0));
        // The distance of two numbers below 50 has the median 15, and the second feature adds a little.
        assert!((200.0..300.0).contains(&median(0)) && (200.0..300.0).contains(&median(1)));
        assert_eq!(median_distance(&matrix(&[[1.0, 2.0, 3.0]; 4]), 0), 1.0, "equal rows");
    }

    #[test]
    fn a_saved_kernel_is_opened_as_it_was() {
        let temp = tempfile::tempdir().unwrap();
        Kernel::cosine(2.0).save(temp.path()).unwrap();
        assert_eq!(Kernel::load(temp.path(), 2.0).unwrap(), Kernel::cosine(2.0));
        let euclidean = Kernel { gamma: 2.0, median: Some(12.5) };
        euclidean.save(temp.path()).unwrap();
        assert_eq!(Kernel::load(temp.path(), 2.0).unwrap(), euclidean);
        std::fs::write(temp.path().join(FILE), "{\"median_squared_distance\":0}").unwrap();
        assert!(Kernel::load(temp.path(), 2.0).is_err());
    }
}
