//! The fits of the stage `fit`. If there is a closed form, or if every training row was left out of some trees, a fitted model
//! also scores its training rows as if each had been left out. Models that need no libtorch to score rows are in [`pipe_ml::scorer`].

pub mod cross_fit;
mod extra_trees;
pub mod kernel_ridge;
mod label_tree;
pub mod linear_ridge;
pub mod memory;
pub mod network;
pub mod row_blocks;
mod tiled_inverse;

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::random::Random;
use pipe_ml::scorer::kernel::Kernel;
use pipe_ml::scorer::nearest_labels::NearestLabels;
use pipe_ml::scorer::{self, ModelSize, Scorer, write_found};

use crate::train::host::TrainingHost;

/// A model that was just fitted.
pub trait FittedModel: Send {
    /// Returns the model.
    fn scorer(&mut self) -> &mut dyn Scorer;

    /// Returns the scores of the training rows without their own labels; `None` if this needs folds.
    fn left_out(&self) -> Option<&dyn LeaveOneOut>;

    /// Creates a directory and writes everything that [`load`] needs into it.
    fn save(&self, directory: &Path) -> Result<()>;
}

/// The scores of a training row by a model that was fitted without that row.
pub trait LeaveOneOut: Sync {
    /// Computes the scores of a training row for every label.
    fn scores(&self, row: usize, into: &mut [f32]);

    /// Returns the search for the labels of a row, for models that give most labels the score 0.
    fn search(&self) -> Option<&dyn LeftOutSearch> {
        None
    }
}

/// A search for the labels of training rows, as if each had been left out, that avoids the work for all other labels.
pub trait LeftOutSearch {
    /// Returns the labels of each training row with a score above 0, ascending, and their scores.
    fn found(&self, rows: Range<usize>) -> Vec<Vec<(u32, f32)>>;
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
    /// A directory for temporary files, which must exist as long as the fitted model is used.
    pub scratch: &'a Path,
    pub host: &'a mut dyn TrainingHost,
}

/// Fits a model. Call it in a thread pool from [`crate::engine::pool`].
pub fn fit(
    model: &ModelConfig,
    data: TrainingData,
    context: &mut FitContext,
) -> Result<Box<dyn FittedModel>> {
    Ok(match model {
        ModelConfig::Ridge { ridge, constant } => {
            Box::new(linear_ridge::FittedRidge::fit(&data, *ridge, *constant, context.device)?)
        }
        ModelConfig::KernelRidge { gamma, ridge, distance, memory_gb: _ } => {
            let blocks = row_blocks::RowBlocks::one(&data.features);
            let kernel = Kernel::fit(*gamma, *distance, &data.features, context.seed);
            Box::new(kernel_ridge::FittedKernelRidge::fit(data, blocks, kernel, *ridge, context.device)?)
        }
        ModelConfig::BlockKernelRidge { gamma, ridge, distance, rows_per_block, largest_block, rounds } => {
            let plan = row_blocks::BlockPlan {
                rows_per_block: *rows_per_block,
                largest: *largest_block,
                rounds: *rounds,
                seed: context.seed,
            };
            let blocks = row_blocks::RowBlocks::by_similarity(&data.features, plan);
            let kernel = Kernel::fit(*gamma, *distance, &data.features, context.seed);
            Box::new(kernel_ridge::FittedKernelRidge::fit(data, blocks, kernel, *ridge, context.device)?)
        }
        ModelConfig::Neighbours { neighbours, weighting, searched_rows } => {
            let TrainingData { features, labels } = data;
            let all = features.rows();
            Box::new(match searched_rows.filter(|&count| count < all) {
                Some(count) => {
                    let mut rows = Random::new("searched rows", context.seed).permutation(all);
                    rows.truncate(count);
                    rows.sort_unstable();
                    NearestLabels::of_a_sample(features, &labels, rows, *neighbours, *weighting)
                }
                None => NearestLabels::new(features, labels, *neighbours, *weighting),
            })
        }
        ModelConfig::LabelTree(config) => {
            Box::new(label_tree::FittedLabelTrees::fit(&data, config, context)?)
        }
        ModelConfig::ExtraTrees(config) => {
            Box::new(extra_trees::FittedTrees::fit(data, config, context.seed))
        }
        ModelConfig::Logistic { method } | ModelConfig::Mlp { method } => {
            Box::new(network::NetworkScorer::fit(&data, method, context)?)
        }
    })
}

/// Opens a saved model of any kind, which must have the given size.
pub fn load(
    model: &ModelConfig,
    directory: &Path,
    size: ModelSize,
    device: pipe_ml::config::device::Device,
    threads: usize,
) -> Result<Box<dyn Scorer>> {
    match scorer::load(model, directory, size)? {
        Some(scorer) => Ok(scorer),
        None => Ok(Box::new(network::NetworkScorer::load(directory, size, device, threads)?)),
    }
}

impl FittedModel for NearestLabels {
    fn scorer(&mut self) -> &mut dyn Scorer {
        self
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        self.save(directory)
    }
}

impl LeaveOneOut for NearestLabels {
    fn scores(&self, row: usize, into: &mut [f32]) {
        write_found(&self.found_left_out(row..row + 1), into.len(), into);
    }

    fn search(&self) -> Option<&dyn LeftOutSearch> {
        Some(self)
    }
}

impl LeftOutSearch for NearestLabels {
    fn found(&self, rows: Range<usize>) -> Vec<Vec<(u32, f32)>> {
        self.found_left_out(rows)
    }
}

#[cfg(test)]
pub mod tests;
