//! [`Counts`]: true positives, predictions and positives of every label, counted row by row.

use rayon::prelude::*;

use super::exact::ExactSum;
use super::label::LabelCount;
use crate::data::csr::Csr;

/// The error for true and predicted labels that do not have the same shape.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the true labels are {true_rows} rows x {true_labels} labels, the predictions {predicted_rows} x \
     {predicted_labels}: evaluate predictions against the rows that they were made for"
)]
pub struct ShapeMismatch {
    true_rows: usize,
    true_labels: usize,
    predicted_rows: usize,
    predicted_labels: usize,
}

/// Checks that true and predicted labels have the same shape.
pub fn check_shapes(truth: &Csr, predicted: &Csr) -> Result<(), ShapeMismatch> {
    if (truth.rows(), truth.cols) == (predicted.rows(), predicted.cols) {
        return Ok(());
    }
    Err(ShapeMismatch {
        true_rows: truth.rows(),
        true_labels: truth.cols,
        predicted_rows: predicted.rows(),
        predicted_labels: predicted.cols,
    })
}

/// Counts over the rows seen so far.
///
/// All sums are exact, so the result does not depend on the order of rows, batches and threads.
#[derive(Debug, Clone)]
pub struct Counts {
    labels: Vec<StampedCount>,
    rows: u64,
    /// Number of rows whose predicted labels are exactly the true ones.
    exact: u64,
    sample_f1: ExactSum,
    /// Marks the labels that are true in the current row.
    stamp: u32,
}

/// The count and the stamp of one label, side by side in memory so that a row touches one cache line per label.
#[derive(Debug, Clone, Copy, Default)]
struct StampedCount {
    count: LabelCount,
    stamp: u32,
}

impl Counts {
    /// Creates counts of no rows.
    pub fn new(labels: usize) -> Self {
        let labels = vec![StampedCount::default(); labels];
        Self { labels, rows: 0, exact: 0, sample_f1: ExactSum::default(), stamp: 0 }
    }

    /// Counts whole tables, on all threads if they are large.
    pub fn of(truth: &Csr, predicted: &Csr) -> Result<Self, ShapeMismatch> {
        const ROWS_AT_ONCE: usize = 1 << 16;
        check_shapes(truth, predicted)?;
        let rows = truth.rows();
        let block = |first: usize| {
            let mut counts = Self::new(truth.cols);
            for row in first..rows.min(first + ROWS_AT_ONCE) {
                counts.add(truth.row(row), predicted.row(row));
            }
            counts
        };
        let blocks = (0..rows).step_by(ROWS_AT_ONCE).collect::<Vec<_>>();
        let sum = blocks.into_par_iter().map(block).reduce_with(|mut sum, part| {
            sum.merge(&part);
            sum
        });
        Ok(sum.unwrap_or_else(|| Self::new(truth.cols)))
    }

    /// Adds one row and returns how many predicted labels are true. The labels of each list must be distinct.
    pub fn add(&mut self, truth: &[u32], predicted: &[u32]) -> u32 {
        self.next_stamp();
        for &label in truth {
            let entry = &mut self.labels[label as usize];
            entry.count.actual += 1;
            entry.stamp = self.stamp;
        }
        let mut right = 0;
        for &label in predicted {
            let entry = &mut self.labels[label as usize];
            let hit = u32::from(entry.stamp == self.stamp);
            entry.count.predicted += 1;
            entry.count.tp += hit;
            right += hit;
        }
        let row = LabelCount { tp: right, predicted: predicted.len() as u32, actual: truth.len() as u32 };
        self.rows += 1;
        self.exact += u64::from(row.is_exact());
        if right > 0 {
            self.sample_f1 += row.f1();
        }
        right
    }

    /// Chooses a stamp that no label has; after 2^32 - 1 rows all stamps are cleared.
    fn next_stamp(&mut self) {
        if self.stamp == u32::MAX {
            for entry in &mut self.labels {
                entry.stamp = 0;
            }
            self.stamp = 0;
        }
        self.stamp += 1;
    }

    /// Adds the counts of other rows.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.labels.len(), other.labels.len(), "counts of different label sets");
        for (entry, other) in self.labels.iter_mut().zip(&other.labels) {
            entry.count += other.count;
        }
        self.rows += other.rows;
        self.exact += other.exact;
        self.sample_f1 += other.sample_f1;
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// Returns the counts of one label.
    pub fn label(&self, label: usize) -> LabelCount {
        self.labels[label].count
    }

    /// Iterates over the counts, label by label.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LabelCount> + Clone + '_ {
        self.labels.iter().map(|entry| entry.count)
    }

    /// Returns [`super::registry::Metric::SampleF1`].
    pub fn sample_f1(&self) -> f64 {
        self.sample_f1.value() / self.rows.max(1) as f64
    }

    /// Returns [`super::registry::Metric::SubsetAccuracy`].
    pub fn subset_accuracy(&self) -> f64 {
        self.exact as f64 / self.rows.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_old_rows_are_cleared_when_stamps_run_out() {
        let mut counts = Counts::new(2);
        counts.add(&[0], &[]);
        counts.stamp = u32::MAX;
        counts.labels[1].stamp = 1;
        assert_eq!(counts.add(&[], &[1]), 0);
        assert_eq!(counts.label(1), LabelCount { tp: 0, predicted: 1, actual: 0 });
    }

    #[test]
    fn predictions_for_another_number_of_rows_are_refused() {
        let truth = Csr { cols: 2, indptr: vec![0, 0].into(), indices: vec![].into(), values: vec![].into() };
        let other =
            Csr { cols: 2, indptr: vec![0, 0, 0].into(), indices: vec![].into(), values: vec![].into() };
        let error = Counts::of(&truth, &other).unwrap_err().to_string();
        assert!(error.contains("1 rows x 2 labels") && error.contains("2 x 2"), "{error}");
    }
}
