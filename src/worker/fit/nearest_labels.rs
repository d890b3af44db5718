//! The weighted mean of the labels of the nearest training rows. In leave-one-out scores, a row is never its own
//! neighbour.

use std::path::Path;

use anyhow::{Result, ensure};
use pipe_ml::config::signal::Weighting;
use pipe_ml::data::artifact::{ArtifactCheck, open_csr, write_csr};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Evidence, share};
use pipe_ml::signal::dot_index::{DotIndex, Product};
use pipe_ml::signal::neighbours::weigh;
use rayon::prelude::*;

use super::{LeaveOneOut, ModelSize, SCORE, Scorer, TrainingData};

const FEATURES: &str = "features.csr";
const LABELS: &str = "labels.csr";

/// A nearest-neighbours model.
pub struct NearestLabels {
    data: TrainingData,
    neighbours: usize,
    weighting: Weighting,
    index: DotIndex,
}

impl NearestLabels {
    /// Builds the index over the training rows.
    pub fn new(data: TrainingData, neighbours: usize, weighting: Weighting) -> Self {
        let rows: Vec<u32> = (0..data.features.rows() as u32).collect();
        let index = DotIndex::new(&data.features, &rows, Product::Cosine);
        Self { data, neighbours, weighting, index }
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, neighbours: usize, weighting: Weighting) -> Result<Self> {
        let features = open_csr(&directory.join(FEATURES), ArtifactCheck::Deep)?;
        let labels = open_csr(&directory.join(LABELS), ArtifactCheck::Deep)?;
        size.check(directory, features.cols, labels.cols)?;
        let same_rows = features.rows() == labels.rows();
        ensure!(
            same_rows,
            "{}: the model has a different number of rows of features and of labels",
            directory.display()
        );
        Ok(Self::new(TrainingData { features, labels }, neighbours, weighting))
    }

    /// Computes the weighted mean of the labels of the found rows.
    fn mean(&self, found: Vec<(u32, f32)>, into: &mut [f32]) {
        into.fill(0.0);
        for (row, weight) in weigh(found, self.weighting) {
            for &label in self.data.labels.row(row as usize) {
                into[label as usize] += weight;
            }
        }
    }

    /// Scores a row; `itself` is its number if it is a training row.
    fn score_row(&self, features: &Csr, row: usize, itself: Option<u32>, into: &mut [f32]) {
        let mut scratch = self.index.scratch();
        self.mean(self.index.nearest(features, row, self.neighbours, itself, &mut scratch), into);
    }
}

impl Scorer for NearestLabels {
    fn features(&self) -> usize {
        self.data.features.cols
    }

    fn labels(&self) -> usize {
        self.data.labels.cols
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        let (this, width) = (&*self, self.labels());
        let scored = into.par_chunks_mut(width).zip(rows.rows);
        scored.for_each_init(
            || this.index.scratch(),
            |scratch, (into, &row)| {
                let found = this.index.nearest(rows.features, row as usize, this.neighbours, None, scratch);
                this.mean(found, into);
            },
        );
        Ok(())
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let near = self.index.nearest(features, row, self.neighbours, None, &mut self.index.scratch());
        share::evidence(SCORE, &near, self.weighting, &self.data.labels, label)
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        write_csr(&directory.join(FEATURES), &self.data.features)?;
        write_csr(&directory.join(LABELS), &self.data.labels)?;
        Ok(())
    }
}

impl LeaveOneOut for NearestLabels {
    fn scores(&self, row: usize, into: &mut [f32]) {
        self.score_row(&self.data.features, row, Some(row as u32), into);
    }
}
