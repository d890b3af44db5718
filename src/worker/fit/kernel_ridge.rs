//! Kernel ridge regression, exact within blocks of rows.
//!
//! With k(x, x') = exp(gamma (cos(x, x') - 1)), M = K + ridge I and A = M^-1 Y, the scores of a new row are k(x, .)
//! A. The leave-one-out scores of row i are y_i - A_i / (M^-1)_ii.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_ml::data::artifact::{ArtifactCheck, DenseWriter, open_csr, open_dense, write_csr};
use pipe_ml::data::csr::{Csr, DenseMatrix};
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Cause, CauseSubject, Evidence};
use pipe_ml::signal::dot_index::{DotIndex, Product};
use rayon::prelude::*;

use super::row_blocks::{self, RowBlocks};
use super::tiled_inverse::InverseFactor;
use super::{CAUSES, LeaveOneOut, ModelSize, SCORE, Scorer, TrainingData};
use crate::net::gemm::{MatrixView, multiply};

/// How many rows one thread scores at a time.
const ROWS: usize = 64;

const FEATURES: &str = "features.csr";
const CENTRES: &str = "centres.dense";
/// Row `b` lists the training rows of block `b`.
const BLOCK_ROWS: &str = "block_rows.csr";
/// Row `b` lists the labels that occur in block `b`.
const BLOCK_LABELS: &str = "block_labels.csr";

/// A fitted kernel ridge regression.
pub struct KernelRidge {
    gamma: f32,
    labels: usize,
    features: Csr,
    centres: DenseMatrix,
    blocks: Vec<KernelBlock>,
    /// The data for leave-one-out scores; `None` in a loaded model.
    fitted: Option<KernelTrainingRows>,
}

/// The regression within one block of rows.
struct KernelBlock {
    rows: Vec<u32>,
    /// The labels that occur in the block; the score of all others is 0.
    labels: Vec<u32>,
    /// A, rows x labels.
    dual: DenseMatrix,
    index: DotIndex,
}

/// The data for leave-one-out scores of the training rows.
struct KernelTrainingRows {
    labels: Csr,
    /// The block of each row, and the position of the row in it.
    positions: Vec<(u32, u32)>,
    /// (M^-1)_ii of each row i.
    diagonal: Vec<f64>,
}

/// Returns k(x, x') for a cosine of x and x'.
fn kernel(gamma: f32, cosine: f32) -> f32 {
    (gamma * (cosine - 1.0)).exp()
}

impl KernelBlock {
    /// Fits a block, and returns it with the diagonal of M^-1.
    fn fit(
        data: &TrainingData,
        rows: Vec<u32>,
        gamma: f32,
        ridge: f32,
        device: tch::Device,
    ) -> Result<(Self, Vec<f64>)> {
        let index = DotIndex::new(&data.features, &rows, Product::Cosine);
        let inverse = InverseFactor::of(rows.len(), device, |at, values| {
            index.add_products(&data.features, rows[at] as usize, values);
            for value in values.iter_mut() {
                *value = kernel(gamma, *value);
            }
            values[at] += ridge;
        })
        .context("the kernel matrix cannot be inverted")?;
        let mut labels: Vec<u32> =
            rows.iter().flat_map(|&row| data.labels.row(row as usize)).copied().collect();
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
        Ok((Self { rows, labels, dual, index }, diagonal))
    }

    /// Returns the scores of some rows of `queries` for the block's labels, row-major.
    fn score(&self, gamma: f32, queries: &Csr, rows: &[u32]) -> Vec<f32> {
        let size = self.index.rows();
        let mut kernels = vec![0f32; rows.len() * size];
        for (&row, kernels) in rows.iter().zip(kernels.chunks_exact_mut(size)) {
            self.index.add_products(queries, row as usize, kernels);
            for value in kernels.iter_mut() {
                *value = kernel(gamma, *value);
            }
        }
        let mut scores = vec![0f32; rows.len() * self.labels.len()];
        if !self.labels.is_empty() {
            let dual = MatrixView::new(&self.dual.values, size, self.labels.len());
            multiply(MatrixView::new(&kernels, rows.len(), size), dual, &mut scores, false);
        }
        scores
    }
}

impl KernelRidge {
    /// Fits a regression in each block.
    pub fn fit(
        data: TrainingData,
        blocks: RowBlocks,
        gamma: f64,
        ridge: f64,
        device: tch::Device,
    ) -> Result<Self> {
        let (gamma, ridge) = (gamma as f32, ridge as f32);
        let rows = data.features.rows();
        let mut positions = vec![(0, 0); rows];
        let mut diagonal = vec![0f64; rows];
        let mut fitted = Vec::new();
        for (number, rows) in blocks.rows.into_iter().enumerate() {
            let (block, inverse) = KernelBlock::fit(&data, rows, gamma, ridge, device)?;
            for (at, (&row, value)) in block.rows.iter().zip(inverse).enumerate() {
                positions[row as usize] = (number as u32, at as u32);
                diagonal[row as usize] = value;
            }
            fitted.push(block);
        }
        Ok(Self {
            gamma,
            labels: data.labels.cols,
            features: data.features,
            centres: blocks.centres,
            blocks: fitted,
            fitted: Some(KernelTrainingRows { labels: data.labels, positions, diagonal }),
        })
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, gamma: f64) -> Result<Self> {
        let at = |name: &str| directory.join(name);
        let features = open_csr(&at(FEATURES), ArtifactCheck::Deep)?;
        let centres = open_dense(&at(CENTRES), ArtifactCheck::Deep)?;
        let rows = open_csr(&at(BLOCK_ROWS), ArtifactCheck::Deep)?;
        let labels = open_csr(&at(BLOCK_LABELS), ArtifactCheck::Deep)?;
        size.check(directory, features.cols, labels.cols)?;
        ensure!(
            centres.cols == features.cols
                && rows.cols == features.rows()
                && rows.rows() == labels.rows()
                && rows.rows() == centres.rows
                && rows.rows() > 0,
            "{}: the blocks do not match the training rows; the model is damaged",
            directory.display()
        );
        let load_block = |number: usize| -> Result<KernelBlock> {
            let path = at(&dual_name(number));
            let dual = open_dense(&path, ArtifactCheck::Deep)?;
            let (rows, labels) = (rows.row(number).to_vec(), labels.row(number).to_vec());
            let fits = labels.is_empty() || (dual.rows, dual.cols) == (rows.len(), labels.len());
            ensure!(fits, "{}: the size does not match its block; the model is damaged", path.display());
            let index = DotIndex::new(&features, &rows, Product::Cosine);
            Ok(KernelBlock { rows, labels, dual, index })
        };
        let blocks = (0..rows.rows()).map(load_block).collect::<Result<_>>()?;
        Ok(Self { gamma: gamma as f32, labels: labels.cols, features, centres, blocks, fitted: None })
    }

    /// Returns, for each block, the indices of the rows that it scores.
    fn by_block(&self, rows: Unlabelled) -> Vec<Vec<u32>> {
        let mut indices = vec![Vec::new(); self.blocks.len()];
        let block_of = |&row: &u32| self.nearest(rows.features, row as usize);
        let blocks: Vec<usize> = rows.rows.par_iter().map(block_of).collect();
        for (block, index) in blocks.into_iter().zip(0..) {
            indices[block].push(index);
        }
        indices
    }

    /// Returns the block that scores a row.
    fn nearest(&self, features: &Csr, row: usize) -> usize {
        match self.blocks.len() {
            1 => 0,
            _ => row_blocks::nearest(features, row, &self.centres),
        }
    }
}

/// Returns the name of the file with A of a block.
fn dual_name(block: usize) -> String {
    format!("dual-{block}.dense")
}

impl Scorer for KernelRidge {
    fn features(&self) -> usize {
        self.features.cols
    }

    fn labels(&self) -> usize {
        self.labels
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        into.fill(0.0);
        for (block, indices) in self.blocks.iter().zip(self.by_block(rows)) {
            let scored = indices.par_chunks(ROWS).map(|indices| {
                let chosen: Vec<u32> = indices.iter().map(|&index| rows.rows[index as usize]).collect();
                block.score(self.gamma, rows.features, &chosen)
            });
            let scored: Vec<Vec<f32>> = scored.collect();
            let width = block.labels.len().max(1);
            let scores = scored.iter().flat_map(|scores| scores.chunks_exact(width));
            for (&index, scores) in indices.iter().zip(scores) {
                let into = &mut into[index as usize * self.labels..][..self.labels];
                for (&label, &score) in block.labels.iter().zip(scores) {
                    into[label as usize] = score;
                }
            }
        }
        Ok(())
    }

    /// Returns training rows as causes. The model keeps no labels, so that a cause does not say whether its row has the
    /// label.
    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let block = &self.blocks[self.nearest(features, row)];
        let (rows, blocks) = (block.rows.len(), self.blocks.len());
        let among = if blocks == 1 {
            format!("{rows} training rows")
        } else {
            format!("the {rows} rows of one of {blocks} blocks")
        };
        let Ok(column) = block.labels.binary_search(&label) else {
            return Evidence::none(SCORE, format!("no row has the label, among {among}"));
        };
        let mut cosines = vec![0f32; block.rows.len()];
        block.index.add_products(features, row, &mut cosines);
        let coefficient = |at: usize| f64::from(block.dual.row(at)[column]);
        let similarity = |at: usize| f64::from(kernel(self.gamma, cosines[at]));
        let values: Vec<f64> = (0..cosines.len()).map(|at| similarity(at) * coefficient(at)).collect();
        let words = format!("k * coefficient, over {among}");
        Evidence::new(SCORE, words, &values, CAUSES, |at| {
            let inputs =
                [("cosine", cosines[at].into()), ("k", similarity(at)), ("coefficient", coefficient(at))];
            Cause::new(CauseSubject::TrainingRow { row: block.rows[at] }, &inputs, values[at])
        })
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        self.fitted.as_ref().map(|_| self as &dyn LeaveOneOut)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let at = |name: &str| directory.join(name);
        write_csr(&at(FEATURES), &self.features)?;
        write_dense(&at(CENTRES), &self.centres)?;
        let of_blocks =
            |field: fn(&KernelBlock) -> &Vec<u32>| self.blocks.iter().map(field).collect::<Vec<_>>();
        write_csr(&at(BLOCK_ROWS), &Csr::from_rows(self.features.rows(), &of_blocks(|block| &block.rows)))?;
        write_csr(&at(BLOCK_LABELS), &Csr::from_rows(self.labels, &of_blocks(|block| &block.labels)))?;
        for (number, block) in self.blocks.iter().enumerate() {
            write_dense(&at(&dual_name(number)), &block.dual)?;
        }
        Ok(())
    }
}

impl LeaveOneOut for KernelRidge {
    fn scores(&self, row: usize, into: &mut [f32]) {
        into.fill(0.0);
        let Some(fitted) = &self.fitted else { return };
        let (block, at) = fitted.positions[row];
        let block = &self.blocks[block as usize];
        let diagonal = fitted.diagonal[row];
        if block.labels.is_empty() {
            return;
        }
        for (&label, &dual) in block.labels.iter().zip(block.dual.row(at as usize)) {
            into[label as usize] = (-f64::from(dual) / diagonal) as f32;
        }
        for &label in fitted.labels.row(row) {
            into[label as usize] += 1.0;
        }
    }
}

/// Writes a dense matrix of a model; values that are not finite are an error.
pub fn write_dense(path: &Path, matrix: &DenseMatrix) -> Result<()> {
    let mut writer = DenseWriter::create(path, matrix.cols)?;
    writer.append(&matrix.values)?;
    writer.finish().context("the model has parameters that are not finite")?;
    Ok(())
}
