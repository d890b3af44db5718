//! Fitted models that give scores without libtorch: ridge regression, kernel ridge regression, neighbours, label trees and
//! extremely randomised trees.
//!
//! The scores of a row depend on the model and on this row only: not on the other rows of a call, and not on the number
//! of threads.

pub mod block_centres;
mod extra_trees;
pub mod kernel;
pub mod kernel_ridge;
mod label_trees;
pub mod linear_ridge;
pub mod nearest_labels;
mod product;
pub mod stored_rows;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::config::model::ModelConfig;
use crate::data::artifact::DenseWriter;
use crate::data::csr::{Csr, DenseMatrix};
use crate::data::examples::Unlabelled;
use crate::explanation::Evidence;
use crate::extra_trees::ExtraTrees;
use crate::label_tree::LabelTrees;

/// How many causes of a score are kept, if there may be thousands.
pub const CAUSES: usize = 10;

/// The name of a scorer's score in the formulas of explanations.
pub const SCORE: &str = "r";

/// How many rows are searched for their labels at a time.
pub const SEARCHED_ROWS: usize = 4096;

/// About how many scores are held in memory at a time.
const HELD_SCORES: usize = 1 << 22;

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
}

/// A search for the labels of rows that avoids the work for all other labels.
pub trait LabelSearch {
    /// Returns the labels of each row with a score above 0, ascending, and their scores.
    fn found(&self, rows: Unlabelled) -> Vec<Vec<(u32, f32)>>;
}

/// Writes the scores of found labels into a row for every label, and 0 for the other labels.
pub fn write_found(found: &[Vec<(u32, f32)>], labels: usize, into: &mut [f32]) {
    into.fill(0.0);
    for (into, found) in into.chunks_exact_mut(labels).zip(found) {
        for &(label, score) in found {
            into[label as usize] = score;
        }
    }
}

/// Opens a saved model, which must have the given size; `None` if it is a network, which needs libtorch. Its files are
/// checked in full before anything is allocated for them, because a user may name any directory.
pub fn load(model: &ModelConfig, directory: &Path, size: ModelSize) -> Result<Option<Box<dyn Scorer>>> {
    Ok(Some(match model {
        ModelConfig::Ridge { constant, .. } => {
            Box::new(linear_ridge::LinearRidge::load(directory, size, *constant)?)
        }
        ModelConfig::KernelRidge { gamma, .. } | ModelConfig::BlockKernelRidge { gamma, .. } => {
            Box::new(kernel_ridge::KernelRidge::load(directory, size, *gamma)?)
        }
        ModelConfig::Neighbours { neighbours, weighting, .. } => {
            Box::new(nearest_labels::NearestLabels::load(directory, size, *neighbours, *weighting)?)
        }
        ModelConfig::LabelTree(config) => {
            let trees = LabelTrees::load(directory, config.beam)?;
            size.check(directory, trees.features(), trees.labels())?;
            Box::new(trees)
        }
        ModelConfig::ExtraTrees(_) => {
            let trees = ExtraTrees::load(directory)?;
            size.check(directory, trees.features(), trees.labels())?;
            Box::new(trees)
        }
        ModelConfig::Logistic { .. } | ModelConfig::Mlp { .. } => return Ok(None),
    }))
}

/// The numbers of features and of labels of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSize {
    pub features: usize,
    pub labels: usize,
}

impl ModelSize {
    /// Returns an error if a part of a model has another size than the model.
    pub fn check(self, part: &Path, features: usize, labels: usize) -> Result<()> {
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

/// Returns how many rows to score at a time.
pub fn rows_at_once(labels: usize) -> usize {
    (HELD_SCORES / labels.max(1)).clamp(16, 1024)
}

/// Writes a dense matrix of a model; values that are not finite are an error.
fn write_dense(path: &Path, matrix: &DenseMatrix) -> Result<()> {
    let mut writer = DenseWriter::create(path, matrix.cols)?;
    writer.append(&matrix.values)?;
    writer.finish().context("the model has parameters that are not finite")?;
    Ok(())
}

#[cfg(test)]
mod tests;
