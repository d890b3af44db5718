//! Counts of right and wrong predictions per label, and the F1 figures that follow from them.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelCounts {
    pub true_positives: u64,
    pub false_positives: u64,
    pub false_negatives: u64,
}

impl LabelCounts {
    /// 2 tp / (2 tp + fp + fn); 0 where a label neither occurs nor is predicted.
    pub fn f1(&self) -> f64 {
        let twice = 2 * self.true_positives;
        let all = twice + self.false_positives + self.false_negatives;
        if all == 0 { 0.0 } else { twice as f64 / all as f64 }
    }

    pub fn occurs(&self) -> bool {
        self.true_positives + self.false_negatives > 0
    }
}

/// Counts over a number of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub rows: u64,
    pub labels: Vec<LabelCounts>,
}

impl Counts {
    pub fn new(labels: usize) -> Self {
        Self { rows: 0, labels: vec![LabelCounts::default(); labels] }
    }

    /// Mean over all labels; one that does not occur counts 0, as in the released code.
    pub fn macro_f1(&self) -> f64 {
        mean(self.labels.iter().map(LabelCounts::f1))
    }

    /// Mean over the labels that occur.
    pub fn macro_f1_present(&self) -> f64 {
        mean(self.labels.iter().filter(|counts| counts.occurs()).map(LabelCounts::f1))
    }

    pub fn micro_f1(&self) -> f64 {
        self.total().f1()
    }

    /// Share of all elements that are predicted.
    pub fn positive_ratio(&self) -> f64 {
        let total = self.total();
        let elements = self.rows * self.labels.len() as u64;
        if elements == 0 {
            0.0
        } else {
            (total.true_positives + total.false_positives) as f64 / elements as f64
        }
    }

    fn total(&self) -> LabelCounts {
        let mut total = LabelCounts::default();
        for counts in &self.labels {
            total.true_positives += counts.true_positives;
            total.false_positives += counts.false_positives;
            total.false_negatives += counts.false_negatives;
        }
        total
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ml::golden::{matrix, read};

    #[test]
    fn the_figures_match_scikit_learn() {
        let golden = read("metrics");
        let (truth, predicted) = (matrix(&golden["y_true"]), matrix(&golden["y_pred"]));
        let mut counts = Counts::new(truth[0].len());
        for (truth, predicted) in truth.iter().zip(&predicted) {
            counts.rows += 1;
            for (counts, pair) in counts.labels.iter_mut().zip(truth.iter().zip(predicted)) {
                match pair {
                    (1.0, 1.0) => counts.true_positives += 1,
                    (1.0, _) => counts.false_negatives += 1,
                    (_, 1.0) => counts.false_positives += 1,
                    _ => {}
                }
            }
        }
        for (ours, name) in [
            (counts.macro_f1(), "macro_f1_all"),
            (counts.macro_f1_present(), "macro_f1_present"),
            (counts.micro_f1(), "micro_f1"),
            (counts.positive_ratio(), "positive_ratio"),
        ] {
            assert!((ours - golden[name].as_f64().unwrap()).abs() < 1e-12, "{name}: {ours}");
        }
    }
}
