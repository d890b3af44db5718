//! What F1 and its relatives are made of: whole numbers per label, counted row by row.

use rayon::prelude::*;

use super::exact::ExactSum;
use super::label::LabelCount;
use crate::data::csr::Csr;

/// True and predicted labels do not describe the same table.
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

/// Counts over the rows seen so far. Every part is a whole number, so the order of rows, batches and threads
/// never shows.
#[derive(Debug, Clone)]
pub struct Counts {
    slots: Vec<Slot>,
    rows: u64,
    /// Rows predicted exactly.
    exact: u64,
    sample_f1: ExactSum,
    /// Marks the labels that are true in the row at hand.
    stamp: u32,
}

/// Side by side in memory: a row touches one cache line per label.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    count: LabelCount,
    stamp: u32,
}

impl Counts {
    pub fn new(labels: usize) -> Self {
        let slots = vec![Slot::default(); labels];
        Self { slots, rows: 0, exact: 0, sample_f1: ExactSum::default(), stamp: 0 }
    }

    /// Counts whole tables, on all threads where that pays.
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

    /// Adds one row; the labels of each list are distinct. Returns how many predicted labels are true.
    pub fn add(&mut self, truth: &[u32], predicted: &[u32]) -> u32 {
        self.next_stamp();
        for &label in truth {
            let slot = &mut self.slots[label as usize];
            slot.count.actual += 1;
            slot.stamp = self.stamp;
        }
        let mut right = 0;
        for &label in predicted {
            let slot = &mut self.slots[label as usize];
            let hit = u32::from(slot.stamp == self.stamp);
            slot.count.predicted += 1;
            slot.count.tp += hit;
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

    fn next_stamp(&mut self) {
        if self.stamp == u32::MAX {
            self.slots.iter_mut().for_each(|slot| slot.stamp = 0);
            self.stamp = 0;
        }
        self.stamp += 1;
    }

    /// Adds the counts of other rows.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.slots.len(), other.slots.len(), "counts of different label sets");
        for (slot, other) in self.slots.iter_mut().zip(&other.slots) {
            slot.count += other.count;
        }
        self.rows += other.rows;
        self.exact += other.exact;
        self.sample_f1 += other.sample_f1;
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn labels(&self) -> usize {
        self.slots.len()
    }

    pub fn label(&self, label: usize) -> LabelCount {
        self.slots[label].count
    }

    /// Label by label.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LabelCount> + Clone + '_ {
        self.slots.iter().map(|slot| slot.count)
    }

    pub fn sample_f1(&self) -> f64 {
        self.sample_f1.value() / self.rows.max(1) as f64
    }

    pub fn subset_accuracy(&self) -> f64 {
        self.exact as f64 / self.rows.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worn_out_stamp_forgets_old_rows() {
        let mut counts = Counts::new(2);
        counts.add(&[0], &[]);
        counts.stamp = u32::MAX;
        counts.slots[1].stamp = 1;
        assert_eq!(counts.add(&[], &[1]), 0);
        assert_eq!(counts.label(1), LabelCount { tp: 0, predicted: 1, actual: 0 });
    }

    #[test]
    fn predictions_for_other_rows_are_refused() {
        let truth = Csr { cols: 2, indptr: vec![0, 0].into(), indices: vec![].into(), values: vec![].into() };
        let other =
            Csr { cols: 2, indptr: vec![0, 0, 0].into(), indices: vec![].into(), values: vec![].into() };
        let error = Counts::of(&truth, &other).unwrap_err().to_string();
        assert!(error.contains("1 rows x 2 labels") && error.contains("2 x 2"), "{error}");
    }
}
