//! The centres of blocks of similar rows.

use crate::data::csr::{Csr, DenseMatrix};
use crate::signal::dot_index::entries;

/// Returns the centre that is nearest to a row; of equally near ones, the first.
pub fn nearest(features: &Csr, row: usize, centres: &DenseMatrix) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (number, similarity) in
        similarities(features, row, &centres.values, centres.rows).into_iter().enumerate()
    {
        if similarity > best.1 {
            best = (number, similarity);
        }
    }
    best.0
}

/// Returns the dot product of a row with each centre.
pub fn similarities(features: &Csr, row: usize, centres: &[f32], count: usize) -> Vec<f32> {
    let cols = features.cols;
    let similarity = |number: usize| -> f32 {
        entries(features, row).map(|(feature, value)| value * centres[number * cols + feature as usize]).sum()
    };
    (0..count).map(similarity).collect()
}
