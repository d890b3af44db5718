//! The parameters of the learning rate schedule, of early stopping and of checkpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::Limit;

/// How the learning rate changes over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    Constant,
    /// Half a cosine from the full rate down to `floor`.
    Cosine,
}

settings! {
    /// The parameters of the learning rate schedule.
    ScheduleConfig / ScheduleChanges {
        kind: ScheduleKind,
        /// The number of epochs in which the rate rises linearly from 0; may be a fraction.
        warmup: f64,
        /// The share of the full rate at which `cosine` ends.
        floor: f64,
    }
}

impl ScheduleConfig {
    /// Returns the share of the full rate at a step, counted from 0.
    pub fn share(&self, step: u64, steps_per_epoch: u64, epochs: u64) -> f64 {
        let warmup = self.warmup * steps_per_epoch as f64;
        let position = step as f64;
        if position < warmup {
            return (position + 1.0) / (warmup + 1.0);
        }
        match self.kind {
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Cosine => {
                let length = ((steps_per_epoch * epochs) as f64 - warmup).max(1.0);
                let progress = ((position - warmup) / length).min(1.0);
                self.floor + (1.0 - self.floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

/// The metric on the validation rows that decides which epoch is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Watched")]
pub enum WatchedMetric {
    MacroF1,
    MicroF1,
}

settings! {
    /// When training stops, and which epoch is kept.
    StoppingConfig / StoppingChanges {
        metric: WatchedMetric,
        /// The number of epochs without a better value after which training stops, or `none`.
        patience: Limit,
        /// The number of epochs before which training never stops.
        min_epochs: u64,
        /// Whether to keep the weights of the best epoch instead of those of the last one.
        restore_best: bool,
    }
}

settings! {
    /// When a checkpoint is written. This changes no result and is not part of the key.
    CheckpointConfig / CheckpointChanges {
        /// The number of epochs between checkpoints, or `none`.
        epochs: Limit,
        /// The number of minutes between checkpoints, or `none`.
        minutes: Limit,
    }
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { epochs: Limit::None, minutes: Limit::At(5.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_then_falls_along_half_a_cosine() {
        let schedule = ScheduleConfig { kind: ScheduleKind::Cosine, warmup: 1.0, floor: 0.1 };
        let share = |step| schedule.share(step, 10, 11);
        assert_eq!(share(0), 1.0 / 11.0);
        assert_eq!(share(9), 10.0 / 11.0);
        assert_eq!(share(10), 1.0);
        assert!((share(60) - 0.55).abs() < 1e-12);
        assert!((share(110) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_constant_rate_does_not_change() {
        let schedule = ScheduleConfig { kind: ScheduleKind::Constant, warmup: 0.0, floor: 0.0 };
        assert!((0..50).all(|step| schedule.share(step, 10, 5) == 1.0));
    }
}
