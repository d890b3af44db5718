//! Decisions and scores that any program has written about the rows of a data set.
//!
//! Three formats are told apart by their first bytes: CSV and npz with one entry per row and label ([`entries`]), and npy
//! with a matrix of rows and labels ([`matrix`]). Rows are numbered from 0 within the evaluated part. Everything is checked
//! before it is measured: see `docs/evaluation.md`.

mod csv;
mod entries;
mod matrix;
mod npz;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::data::compress::InputFile;
use crate::data::error::DataError;
use crate::label_finder::LabelFinder;
use crate::metric::block::{DecisionBlock, Thresholds};

/// The cut of probabilities.
const HALF: f32 = 0.5;
/// The number of scores in a block.
const SCORES_AT_ONCE: usize = 1 << 20;

/// The rows and labels that predictions are about, and how scores become decisions.
#[derive(Debug, Clone)]
pub struct ExpectedPredictions {
    pub rows: usize,
    pub labels: usize,
    pub label_names: Option<Vec<String>>,
    /// What a score must exceed for its label to be predicted. Without it, scores must be probabilities, and are cut at 0.5.
    pub threshold: Option<f32>,
}

/// What was found about the predictions as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionSummary {
    /// Rows that do not occur in a list of decisions. No label is predicted for them.
    pub absent_rows: usize,
}

impl ExpectedPredictions {
    /// Reads predictions and passes them on in blocks of consecutive rows.
    pub fn read<E: From<DataError>>(
        &self,
        path: &Path,
        threads: usize,
        take: impl FnMut(&DecisionBlock) -> Result<(), E>,
    ) -> Result<PredictionSummary, E> {
        let mut input = InputFile::open(path, threads)?;
        if input.head().starts_with(b"\x93NUMPY") {
            matrix::read(self, &mut input, take)?;
            return Ok(PredictionSummary { absent_rows: 0 });
        }
        let listed = match input.head() {
            [b'P', b'K', ..] => npz::read(self, &mut input)?,
            _ => csv::read(self, &mut input)?,
        };
        listed.pass_on(self, input.path(), take)
    }

    fn rows_at_once(&self) -> usize {
        (SCORES_AT_ONCE / self.labels.max(1)).max(1)
    }

    /// Returns how scores become decisions.
    fn cut(&self) -> ScoreCut {
        self.threshold.map_or(ScoreCut::Probability, ScoreCut::At)
    }

    /// Returns an error if a threshold is given for predictions that need none.
    fn check_no_threshold(&self, path: &Path) -> Result<(), DataError> {
        match self.threshold {
            None => Ok(()),
            Some(_) => {
                let reason = "it already contains decisions, so `threshold` has no meaning: leave it out";
                Err(DataError::file(path, reason))
            }
        }
    }

    fn check_row(&self, row: u64) -> Result<u32, String> {
        let is_known = |row: &u32| (*row as usize) < self.rows;
        u32::try_from(row).ok().filter(is_known).ok_or_else(|| {
            format!("there is no row {row}: the evaluated part has {} rows, numbered from 0", self.rows)
        })
    }

    fn label_finder(&self) -> LabelFinder<'_> {
        LabelFinder::new(self.label_names.as_deref(), self.labels)
    }

    /// Returns how a label is called in messages.
    fn label_text(&self, label: u32) -> String {
        match &self.label_names {
            Some(names) => format!("`{}`", names[label as usize]),
            None => label.to_string(),
        }
    }
}

/// How scores become decisions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreCut {
    /// The scores are probabilities, and are cut at 0.5.
    Probability,
    /// The scores are any numbers, and are cut at this one.
    At(f32),
}

impl ScoreCut {
    fn threshold(self) -> f32 {
        match self {
            Self::Probability => HALF,
            Self::At(threshold) => threshold,
        }
    }

    /// Returns a score that can be used.
    fn check(self, score: f32) -> Result<f32, String> {
        if !score.is_finite() {
            return Err(format!("the score {score} is not a finite 32-bit number"));
        }
        if self == Self::Probability && !(0.0..=1.0).contains(&score) {
            return Err(format!(
                "the score {score} is not a probability from 0 to 1, which are cut at {HALF}: for other scores, set \
                 `threshold`, for example `threshold: 0` for margins"
            ));
        }
        Ok(score)
    }

    /// Returns a block whose labels are predicted if their score exceeds the cut. A label without a score has minus
    /// infinity.
    fn decide(self, first: usize, labels: usize, scores: Vec<f32>) -> DecisionBlock {
        let threshold = self.threshold();
        let predicted = scores.chunks_exact(labels.max(1)).map(|row| {
            let above = (0..).zip(row).filter(|(_, score)| **score > threshold);
            above.map(|(label, _)| label).collect()
        });
        let predicted: Vec<Vec<u32>> = predicted.collect();
        let probabilities = match self {
            // A label that is not listed has no chance.
            Self::Probability => scores.iter().map(|score| score.max(0.0)).collect(),
            Self::At(_) => Vec::new(),
        };
        let thresholds = Thresholds::PerLabel(vec![threshold; labels]);
        let rows = predicted.len();
        let block =
            DecisionBlock { first, rows, labels, scores, probabilities, predicted, ..Default::default() };
        DecisionBlock { thresholds, ..block }
    }
}
