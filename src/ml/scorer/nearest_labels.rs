//! The weighted mean of the labels of the nearest training rows. In leave-one-out scores, a row is never its own
//! neighbour.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, ensure};
use rayon::prelude::*;

use super::{LabelSearch, ModelSize, SCORE, Scorer, stored_rows, write_found};
use crate::config::signal::Weighting;
use crate::data::artifact::{ArtifactCheck, open_csr, write_csr};
use crate::data::csr::Csr;
use crate::data::examples::Unlabelled;
use crate::explanation::{Evidence, share};
use crate::signal::dot_index::{DotIndex, DotScratch, Product};
use crate::signal::neighbours::weigh;

/// If only a sample is searched: one row with the numbers of its rows among all training rows.
const SAMPLE: &str = "sample.csr";

/// A nearest-neighbours model.
pub struct NearestLabels {
    features: Csr,
    train_labels: Csr,
    neighbours: usize,
    weighting: Weighting,
    index: DotIndex,
    sample: Option<Sample>,
}

/// The training rows that are searched, if these are not all.
struct Sample {
    /// Their numbers among all training rows, ascending.
    rows: Csr,
    /// The features of all training rows, which are known during the fit only.
    all: Option<Csr>,
}

impl NearestLabels {
    /// Builds the index over the training rows.
    pub fn new(features: Csr, train_labels: Csr, neighbours: usize, weighting: Weighting) -> Self {
        let rows: Vec<u32> = (0..features.rows() as u32).collect();
        let index = DotIndex::new(&features, &rows, Product::Cosine);
        Self { features, train_labels, neighbours, weighting, index, sample: None }
    }

    /// Returns a model that searches only the sample of `rows`, ascending.
    pub fn of_a_sample(
        features: Csr,
        train_labels: &Csr,
        rows: Vec<u32>,
        neighbours: usize,
        weighting: Weighting,
    ) -> Self {
        let model =
            Self::new(features.select_rows(&rows), train_labels.select_rows(&rows), neighbours, weighting);
        let rows = Csr::from_rows(features.rows(), &[rows]);
        Self { sample: Some(Sample { rows, all: Some(features) }), ..model }
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, neighbours: usize, weighting: Weighting) -> Result<Self> {
        let (features, labels) = stored_rows::open(directory, size)?;
        let sample = directory.join(SAMPLE);
        let sample = if sample.try_exists()? {
            Some(Sample { rows: open_csr(&sample, ArtifactCheck::Deep)?, all: None })
        } else {
            None
        };
        ensure!(
            sample
                .as_ref()
                .is_none_or(|sample| sample.rows.rows() == 1 && sample.rows.entries() == features.rows()),
            "{}: the sample has another number of rows than the model",
            directory.display()
        );
        Ok(Self { sample, ..Self::new(features, labels, neighbours, weighting) })
    }

    /// Returns the weighted mean of the labels of the found rows: the labels that one of them has, ascending, and their scores.
    fn mean(&self, found: Vec<(u32, f32)>) -> Vec<(u32, f32)> {
        let labels_of = |(row, weight): (u32, f32)| {
            self.train_labels.row(row as usize).iter().map(move |&label| (label, weight))
        };
        let mut weights: Vec<(u32, f32)> = weigh(found, self.weighting).flat_map(labels_of).collect();
        // The sort is stable, so that the weights of a label are added in the order of the rows.
        weights.sort_by_key(|&(label, _)| label);
        let labels = weights.chunk_by(|a, b| a.0 == b.0);
        let sums = labels.map(|same| (same[0].0, same.iter().map(|weight| weight.1).sum()));
        sums.filter(|&(_, sum)| sum != 0.0).collect()
    }

    /// Returns the labels of each training row as if it were not one, ascending, and their scores above 0.
    pub fn found_left_out(&self, rows: Range<usize>) -> Vec<Vec<(u32, f32)>> {
        let found = |scratch: &mut DotScratch, row: usize| {
            let (features, itself) = match &self.sample {
                Some(sample) => {
                    let position = sample.rows.row(0).binary_search(&(row as u32)).ok();
                    (sample.all.as_ref().unwrap_or(&self.features), position.map(|position| position as u32))
                }
                None => (&self.features, Some(row as u32)),
            };
            self.mean(self.index.nearest(features, row, self.neighbours, itself, scratch))
        };
        rows.into_par_iter().map_init(|| self.index.scratch(), found).collect()
    }

    /// Creates a directory and writes everything that [`Self::load`] needs into it.
    pub fn save(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        stored_rows::write(directory, &self.features, &self.train_labels)?;
        if let Some(sample) = &self.sample {
            write_csr(&directory.join(SAMPLE), &sample.rows)?;
        }
        Ok(())
    }
}

impl Scorer for NearestLabels {
    fn features(&self) -> usize {
        self.features.cols
    }

    fn labels(&self) -> usize {
        self.train_labels.cols
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        write_found(&self.found(rows), self.labels(), into);
        Ok(())
    }

    fn search(&self) -> Option<&dyn LabelSearch> {
        Some(self)
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let near = self.index.nearest(features, row, self.neighbours, None, &mut self.index.scratch());
        let row_at = |position: u32| match &self.sample {
            Some(sample) => sample.rows.row(0)[position as usize],
            None => position,
        };
        share::evidence(SCORE, &near, self.weighting, &self.train_labels, label, row_at)
    }
}

impl LabelSearch for NearestLabels {
    fn found(&self, rows: Unlabelled) -> Vec<Vec<(u32, f32)>> {
        let found = |scratch: &mut DotScratch, &row: &u32| {
            self.mean(self.index.nearest(rows.features, row as usize, self.neighbours, None, scratch))
        };
        rows.rows.par_iter().map_init(|| self.index.scratch(), found).collect()
    }
}
