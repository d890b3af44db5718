//! [`Sample`]: the scores and labels that a rule is fitted on.

use super::error::ThresholdError;
use super::scores::{LabelScores, Scores, by_column, map_labels, map_stored};
use crate::data::csr::Csr;

/// Out-of-sample scores of training rows, and the labels of these rows.
pub(super) struct Sample<'a> {
    pub scores: &'a dyn Scores,
    pub labels: &'a Csr,
    /// Row `l` lists the rows that have label `l`.
    positives: Csr,
}

impl<'a> Sample<'a> {
    /// Checks that scores and labels have the same shape.
    pub(super) fn new(scores: &'a dyn Scores, labels: &'a Csr) -> Result<Self, ThresholdError> {
        let shape = (scores.rows(), scores.labels());
        if shape != (labels.rows(), labels.cols) {
            let expected = format!("the labels are {} x {}", labels.rows(), labels.cols);
            return Err(ThresholdError::Shape { rows: shape.0, labels: shape.1, expected });
        }
        Ok(Self { scores, labels, positives: by_column(labels) })
    }

    /// Returns the rows that have the label.
    pub(super) fn positives(&self, label: usize) -> &[u32] {
        self.positives.row(label)
    }

    /// Returns whether some row has the label.
    pub(super) fn is_seen(&self, label: usize) -> bool {
        !self.positives(label).is_empty()
    }

    /// Returns the labels that no row has.
    pub(super) fn unseen(&self) -> Vec<u32> {
        (0..self.labels.cols as u32).filter(|&label| !self.is_seen(label as usize)).collect()
    }

    /// Returns the number of true entries.
    pub(super) fn entries(&self) -> usize {
        self.labels.entries()
    }

    /// Calls `visit` with the scores of every label that some row has; the result is `None` for the other labels.
    pub(super) fn map_seen<T: Send>(
        &self,
        visit: impl Fn(usize, &[f32]) -> T + Sync,
    ) -> Result<Vec<Option<T>>, ThresholdError> {
        map_labels(self.scores, |label, column| self.is_seen(label).then(|| visit(label, column)))
    }

    /// Does the same, without the time for scores that are not stored.
    pub(super) fn map_stored<T: Send>(
        &self,
        visit: impl Fn(usize, LabelScores) -> T + Sync,
    ) -> Result<Vec<Option<T>>, ThresholdError> {
        map_stored(self.scores, |label, scores| self.is_seen(label).then(|| visit(label, scores)))
    }
}
