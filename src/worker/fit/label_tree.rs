//! Label trees, which are written to files while they are fitted.

use std::path::Path;

use anyhow::{Context, Result};
use pipe_ml::composite::copy_tree;
use pipe_ml::config::model::LabelTreeConfig;
use pipe_ml::label_tree::LabelTrees;
use pipe_ml::scorer::Scorer;
use tempfile::TempDir;

use super::{FitContext, FittedModel, LeaveOneOut, TrainingData};

/// Trees with the directory of their files.
pub(super) struct FittedLabelTrees {
    trees: LabelTrees,
    directory: TempDir,
}

impl FittedLabelTrees {
    /// Fits trees.
    pub(super) fn fit(data: &TrainingData, settings: &LabelTreeConfig, context: &FitContext) -> Result<Self> {
        let directory =
            tempfile::tempdir_in(context.scratch).context("cannot create a directory for the trees")?;
        let trees = LabelTrees::fit(&data.features, &data.labels, settings, context.seed, directory.path())?;
        Ok(Self { trees, directory })
    }
}

impl FittedModel for FittedLabelTrees {
    fn scorer(&mut self) -> &mut dyn Scorer {
        &mut self.trees
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        None
    }

    fn save(&self, directory: &Path) -> Result<()> {
        Ok(copy_tree(self.directory.path(), directory)?)
    }
}
