//! [`History`], the artifact `history`: losses, metrics and thresholds of every epoch, as one JSON file. It
//! contains no times, so that equal keys give equal histories.

use serde::{Deserialize, Serialize};

use super::config::schedule::{StoppingConfig, WatchedMetric};
use super::metric::label::{LabelCount, Tally};
use super::metric::marked::{Marked, Protocol};

/// The history of a training.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    pub epochs: Vec<Epoch>,
    /// The epoch whose weights were kept, counted from 1.
    pub kept: u64,
    /// True if the validation metrics depend on the true labels of the validation rows, as in the paper. A
    /// deployed model cannot reach them.
    pub oracle: bool,
}

/// The record of one epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: u64,
    /// Mean over the rows of the epoch, computed while training on them.
    pub loss: LossValue,
    pub validation: Option<EpochMetrics>,
    pub alpha: LabelSpread,
    pub beta: LabelSpread,
    /// The lambda of eq. 1.
    pub lambda: LabelSpread,
    /// The threshold of an element that has no local signal and is not a true label.
    pub theta: LabelSpread,
    /// The learning rate of the last step.
    pub lr: f64,
}

/// The metrics on the validation rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochMetrics {
    /// Over all labels; a label that does not occur counts 0.
    pub macro_f1: f64,
    pub macro_f1_present: f64,
    pub micro_f1: f64,
    pub positive_ratio: f64,
}

/// The loss of a batch, after reduction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LossValue {
    pub bce: f64,
    pub margin: f64,
    /// bce + lambda_m · margin.
    pub total: f64,
}

impl LossValue {
    /// Returns this loss plus `factor` times another one.
    pub fn plus(self, factor: f64, other: Self) -> Self {
        Self {
            bce: self.bce + other.bce * factor,
            margin: self.margin + other.margin * factor,
            total: self.total + other.total * factor,
        }
    }
}

/// Mean and standard deviation over the labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelSpread {
    pub mean: f64,
    pub std: f64,
}

impl EpochMetrics {
    /// Computes the metrics from the counts of all labels.
    pub fn of(rows: usize, labels: &[LabelCount]) -> Self {
        let tally = Tally::over(labels.iter().copied());
        Self {
            macro_f1: tally.macro_f1(),
            macro_f1_present: tally.macro_f1_present(),
            micro_f1: tally.micro_f1(),
            positive_ratio: tally.positive_ratio(rows as u64),
        }
    }

    /// Returns the metric that decides which epoch is best.
    pub fn watched(&self, metric: WatchedMetric) -> f64 {
        match metric {
            WatchedMetric::MacroF1 => self.macro_f1,
            WatchedMetric::MicroF1 => self.micro_f1,
        }
    }
}

impl LabelSpread {
    /// Computes mean and standard deviation.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self { mean, std: variance.sqrt() }
    }
}

impl History {
    /// Returns the best epoch by the watched metric, and its value; of equally good epochs the first.
    pub fn best(&self, stopping: &StoppingConfig) -> Option<(u64, f64)> {
        let mut best = None;
        for epoch in &self.epochs {
            let Some(value) = epoch.validation.map(|v| v.watched(stopping.metric)) else { continue };
            if best.is_none_or(|(_, top)| value > top) {
                best = Some((epoch.epoch, value));
            }
        }
        best
    }

    /// Returns whether training should stop now.
    pub fn says_stop(&self, stopping: &StoppingConfig) -> bool {
        let done = self.epochs.len() as u64;
        match (stopping.patience.value(), self.best(stopping)) {
            (Some(patience), Some((best, _))) => {
                done >= stopping.min_epochs && (done - best) as f64 >= patience
            }
            _ => false,
        }
    }

    /// Returns the protocol of the validation metrics.
    pub fn protocol(&self) -> Protocol {
        if self.oracle { Protocol::Oracle } else { Protocol::Honest }
    }

    /// Returns the validated epochs and their metrics.
    pub fn validations(&self) -> Marked<Vec<(u64, EpochMetrics)>> {
        let validated = self.epochs.iter().filter_map(|epoch| Some((epoch.epoch, epoch.validation?)));
        Marked::new(self.protocol(), validated.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::number_or_word::Limit;

    fn history(scores: &[f64]) -> History {
        let spread = LabelSpread { mean: 0.0, std: 0.0 };
        let epoch = |(i, &macro_f1): (usize, &f64)| Epoch {
            epoch: i as u64 + 1,
            loss: LossValue::default(),
            validation: Some(EpochMetrics {
                macro_f1,
                macro_f1_present: 0.0,
                micro_f1: 0.0,
                positive_ratio: 0.0,
            }),
            alpha: spread,
            beta: spread,
            lambda: spread,
            theta: spread,
            lr: 0.1,
        };
        History { epochs: scores.iter().enumerate().map(epoch).collect(), ..History::default() }
    }

    fn patience(epochs: f64, min_epochs: u64) -> StoppingConfig {
        StoppingConfig {
            metric: WatchedMetric::MacroF1,
            patience: Limit::At(epochs),
            min_epochs,
            restore_best: true,
        }
    }

    #[test]
    fn training_stops_when_the_patience_is_exhausted() {
        assert!(!history(&[0.1, 0.3, 0.2]).says_stop(&patience(2.0, 1)));
        assert!(history(&[0.1, 0.3, 0.2, 0.3]).says_stop(&patience(2.0, 1)));
        assert!(!history(&[0.1, 0.3, 0.2, 0.3]).says_stop(&patience(2.0, 5)));
    }

    #[test]
    fn the_first_of_equally_good_epochs_is_best() {
        assert_eq!(history(&[0.1, 0.3, 0.3]).best(&patience(2.0, 1)), Some((2, 0.3)));
        assert_eq!(history(&[]).best(&patience(2.0, 1)), None);
    }
}
