//! [`DecisionBlock`]: decisions about consecutive rows, with the scores and thresholds behind them.

use std::borrow::Cow;
use std::sync::Arc;

use super::rest::Rest;

/// The decisions about consecutive rows. Matrices are row-major, with `labels` numbers per row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecisionBlock {
    /// The index of the first row among all rows.
    pub first: usize,
    pub rows: usize,
    pub labels: usize,
    /// Minus infinity for a label without a score. Empty if only the decisions are known, which then have no thresholds, and
    /// if the scores are `sparse`.
    pub scores: Vec<f32>,
    /// Empty if the model gives no probabilities, and if the scores are `sparse`.
    pub probabilities: Vec<f32>,
    /// In place of `scores` and `probabilities`, for rows with few candidates.
    pub sparse: Option<SparseScores>,
    /// The predicted labels of each row, ascending.
    pub predicted: Vec<Vec<u32>>,
    pub thresholds: Thresholds,
    /// The labels of each row that may be predicted, ascending; `None` if all may be.
    pub candidates: Option<Vec<Vec<u32>>>,
}

/// The scores of rows in which every label that is no candidate has the score that it has in every row.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseScores {
    /// For each row, the scores of its candidates.
    pub scores: Vec<Vec<f32>>,
    /// For each row, the probabilities of its candidates; empty if the model gives no probabilities.
    pub probabilities: Vec<Vec<f32>>,
    /// The scores of the labels that a row does not list. They are the same for all blocks of a model.
    pub rest: Arc<Rest>,
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
    /// Returns whether there are scores, and not only decisions.
    pub fn has_scores(&self) -> bool {
        self.sparse.is_some() || !self.scores.is_empty()
    }

    /// Returns whether there are probabilities.
    pub fn has_probabilities(&self) -> bool {
        let probabilities =
            self.sparse.as_ref().map_or(&self.probabilities, |sparse| &sparse.rest.probabilities);
        !probabilities.is_empty()
    }

    /// Returns the scores of one row.
    pub fn row_scores(&self, row: usize) -> Cow<'_, [f32]> {
        match &self.sparse {
            Some(sparse) => self.whole_row(row, &sparse.rest.scores, &sparse.scores[row]).into(),
            None => self.scores[row * self.labels..][..self.labels].into(),
        }
    }

    /// Returns the score of a label in one row.
    pub fn score(&self, row: usize, label: u32) -> f32 {
        match &self.sparse {
            Some(sparse) => self.sparse_value(row, label, &sparse.rest.scores, &sparse.scores[row]),
            None => self.scores[row * self.labels + label as usize],
        }
    }

    /// Returns the probabilities of one row; empty if the model gives none.
    pub fn row_probabilities(&self, row: usize) -> Cow<'_, [f32]> {
        match &self.sparse {
            Some(sparse) if !sparse.probabilities.is_empty() => {
                self.whole_row(row, &sparse.rest.probabilities, &sparse.probabilities[row]).into()
            }
            None if !self.probabilities.is_empty() => {
                self.probabilities[row * self.labels..][..self.labels].into()
            }
            _ => Cow::default(),
        }
    }

    /// Returns the probability of a label in one row, if the model gives one.
    pub fn probability(&self, row: usize, label: u32) -> Option<f32> {
        match &self.sparse {
            Some(sparse) => {
                let own = sparse.probabilities.get(row)?;
                Some(self.sparse_value(row, label, &sparse.rest.probabilities, own))
            }
            None => self.probabilities.get(row * self.labels + label as usize).copied(),
        }
    }

    /// Returns the candidates of a row with sparse scores, ascending.
    pub fn row_candidates(&self, row: usize) -> &[u32] {
        self.candidates.as_ref().map_or(&[], |candidates| &candidates[row])
    }

    /// Returns a value for every label: `own` for the candidates of a row, and `rest` for the others.
    fn whole_row(&self, row: usize, rest: &[f32], own: &[f32]) -> Vec<f32> {
        let mut whole = rest.to_vec();
        for (&label, &value) in self.row_candidates(row).iter().zip(own) {
            whole[label as usize] = value;
        }
        whole
    }

    fn sparse_value(&self, row: usize, label: u32, rest: &[f32], own: &[f32]) -> f32 {
        match self.row_candidates(row).binary_search(&label) {
            Ok(at) => own[at],
            Err(_) => rest[label as usize],
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

    /// Returns each score of a row minus its threshold; a label is predicted if this is above zero. The scores must not be
    /// sparse.
    pub fn margins(&self, row: usize) -> Option<impl Iterator<Item = f32> + '_> {
        let thresholds = self.row_thresholds(row)?;
        let scores = &self.scores[row * self.labels..][..self.labels];
        Some(scores.iter().zip(thresholds).map(|(score, threshold)| score - threshold))
    }

    /// Returns whether a label of a row may be predicted.
    pub fn is_candidate(&self, row: usize, label: u32) -> bool {
        self.candidates.as_ref().is_none_or(|candidates| candidates[row].binary_search(&label).is_ok())
    }

    /// Returns the numbers by which the labels of a row are ranked: the scores, or, if each entry has its own
    /// threshold, the margins, because then the thresholds are part of the model's output.
    pub fn ranking(&self, row: usize) -> Cow<'_, [f32]> {
        match &self.thresholds {
            Thresholds::PerEntry(_) => self.margins(row).into_iter().flatten().collect(),
            Thresholds::PerLabel(_) | Thresholds::None => self.row_scores(row),
        }
    }
}
