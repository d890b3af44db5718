//! [`Preset`]: complete sets of parameters. Every field can be changed in a pipeline.
//!
//! For parameters that the paper does not give, the preset `paper` uses the values of the released code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::{Device, Precision};
use super::loss::{LossConfig, Reduction};
use super::method::Method;
use super::net::{Activation, Features, NetConfig};
use super::number_or_word::{BiasInit, Init, Limit, PosWeight};
use super::optimiser::{OptimiserConfig, OptimiserKind};
use super::schedule::{CheckpointConfig, ScheduleConfig, ScheduleKind, StoppingConfig, WatchedMetric};
use super::signal::{LocalSignal, SignalConfig, Weighting};
use super::threshold::{GlobalSignal, Squash, ThresholdConfig, Variant};

/// A complete set of training parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The equations as printed in the paper.
    Paper,
    /// What the released code of the paper computes.
    Released,
    /// Without leakage: prediction uses the same signals as training, and neither uses the true labels of a row for
    /// that row.
    #[default]
    Honest,
}

impl Preset {
    /// Returns the parameters of the preset.
    pub fn method(self) -> Method {
        match self {
            Self::Paper => paper(),
            Self::Released => released(),
            Self::Honest => honest(),
        }
    }
}

fn paper() -> Method {
    Method {
        variant: Variant::Adaptive,
        seed: 0,
        epochs: 150,
        batch: 128,
        device: Device::Auto,
        precision: Precision::F32,
        net: NetConfig {
            hidden: vec![128],
            activation: Activation::Relu,
            dropout: 0.0,
            features: Features::Hash,
            feature_count: 8192,
            output_bias: BiasInit::Layer,
        },
        threshold: ThresholdConfig {
            global: GlobalSignal::Idf,
            squash: Squash::None,
            fallback: false,
            lambda_init: 0.5,
            lambda_per_label: false,
            lambda_sigmoid: false,
            alpha_init: Init::Normal,
            beta_init: Init::Normal,
            bias_init: Init::Constant(0.0),
        },
        signal: SignalConfig {
            train: LocalSignal::BatchLabels,
            predict: LocalSignal::BatchLabels,
            leave_self_out: false,
            neighbours: 50,
            weighting: Weighting::Uniform,
            prototypes: 0,
            predicted_labels: 32,
            eps: 1e-8,
        },
        loss: LossConfig {
            standardise: false,
            standardise_eps: 1e-8,
            margin_weight: 0.1,
            margin: 0.1,
            pos_weight: PosWeight::None,
            reduction: Reduction::SumLabelsMeanBatch,
        },
        optimiser: OptimiserConfig {
            kind: OptimiserKind::Adamw,
            lr: 1e-4,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            clip: Limit::None,
        },
        schedule: ScheduleConfig { kind: ScheduleKind::Constant, warmup: 0.0, floor: 0.0 },
        stopping: StoppingConfig {
            metric: WatchedMetric::MacroF1,
            patience: Limit::None,
            min_epochs: 1,
            restore_best: false,
        },
        checkpoint: CheckpointConfig::default(),
    }
}

fn released() -> Method {
    let paper = paper();
    Method {
        net: NetConfig {
            hidden: vec![2048; 3],
            dropout: 0.3,
            features: Features::All,
            output_bias: BiasInit::Constant(0.5),
            ..paper.net
        },
        threshold: ThresholdConfig {
            global: GlobalSignal::OwnLabels,
            squash: Squash::Sigmoid,
            ..paper.threshold
        },
        loss: LossConfig {
            standardise: true,
            pos_weight: PosWeight::Number(10.0),
            reduction: Reduction::Mean,
            ..paper.loss
        },
        stopping: StoppingConfig { restore_best: true, ..paper.stopping },
        ..paper
    }
}

fn honest() -> Method {
    let paper = paper();
    Method {
        epochs: 20,
        net: NetConfig { hidden: vec![256], dropout: 0.3, features: Features::All, ..paper.net },
        threshold: ThresholdConfig {
            lambda_sigmoid: true,
            alpha_init: Init::Constant(0.0),
            beta_init: Init::Constant(0.0),
            ..paper.threshold
        },
        signal: SignalConfig {
            train: LocalSignal::TrainNeighbours,
            predict: LocalSignal::TrainNeighbours,
            weighting: Weighting::CosineSquared,
            ..paper.signal
        },
        loss: LossConfig { pos_weight: PosWeight::Sqrt, margin_weight: 0.0, ..paper.loss },
        optimiser: OptimiserConfig { lr: 1e-2, ..paper.optimiser },
        schedule: ScheduleConfig { kind: ScheduleKind::Cosine, ..paper.schedule },
        stopping: StoppingConfig { patience: Limit::At(10.0), restore_best: true, ..paper.stopping },
        ..paper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid() {
        for preset in [Preset::Paper, Preset::Released, Preset::Honest] {
            assert_eq!(preset.method().issues(), [], "{preset:?}");
        }
    }

    #[test]
    fn the_honest_preset_never_uses_true_labels() {
        let honest = Preset::Honest.method();
        assert_eq!(honest.threshold.global, GlobalSignal::Idf);
        for signal in [honest.signal.train, honest.signal.predict] {
            assert_ne!(signal, LocalSignal::BatchLabels);
        }
    }
}
