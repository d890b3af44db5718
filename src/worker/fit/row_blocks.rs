//! Blocks of similar rows, by spherical k-means on the features.
//!
//! Labels are not used, so that the block of a row reveals nothing about its own labels.

use rayon::prelude::*;

use pipe_ml::data::csr::{Csr, DenseMatrix};
use pipe_ml::data::random::Random;
use pipe_ml::scorer::block_centres::similarities;
use pipe_ml::signal::dot_index::{entries, inverse_norm};

/// A partition of the rows into blocks, and the centre of each block.
pub struct RowBlocks {
    /// The centres, scaled to length one; one row per block.
    pub centres: DenseMatrix,
    /// The rows of each block, ascending. No block is empty.
    pub rows: Vec<Vec<u32>>,
}

/// How to divide rows into blocks.
#[derive(Debug, Clone, Copy)]
pub struct BlockPlan {
    /// The wanted mean number of rows per block.
    pub rows_per_block: usize,
    /// The largest number of rows that a block may have.
    pub largest: usize,
    /// The number of k-means iterations.
    pub rounds: usize,
    /// The seed of the first centres.
    pub seed: u64,
}

impl RowBlocks {
    /// Puts all rows into one block.
    pub fn one(features: &Csr) -> Self {
        let rows: Vec<u32> = (0..features.rows() as u32).collect();
        Self {
            centres: DenseMatrix { rows: 1, cols: features.cols, values: centre(features, &rows).into() },
            rows: vec![rows],
        }
    }

    /// Divides the rows into blocks of similar rows.
    pub fn by_similarity(features: &Csr, plan: BlockPlan) -> Self {
        let rows = features.rows();
        let count = ((rows as f64 / plan.rows_per_block as f64).round() as usize)
            .max(rows.div_ceil(plan.largest.max(1)));
        if count <= 1 {
            return Self::one(features);
        }
        let starts = Random::new("block centres", plan.seed).permutation(rows);
        let mut centres: Vec<f32> =
            starts[..count].iter().flat_map(|&row| centre(features, &[row])).collect();
        let mut members = Vec::new();
        for _ in 0..plan.rounds {
            members = assigned(features, &centres, count, rows);
            let moved: Vec<Vec<f32>> = members.par_iter().map(|rows| centre(features, rows)).collect();
            for (number, moved) in
                moved.into_iter().enumerate().filter(|(number, _)| !members[*number].is_empty())
            {
                centres[number * features.cols..][..features.cols].copy_from_slice(&moved);
            }
        }
        if members.iter().any(|rows| rows.len() > plan.largest) {
            members = assigned(features, &centres, count, plan.largest);
        }
        let cols = features.cols;
        let kept: Vec<usize> = (0..count).filter(|&number| !members[number].is_empty()).collect();
        let values: Vec<f32> =
            kept.iter().flat_map(|&number| centres[number * cols..][..cols].to_vec()).collect();
        let rows = kept.iter().map(|&number| std::mem::take(&mut members[number])).collect();
        Self { centres: DenseMatrix { rows: kept.len(), cols, values: values.into() }, rows }
    }
}

/// Assigns each row to its nearest centre, nearest rows first. If that block is full, the row goes to the next nearest.
fn assigned(features: &Csr, centres: &[f32], count: usize, largest: usize) -> Vec<Vec<u32>> {
    let rows = features.rows() as u32;
    let preferences = |row: u32| {
        let scale = inverse_norm(features, row as usize);
        let near = similarities(features, row as usize, centres, count);
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by(|&a, &b| near[b as usize].total_cmp(&near[a as usize]).then(a.cmp(&b)));
        (near[order[0] as usize] * scale, row, order)
    };
    let mut members = vec![Vec::new(); count];
    if largest >= features.rows() {
        let first: Vec<u32> = (0..rows).into_par_iter().map(|row| preferences(row).2[0]).collect();
        for (&block, row) in first.iter().zip(0..) {
            members[block as usize].push(row);
        }
        return members;
    }
    let mut queue: Vec<_> = (0..rows).into_par_iter().map(preferences).collect();
    queue.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, row, order) in queue {
        // There is room for every row, because there are at least rows / largest blocks.
        if let Some(&block) = order.iter().find(|&&block| members[block as usize].len() < largest) {
            members[block as usize].push(row);
        }
    }
    for rows in &mut members {
        rows.sort_unstable();
    }
    members
}

/// Returns the mean of rows, each scaled to length one, scaled to length one.
fn centre(features: &Csr, rows: &[u32]) -> Vec<f32> {
    let mut sums = vec![0f64; features.cols];
    for &row in rows {
        let scale = f64::from(inverse_norm(features, row as usize));
        for (feature, value) in entries(features, row as usize) {
            sums[feature as usize] += scale * f64::from(value);
        }
    }
    let norm = sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt();
    let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
    sums.into_iter().map(|sum| (sum * scale) as f32).collect()
}
