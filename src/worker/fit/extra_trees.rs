//! Extremely randomised trees, which score a training row by the trees that did not draw it.

use std::path::Path;

use anyhow::Result;
use pipe_ml::config::model::ExtraTreesConfig;
use pipe_ml::extra_trees::ExtraTrees;
use pipe_ml::scorer::Scorer;

use super::{FittedModel, LeaveOneOut, TrainingData};

/// Trees with the data for the scores of rows that were left out.
pub(super) struct FittedTrees {
    trees: ExtraTrees,
    data: TrainingData,
    /// The number of rows with each label.
    counts: Vec<u32>,
}

impl FittedTrees {
    /// Grows the trees.
    pub(super) fn fit(data: TrainingData, settings: &ExtraTreesConfig, seed: u64) -> Self {
        let mut counts = vec![0; data.labels.cols];
        for &label in data.labels.indices.iter() {
            counts[label as usize] += 1;
        }
        Self { trees: ExtraTrees::fit(&data.features, &data.labels, settings, seed), data, counts }
    }
}

impl FittedModel for FittedTrees {
    fn scorer(&mut self) -> &mut dyn Scorer {
        &mut self.trees
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        Ok(self.trees.save(directory)?)
    }
}

impl LeaveOneOut for FittedTrees {
    fn scores(&self, row: usize, into: &mut [f32]) {
        if self.trees.score_left_out(&self.data.features, row, into) {
            return;
        }
        // Every tree has drawn the row: the shares of all other rows are the score of a tree that knows nothing else.
        let others = (self.data.labels.rows() - 1) as f32;
        for (score, &count) in into.iter_mut().zip(&self.counts) {
            *score = count as f32 / others;
        }
        for &label in self.data.labels.row(row) {
            into[label as usize] -= 1.0 / others;
        }
    }
}
