//! [`DecisionBlock`]: decisions about consecutive rows, with the scores and thresholds behind them.

use std::borrow::Cow;

/// The decisions about consecutive rows. Matrices are row-major, with `labels` numbers per row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionBlock {
    /// The index of the first row among all rows.
    pub first: usize,
    pub rows: usize,
    pub labels: usize,
    /// Minus infinity for a label without a score. Empty if only the decisions are known, which then have no thresholds.
    pub scores: Vec<f32>,
    /// Empty if the model gives no probabilities.
    pub probabilities: Vec<f32>,
    /// The predicted labels of each row, ascending.
    pub predicted: Vec<Vec<u32>>,
    pub thresholds: Thresholds,
    /// The labels of each row that may be predicted, ascending; `None` if all may be.
    pub candidates: Option<Vec<Vec<u32>>>,
}

/// What a score must exceed for its label to be predicted; infinite if the label is never predicted.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Thresholds {
    /// The rule has no thresholds.
    #[default]
    None,
    PerLabel(Vec<f32>),
    /// One for each score.
    PerEntry(Vec<f32>),
}

impl DecisionBlock {
    /// Returns the scores of one row.
    pub fn row_scores(&self, row: usize) -> &[f32] {
        &self.scores[row * self.labels..][..self.labels]
    }

    /// Returns the probabilities of one row; empty if the model gives none.
    pub fn row_probabilities(&self, row: usize) -> &[f32] {
        if self.probabilities.is_empty() {
            &[]
        } else {
            &self.probabilities[row * self.labels..][..self.labels]
        }
    }

    /// Returns the threshold of every label for one row, if the rule has thresholds.
    pub fn row_thresholds(&self, row: usize) -> Option<&[f32]> {
        match &self.thresholds {
            Thresholds::None => None,
            Thresholds::PerLabel(cuts) => Some(cuts),
            Thresholds::PerEntry(cuts) => Some(&cuts[row * self.labels..][..self.labels]),
        }
    }

    /// Returns each score of a row minus its threshold; a label is predicted if this is above zero.
    pub fn margins(&self, row: usize) -> Option<impl Iterator<Item = f32> + '_> {
        let thresholds = self.row_thresholds(row)?;
        Some(self.row_scores(row).iter().zip(thresholds).map(|(score, threshold)| score - threshold))
    }

    /// Returns whether a label of a row may be predicted.
    pub fn is_candidate(&self, row: usize, label: u32) -> bool {
        self.candidates.as_ref().is_none_or(|candidates| candidates[row].binary_search(&label).is_ok())
    }

    /// Returns the numbers by which the labels of a row are ranked: the scores, or, if each entry has its own
    /// threshold, the margins, because then the thresholds are part of the model's output.
    pub fn ranking(&self, row: usize) -> Cow<'_, [f32]> {
        match (&self.thresholds, self.margins(row)) {
            (Thresholds::PerEntry(_), Some(margins)) => margins.collect(),
            _ => Cow::Borrowed(self.row_scores(row)),
        }
    }
}
