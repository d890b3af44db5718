//! Decisions about a few rows, with everything that led to them.

use std::borrow::Cow;

/// Consecutive rows and what was decided about them. Matrices are row-major, `labels` numbers per row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// The place of the first row among those that were handed in.
    pub first: usize,
    pub rows: usize,
    pub labels: usize,
    pub scores: Vec<f32>,
    /// Empty where a model has none.
    pub probabilities: Vec<f32>,
    /// The labels of each row, ascending.
    pub predicted: Vec<Vec<u32>>,
    pub thresholds: Thresholds,
}

/// What a score must exceed for its label to be predicted; infinite where the label never is.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Thresholds {
    /// The rule is not of that form.
    #[default]
    None,
    PerLabel(Vec<f32>),
    /// As many as scores.
    PerEntry(Vec<f32>),
}

impl Block {
    pub fn row_scores(&self, row: usize) -> &[f32] {
        &self.scores[row * self.labels..][..self.labels]
    }

    /// Empty where the model has none.
    pub fn row_probabilities(&self, row: usize) -> &[f32] {
        if self.probabilities.is_empty() {
            &[]
        } else {
            &self.probabilities[row * self.labels..][..self.labels]
        }
    }

    /// One per label, whatever form they have; `None` where there are none.
    pub fn row_thresholds(&self, row: usize) -> Option<&[f32]> {
        match &self.thresholds {
            Thresholds::None => None,
            Thresholds::PerLabel(cuts) => Some(cuts),
            Thresholds::PerEntry(cuts) => Some(&cuts[row * self.labels..][..self.labels]),
        }
    }

    /// By how much a score exceeds its threshold; a label is predicted where that is above zero.
    pub fn margins(&self, row: usize) -> Option<impl Iterator<Item = f32> + '_> {
        let thresholds = self.row_thresholds(row)?;
        Some(self.row_scores(row).iter().zip(thresholds).map(|(score, threshold)| score - threshold))
    }

    /// What the labels of a row are ranked by: the score, less the threshold where each entry has one of
    /// its own, because the score alone is then only half of what the model says.
    pub fn ranking(&self, row: usize) -> Cow<'_, [f32]> {
        match (&self.thresholds, self.margins(row)) {
            (Thresholds::PerEntry(_), Some(margins)) => margins.collect(),
            _ => Cow::Borrowed(self.row_scores(row)),
        }
    }
}
