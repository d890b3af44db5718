//! Counts of one label, their sums over labels, and the record that is kept of each label.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::registry::Metric;

/// The counts of one label over some rows (or of one row over all labels).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCount {
    /// Predicted and true.
    pub tp: u32,
    /// Predicted: TP + FP.
    pub predicted: u32,
    /// True: TP + FN.
    pub actual: u32,
}

impl LabelCount {
    pub fn precision(self) -> f64 {
        ratio(self.tp.into(), self.predicted.into())
    }

    pub fn recall(self) -> f64 {
        ratio(self.tp.into(), self.actual.into())
    }

    pub fn f1(self) -> f64 {
        ratio(2 * u64::from(self.tp), u64::from(self.predicted) + u64::from(self.actual))
    }

    pub fn false_positives(self) -> u32 {
        self.predicted - self.tp
    }

    pub fn false_negatives(self) -> u32 {
        self.actual - self.tp
    }

    pub fn is_exact(self) -> bool {
        self.tp == self.predicted && self.tp == self.actual
    }
}

impl AddAssign for LabelCount {
    fn add_assign(&mut self, other: Self) {
        self.tp += other.tp;
        self.predicted += other.predicted;
        self.actual += other.actual;
    }
}

/// Of nothing at all, 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Sums over labels. Labels are to be added in ascending order: the means are sums of floats.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    labels: u64,
    present: u64,
    present_or_predicted: u64,
    covered: u64,
    tp: u64,
    predicted: u64,
    actual: u64,
    f1: f64,
    precision: f64,
    recall: f64,
}

impl Tally {
    pub fn over(counts: impl Iterator<Item = LabelCount>) -> Self {
        let mut tally = Self::default();
        counts.for_each(|count| tally.add(count));
        tally
    }

    #[inline]
    pub fn add(&mut self, count: LabelCount) {
        self.labels += 1;
        self.present += u64::from(count.actual > 0);
        self.present_or_predicted += u64::from(count.actual + count.predicted > 0);
        self.covered += u64::from(count.predicted > 0);
        self.tp += u64::from(count.tp);
        self.predicted += u64::from(count.predicted);
        self.actual += u64::from(count.actual);
        if count.tp > 0 {
            self.f1 += count.f1();
            self.precision += count.precision();
            self.recall += count.recall();
        }
    }

    pub fn macro_f1(&self) -> f64 {
        mean(self.f1, self.labels)
    }

    pub fn macro_f1_present(&self) -> f64 {
        mean(self.f1, self.present)
    }

    pub fn micro_f1(&self) -> f64 {
        ratio(2 * self.tp, self.predicted + self.actual)
    }

    /// Share of all entries of the table that are predicted.
    pub fn positive_ratio(&self, rows: u64) -> f64 {
        ratio(self.predicted, rows * self.labels)
    }

    /// True if no label is true in any row: then there is nothing that F1 could tell.
    pub fn nothing_present(&self) -> bool {
        self.present == 0
    }

    /// The values of [`Tally::METRICS`], in that order.
    pub fn values(&self, rows: u64) -> [f64; Self::METRICS.len()] {
        let entries = rows * self.labels;
        let absent = self.labels - self.present_or_predicted;
        [
            self.macro_f1(),
            self.macro_f1_present(),
            mean(self.f1, self.present_or_predicted),
            mean(self.f1 + absent as f64, self.labels),
            mean(self.precision, self.labels),
            mean(self.recall, self.labels),
            self.micro_f1(),
            ratio(self.tp, self.predicted),
            ratio(self.tp, self.actual),
            self.positive_ratio(rows),
            ratio(self.actual, entries),
            ratio(self.covered, self.labels),
            ratio(self.predicted + self.actual - 2 * self.tp, entries),
        ]
    }

    /// What follows from counts per label alone.
    pub const METRICS: [Metric; 13] = [
        Metric::MacroF1,
        Metric::MacroF1Present,
        Metric::MacroF1PresentOrPredicted,
        Metric::MacroF1AbsentAsOne,
        Metric::MacroPrecision,
        Metric::MacroRecall,
        Metric::MicroF1,
        Metric::MicroPrecision,
        Metric::MicroRecall,
        Metric::PositiveRatio,
        Metric::TruePositiveRatio,
        Metric::LabelCoverage,
        Metric::HammingLoss,
    ];
}

fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// One line of the per-label artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRecord {
    pub label: u32,
    /// Positives among the training rows, where they are known.
    pub training_positives: Option<u32>,
    /// Rows in which the label is true.
    pub support: u32,
    pub tp: u32,
    pub fp: u32,
    #[serde(rename = "fn")]
    pub fn_: u32,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
    /// The cut that decided, where the rule has one per label and predicts the label at all.
    pub threshold: Option<f32>,
}

impl LabelRecord {
    pub fn new(label: u32, count: LabelCount) -> Self {
        Self {
            label,
            training_positives: None,
            support: count.actual,
            tp: count.tp,
            fp: count.false_positives(),
            fn_: count.false_negatives(),
            precision: count.precision(),
            recall: count.recall(),
            f1: count.f1(),
            threshold: None,
        }
    }
}
