//! Models that give scores: each is fitted on rows with labels, scores other rows without, and, where there is a
//! closed form, its own rows as if each had been left out.

pub mod blocks;
pub mod cross_fit;
pub mod kernel;
pub mod linear;
pub mod neighbours;
pub mod network;
mod tiles;

use std::path::Path;

use anyhow::Result;
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::Evidence;

use crate::train::host::Host;

/// Causes of a score that are kept where there may be thousands.
const CAUSES: usize = 10;

/// The number that a scorer's evidence is about, as formulas name it.
const SCORE: &str = "r";

/// A fitted model.
pub trait Scorer: Send {
    fn features(&self) -> usize;

    fn labels(&self) -> usize;

    /// The scores of some rows for every label, row-major. Labels of these rows are not an input.
    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()>;

    /// What makes the score of a row for a label: a sum over training rows or over features, where it is one.
    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence;

    /// Of the rows that the model was fitted on, as long as it is the one that was fitted and not one that was
    /// loaded; `None` without a closed form.
    fn left_out(&self) -> Option<&dyn LeftOut>;

    /// Writes all that [`load`] needs into a directory, which is made.
    fn save(&self, directory: &Path) -> Result<()>;
}

/// Scores of training rows, each as the model without that row's label would give it.
pub trait LeftOut: Sync {
    fn scores(&self, row: usize, into: &mut [f32]);
}

/// What a model learns from: all rows of two matrices.
#[derive(Clone)]
pub struct Lesson {
    pub features: Csr,
    pub labels: Csr,
}

/// How to compute, beside the model itself.
pub struct Means<'a> {
    pub seed: u64,
    pub device: tch::Device,
    pub threads: usize,
    /// A directory that outlives a killed run.
    pub checkpoints: Option<&'a Path>,
    pub host: &'a mut dyn Host,
}

/// Fits a model. To be called inside of a pool of [`crate::engine::pool`]'s.
pub fn fit(model: &ModelConfig, lesson: Lesson, means: &mut Means) -> Result<Box<dyn Scorer>> {
    Ok(match model {
        ModelConfig::Ridge { ridge, constant } => {
            Box::new(linear::Linear::fit(&lesson, *ridge, *constant, means.device)?)
        }
        ModelConfig::KernelRidge { gamma, ridge } => {
            let blocks = blocks::Blocks::one(&lesson.features);
            Box::new(kernel::KernelRidge::fit(lesson, blocks, *gamma, *ridge, means.device)?)
        }
        ModelConfig::BlockKernelRidge { gamma, ridge, rows_per_block, largest_block, rounds } => {
            let plan = blocks::Plan {
                rows_per_block: *rows_per_block,
                largest: *largest_block,
                rounds: *rounds,
                seed: means.seed,
            };
            let blocks = blocks::Blocks::by_similarity(&lesson.features, plan);
            Box::new(kernel::KernelRidge::fit(lesson, blocks, *gamma, *ridge, means.device)?)
        }
        ModelConfig::Neighbours { neighbours, weighting } => {
            Box::new(neighbours::NearestLabels::new(lesson, *neighbours, *weighting))
        }
        ModelConfig::Logistic { method } | ModelConfig::Mlp { method } => {
            Box::new(network::Network::fit(&lesson, method, means)?)
        }
    })
}

/// Opens a model that was saved.
pub fn load(
    model: &ModelConfig,
    directory: &Path,
    device: pipe_ml::config::device::Device,
    threads: usize,
) -> Result<Box<dyn Scorer>> {
    Ok(match model {
        ModelConfig::Ridge { constant, .. } => Box::new(linear::Linear::load(directory, *constant)?),
        ModelConfig::KernelRidge { gamma, .. } | ModelConfig::BlockKernelRidge { gamma, .. } => {
            Box::new(kernel::KernelRidge::load(directory, *gamma)?)
        }
        ModelConfig::Neighbours { neighbours, weighting } => {
            Box::new(neighbours::NearestLabels::load(directory, *neighbours, *weighting)?)
        }
        ModelConfig::Logistic { .. } | ModelConfig::Mlp { .. } => {
            Box::new(network::Network::load(directory, device, threads)?)
        }
    })
}

/// Chosen rows of a matrix, as one of their own.
pub fn chosen(matrix: &Csr, rows: &[u32]) -> Csr {
    let mut indptr = vec![0u64];
    let (mut indices, mut values) = (Vec::new(), Vec::new());
    for &row in rows {
        indices.extend_from_slice(matrix.row(row as usize));
        values.extend_from_slice(matrix.row_values(row as usize));
        indptr.push(indices.len() as u64);
    }
    Csr { cols: matrix.cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

#[cfg(test)]
pub mod tests;
