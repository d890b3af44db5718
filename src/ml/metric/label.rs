//! Counts of one label, sums of counts over labels, and the stored record of each label.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::registry::Metric;

/// The counts of one label over several rows, or of one row over all labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCount {
    /// True positives: predicted and true.
    pub tp: u32,
    /// Predicted, whether true or not: TP + FP.
    pub predicted: u32,
    /// True, whether predicted or not: TP + FN.
    pub actual: u32,
}

impl LabelCount {
    /// Returns TP / (TP + FP), or 0 if nothing is predicted.
    pub fn precision(self) -> f64 {
        ratio(self.tp.into(), self.predicted.into())
    }

    /// Returns TP / (TP + FN), or 0 if nothing is true.
    pub fn recall(self) -> f64 {
        ratio(self.tp.into(), self.actual.into())
    }

    /// Returns 2TP / (2TP + FP + FN), or 0 if nothing is true or predicted.
    pub fn f1(self) -> f64 {
        ratio(2 * u64::from(self.tp), u64::from(self.predicted) + u64::from(self.actual))
    }

    /// Returns FP.
    pub fn false_positives(self) -> u32 {
        self.predicted - self.tp
    }

    /// Returns FN.
    pub fn false_negatives(self) -> u32 {
        self.actual - self.tp
    }

    /// Returns whether exactly the true entries are predicted.
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

/// Returns `part / whole`, or 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Sums of counts over labels.
///
/// Add the labels in ascending order: the means are sums of floats, so their last bits depend on the order.
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
    /// Sums the counts of all labels.
    pub fn over(counts: impl Iterator<Item = LabelCount>) -> Self {
        let mut tally = Self::default();
        for count in counts {
            tally.add(count);
        }
        tally
    }

    /// Adds the counts of one label.
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

    /// Returns [`Metric::MacroF1`].
    pub fn macro_f1(&self) -> f64 {
        mean(self.f1, self.labels)
    }

    /// Returns [`Metric::MacroF1Present`].
    pub fn macro_f1_present(&self) -> f64 {
        mean(self.f1, self.present)
    }

    /// Returns [`Metric::MicroF1`].
    pub fn micro_f1(&self) -> f64 {
        ratio(2 * self.tp, self.predicted + self.actual)
    }

    /// Returns [`Metric::PositiveRatio`], the share of all (row, label) entries that are predicted.
    pub fn positive_ratio(&self, rows: u64) -> f64 {
        ratio(self.predicted, rows * self.labels)
    }

    /// Returns whether no label is true in any row, so that F1 has no meaning.
    pub fn nothing_present(&self) -> bool {
        self.present == 0
    }

    /// Returns every metric that follows from the counts per label alone.
    pub fn values(&self, rows: u64) -> [(Metric, f64); 13] {
        let entries = rows * self.labels;
        let absent = self.labels - self.present_or_predicted;
        [
            (Metric::MacroF1, self.macro_f1()),
            (Metric::MacroF1Present, self.macro_f1_present()),
            (Metric::MacroF1PresentOrPredicted, mean(self.f1, self.present_or_predicted)),
            (Metric::MacroF1AbsentAsOne, mean(self.f1 + absent as f64, self.labels)),
            (Metric::MacroPrecision, mean(self.precision, self.labels)),
            (Metric::MacroRecall, mean(self.recall, self.labels)),
            (Metric::MicroF1, self.micro_f1()),
            (Metric::MicroPrecision, ratio(self.tp, self.predicted)),
            (Metric::MicroRecall, ratio(self.tp, self.actual)),
            (Metric::PositiveRatio, self.positive_ratio(rows)),
            (Metric::TruePositiveRatio, ratio(self.actual, entries)),
            (Metric::LabelCoverage, ratio(self.covered, self.labels)),
            (Metric::HammingLoss, ratio(self.predicted + self.actual - 2 * self.tp, entries)),
        ]
    }

    /// Returns the metrics of [`Tally::values`], in the same order.
    pub fn metrics() -> impl Iterator<Item = Metric> {
        Self::default().values(0).into_iter().map(|(metric, _)| metric)
    }
}

/// Returns `sum / count`, or 0 if `count` is 0.
fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// The counts and metrics of one label: one line of the artifact `labels`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRecord {
    pub label: u32,
    /// Number of training rows that have the label, if known.
    pub training_positives: Option<u32>,
    /// Number of evaluated rows that have the label.
    pub support: u32,
    pub tp: u32,
    pub fp: u32,
    #[serde(rename = "fn")]
    pub fn_: u32,
    pub precision: f64,
    pub recall: f64,
    pub f1: f64,
    /// The score that the label has to exceed, if the rule has one cut per label and ever predicts this label.
    pub threshold: Option<f32>,
}

impl LabelRecord {
    /// Creates the record of a label without training positives and threshold.
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
