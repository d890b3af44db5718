//! The fit of a kernel ridge regression, exact within blocks of rows.
//!
//! With a kernel k, M = K + ridge I and A = M^-1 Y, the scores of a new row are k(x, .) A. The leave-one-out scores of row i are y_i - A_i / (M^-1)_ii.

use std::path::Path;

use anyhow::{Context, Result};
use pipe_ml::data::csr::{Csr, DenseMatrix};
use pipe_ml::scorer::Scorer;
use pipe_ml::scorer::kernel::{Kernel, KernelIndex};
use pipe_ml::scorer::kernel_ridge::{KernelBlock, KernelRidge};

use super::row_blocks::RowBlocks;
use super::tiled_inverse::InverseFactor;
use super::{FittedModel, LeaveOneOut, TrainingData};
use crate::net::gemm::{MatrixView, multiply_by_libtorch};

/// A kernel ridge regression with the data for leave-one-out scores.
pub struct FittedKernelRidge {
    model: KernelRidge,
    rows: KernelTrainingRows,
}

/// The data for leave-one-out scores of the training rows.
struct KernelTrainingRows {
    labels: Csr,
    /// The block of each row, and the position of the row in it.
    positions: Vec<(u32, u32)>,
    /// (M^-1)_ii of each row i.
    diagonal: Vec<f64>,
}

/// Fits a block, and returns it with the diagonal of M^-1.
fn fit_block(
    data: &TrainingData,
    rows: Vec<u32>,
    kernel: Kernel,
    ridge: f32,
    device: tch::Device,
) -> Result<(KernelBlock, Vec<f64>)> {
    let index = KernelIndex::new(kernel, &data.features, &rows);
    let inverse = InverseFactor::of(rows.len(), device, |at, values| {
        index.similarities(&data.features, rows[at] as usize, values);
        values[at] += ridge;
    })
    .context("the kernel matrix cannot be inverted")?;
    let mut labels: Vec<u32> = rows.iter().flat_map(|&row| data.labels.row(row as usize)).copied().collect();
    labels.sort_unstable();
    labels.dedup();
    let column_of = |label: u32| labels.partition_point(|&other| other < label);
    let width = labels.len();
    let mut dual = vec![0f32; rows.len() * width];
    inverse.solve(
        width,
        |columns, right| {
            for (at, &row) in rows.iter().enumerate() {
                let own_columns = data.labels.row(row as usize).iter().map(|&label| column_of(label));
                for column in own_columns.filter(|column| columns.contains(column)) {
                    right[at * columns.len() + column - columns.start] = 1.0;
                }
            }
        },
        |columns, solution| {
            for (row, part) in solution.chunks_exact(columns.len()).enumerate() {
                dual[row * width..][columns.clone()].copy_from_slice(part);
            }
        },
    )?;
    let diagonal = inverse.diagonal()?;
    let dual = DenseMatrix { rows: rows.len(), cols: width, values: dual.into() };
    Ok((KernelBlock { rows, labels, dual, index }, diagonal))
}

impl FittedKernelRidge {
    /// Fits a regression in each block.
    pub fn fit(
        data: TrainingData,
        blocks: RowBlocks,
        kernel: Kernel,
        ridge: f64,
        device: tch::Device,
    ) -> Result<Self> {
        let ridge = ridge as f32;
        let rows = data.features.rows();
        let mut positions = vec![(0, 0); rows];
        let mut diagonal = vec![0f64; rows];
        let mut fitted = Vec::new();
        for (number, rows) in blocks.rows.into_iter().enumerate() {
            let (block, inverse) = fit_block(&data, rows, kernel, ridge, device)?;
            for (at, (&row, value)) in block.rows.iter().zip(inverse).enumerate() {
                positions[row as usize] = (number as u32, at as u32);
                diagonal[row as usize] = value;
            }
            fitted.push(block);
        }
        let labels = data.labels.cols;
        // libtorch's product, because the version of `fit` stands for the bytes of the scores out of fold.
        let model = KernelRidge::new(kernel, labels, data.features, blocks.centres, fitted, by_libtorch);
        Ok(Self { model, rows: KernelTrainingRows { labels: data.labels, positions, diagonal } })
    }
}

fn by_libtorch(kernels: &[f32], dual: &DenseMatrix, scores: &mut [f32]) {
    let rows = kernels.len() / dual.rows;
    let kernels = MatrixView::new(kernels, rows, dual.rows);
    multiply_by_libtorch(kernels, MatrixView::new(&dual.values, dual.rows, dual.cols), scores, false);
}

impl FittedModel for FittedKernelRidge {
    fn scorer(&mut self) -> &mut dyn Scorer {
        &mut self.model
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        self.model.save(directory)
    }
}

impl LeaveOneOut for FittedKernelRidge {
    fn scores(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        let (block, at) = self.rows.positions[row];
        let block = &self.model.blocks()[block as usize];
        let diagonal = self.rows.diagonal[row];
        if block.labels.is_empty() {
            return;
        }
        for (&label, &dual) in block.labels.iter().zip(block.dual.row(at as usize)) {
            into[label as usize] = (-f64::from(dual) / diagonal) as f32;
        }
        for &label in self.rows.labels.row(row) {
            into[label as usize] += 1.0;
        }
    }
}
