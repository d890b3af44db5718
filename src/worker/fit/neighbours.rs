//! The weighted mean of the labels of the nearest training rows. A training row is never its own neighbour.

use std::path::Path;

use anyhow::{Result, ensure};
use pipe_ml::config::signal::Weighting;
use pipe_ml::data::artifact::{Check, open_csr, write_csr};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::explanation::{Evidence, share};
use pipe_ml::signal::dot_index::{DotIndex, Product};
use pipe_ml::signal::neighbours::weigh;
use rayon::prelude::*;

use super::{LeftOut, Lesson, SCORE, Scorer};

const FEATURES: &str = "features.csr";
const LABELS: &str = "labels.csr";

pub struct NearestLabels {
    lesson: Lesson,
    neighbours: usize,
    weighting: Weighting,
    index: DotIndex,
}

impl NearestLabels {
    pub fn new(lesson: Lesson, neighbours: usize, weighting: Weighting) -> Self {
        let rows: Vec<u32> = (0..lesson.features.rows() as u32).collect();
        let index = DotIndex::new(&lesson.features, &rows, Product::Cosine);
        Self { lesson, neighbours, weighting, index }
    }

    pub fn load(directory: &Path, neighbours: usize, weighting: Weighting) -> Result<Self> {
        let features = open_csr(&directory.join(FEATURES), Check::Header)?;
        let labels = open_csr(&directory.join(LABELS), Check::Header)?;
        let fits = features.rows() == labels.rows();
        ensure!(fits, "{}: there are not as many rows of labels as of features", directory.display());
        Ok(Self::new(Lesson { features, labels }, neighbours, weighting))
    }

    fn mean(&self, found: Vec<(u32, f32)>, into: &mut [f32]) {
        into.fill(0.0);
        for (row, weight) in weigh(found, self.weighting) {
            self.lesson.labels.row(row as usize).iter().for_each(|&label| into[label as usize] += weight);
        }
    }

    fn score_row(&self, features: &Csr, row: usize, itself: Option<u32>, into: &mut [f32]) {
        let mut scratch = self.index.scratch();
        self.mean(self.index.nearest(features, row, self.neighbours, itself, &mut scratch), into);
    }
}

impl Scorer for NearestLabels {
    fn features(&self) -> usize {
        self.lesson.features.cols
    }

    fn labels(&self) -> usize {
        self.lesson.labels.cols
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
        share::evidence(SCORE, &near, self.weighting, &self.lesson.labels, label)
    }

    fn left_out(&self) -> Option<&dyn LeftOut> {
        Some(self)
    }

    fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        write_csr(&directory.join(FEATURES), &self.lesson.features)?;
        write_csr(&directory.join(LABELS), &self.lesson.labels)?;
        Ok(())
    }
}

impl LeftOut for NearestLabels {
    fn scores(&self, row: usize, into: &mut [f32]) {
        self.score_row(&self.lesson.features, row, Some(row as u32), into);
    }
}
