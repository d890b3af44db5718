//! The models of the stage `fit`. Each is fitted on rows with labels and scores rows without labels. If there is a
//! closed form, it also scores its training rows as if each had been left out.

pub mod cross_fit;
pub mod kernel_ridge;
mod label_trees;
pub mod linear_ridge;
pub mod nearest_labels;
pub mod network;
pub mod row_blocks;
mod tiled_inverse;

use std::path::Path;

use anyhow::{Result, ensure};
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::Evidence;
use pipe_ml::label_tree::LabelTrees;

use crate::train::host::TrainingHost;

/// How many causes of a score are kept, if there may be thousands.
const CAUSES: usize = 10;

/// The name of a scorer's score in the formulas of explanations.
const SCORE: &str = "r";

/// A fitted model.
pub trait Scorer: Send {
    /// Returns the number of features that a row may have.
    fn features(&self) -> usize;

    /// Returns the number of labels.
    fn labels(&self) -> usize;

    /// Computes the scores of some rows for every label, row-major. The labels of these rows are not an input.
    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()>;

    /// Returns the search for the labels of a row, for models that give most labels the score 0.
    fn search(&self) -> Option<&dyn LabelSearch> {
        None
    }

    /// Explains the score of a row for a label: the terms of the sum over training rows or features, if it is such a
    /// sum.
    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence;

    /// Returns the leave-one-out scores of the training rows. `None` if there is no closed form, or if the model was
    /// loaded and does not have the data for them.
    fn left_out(&self) -> Option<&dyn LeaveOneOut>;

    /// Creates a directory and writes everything that [`load`] needs into it.
    fn save(&self, directory: &Path) -> Result<()>;
}

/// Leave-one-out scores: the scores of a training row by a model that was fitted without that row.
pub trait LeaveOneOut: Sync {
    /// Computes the scores of a training row for every label.
    fn scores(&self, row: usize, into: &mut [f32]);
}

/// A search for the labels of rows that avoids the work for all other labels.
pub trait LabelSearch {
    /// Returns the labels of each row with a score above 0, ascending, and their scores.
    fn found(&self, rows: Unlabelled) -> Vec<Vec<(u32, f32)>>;
}

/// The rows that a model is fitted on.
#[derive(Clone)]
pub struct TrainingData {
    pub features: Csr,
    pub labels: Csr,
}

/// The settings of a fit that are not part of the model.
pub struct FitContext<'a> {
    pub seed: u64,
    pub device: tch::Device,
    pub threads: usize,
    /// A directory that outlives a killed run; without one, nothing is kept.
    pub checkpoints: Option<&'a Path>,
    pub host: &'a mut dyn TrainingHost,
}

/// Fits a model. Call it in a thread pool from [`crate::engine::pool`].
pub fn fit(model: &ModelConfig, data: TrainingData, context: &mut FitContext) -> Result<Box<dyn Scorer>> {
    Ok(match model {
        ModelConfig::Ridge { ridge, constant } => {
            Box::new(linear_ridge::LinearRidge::fit(&data, *ridge, *constant, context.device)?)
        }
        ModelConfig::KernelRidge { gamma, ridge } => {
            let blocks = row_blocks::RowBlocks::one(&data.features);
            Box::new(kernel_ridge::KernelRidge::fit(data, blocks, *gamma, *ridge, context.device)?)
        }
        ModelConfig::BlockKernelRidge { gamma, ridge, rows_per_block, largest_block, rounds } => {
            let plan = row_blocks::BlockPlan {
                rows_per_block: *rows_per_block,
                largest: *largest_block,
                rounds: *rounds,
                seed: context.seed,
            };
            let blocks = row_blocks::RowBlocks::by_similarity(&data.features, plan);
            Box::new(kernel_ridge::KernelRidge::fit(data, blocks, *gamma, *ridge, context.device)?)
        }
        ModelConfig::Neighbours { neighbours, weighting } => {
            Box::new(nearest_labels::NearestLabels::new(data, *neighbours, *weighting))
        }
        ModelConfig::LabelTree(config) => {
            Box::new(LabelTrees::fit(&data.features, &data.labels, config, context.seed))
        }
        ModelConfig::Logistic { method } | ModelConfig::Mlp { method } => {
            Box::new(network::NetworkScorer::fit(&data, method, context)?)
        }
    })
}

/// Opens a saved model, which must have the given size. Its files are checked in full before anything is allocated for
/// them, because a user may name any directory.
pub fn load(
    model: &ModelConfig,
    directory: &Path,
    size: ModelSize,
    device: pipe_ml::config::device::Device,
    threads: usize,
) -> Result<Box<dyn Scorer>> {
    Ok(match model {
        ModelConfig::Ridge { constant, .. } => {
            Box::new(linear_ridge::LinearRidge::load(directory, size, *constant)?)
        }
        ModelConfig::KernelRidge { gamma, .. } | ModelConfig::BlockKernelRidge { gamma, .. } => {
            Box::new(kernel_ridge::KernelRidge::load(directory, size, *gamma)?)
        }
        ModelConfig::Neighbours { neighbours, weighting } => {
            Box::new(nearest_labels::NearestLabels::load(directory, size, *neighbours, *weighting)?)
        }
        ModelConfig::LabelTree(config) => Box::new(LabelTrees::load(directory, config.beam)?),
        ModelConfig::Logistic { .. } | ModelConfig::Mlp { .. } => {
            Box::new(network::NetworkScorer::load(directory, size, device, threads)?)
        }
    })
}

/// The numbers of features and of labels of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSize {
    pub features: usize,
    pub labels: usize,
}

impl ModelSize {
    /// Returns an error if a part of a model has another size than the model.
    fn check(self, part: &Path, features: usize, labels: usize) -> Result<()> {
        ensure!(
            self == Self { features, labels },
            "{}: this part has {features} features and {labels} labels, but its model has {} and {}",
            part.display(),
            self.features,
            self.labels
        );
        Ok(())
    }
}

/// Returns a matrix of the given rows.
pub fn select_rows(matrix: &Csr, rows: &[u32]) -> Csr {
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
