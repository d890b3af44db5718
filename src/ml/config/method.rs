//! [`Method`]: all parameters of training.

use pipe_core::issue::Issue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::{Device, Precision};
use super::loss::{LossChanges, LossConfig};
use super::net::{Features, NetChanges, NetConfig};
use super::number_or_word::{Limit, PosWeight};
use super::optimiser::{OptimiserChanges, OptimiserConfig};
use super::preset::Preset;
use super::schedule::{
    CheckpointChanges, CheckpointConfig, ScheduleChanges, ScheduleConfig, StoppingChanges, StoppingConfig,
};
use super::signal::{LocalSignal, SignalChanges, SignalConfig};
use super::threshold::{GlobalSignal, Squash, ThresholdChanges, ThresholdConfig, Variant};

/// The resolved parameters of training, with every field present.
///
/// This is what a stage key contains. Writing the value that a preset has anyway does not change the key;
/// changing a preset changes the keys of all stages that use it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    pub variant: Variant,
    pub seed: u64,
    pub epochs: u64,
    /// The number of rows per step.
    pub batch: usize,
    pub device: Device,
    pub precision: Precision,
    pub net: NetConfig,
    pub threshold: ThresholdConfig,
    pub signal: SignalConfig,
    pub loss: LossConfig,
    pub optimiser: OptimiserConfig,
    pub schedule: ScheduleConfig,
    pub stopping: StoppingConfig,
    #[serde(skip)]
    pub checkpoint: CheckpointConfig,
}

/// The parameters of training as a user writes them: a preset, and changes to it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MethodChanges {
    pub preset: Preset,
    pub variant: Option<Variant>,
    /// The seed of the initial values and of the order of rows.
    pub seed: Option<u64>,
    /// The largest number of epochs.
    pub epochs: Option<u64>,
    /// The number of rows per step.
    pub batch: Option<usize>,
    pub device: Option<Device>,
    pub precision: Option<Precision>,
    pub net: NetChanges,
    pub threshold: ThresholdChanges,
    pub signal: SignalChanges,
    pub loss: LossChanges,
    pub optimiser: OptimiserChanges,
    pub schedule: ScheduleChanges,
    pub stopping: StoppingChanges,
    pub checkpoint: CheckpointChanges,
}

impl MethodChanges {
    /// Applies the changes to the preset.
    pub fn resolve(self) -> Method {
        let base = self.preset.method();
        Method {
            variant: self.variant.unwrap_or(base.variant),
            seed: self.seed.unwrap_or(base.seed),
            epochs: self.epochs.unwrap_or(base.epochs),
            batch: self.batch.unwrap_or(base.batch),
            device: self.device.unwrap_or(base.device),
            precision: self.precision.unwrap_or(base.precision),
            net: self.net.over(base.net),
            threshold: self.threshold.over(base.threshold),
            signal: self.signal.over(base.signal),
            loss: self.loss.over(base.loss),
            optimiser: self.optimiser.over(base.optimiser),
            schedule: self.schedule.over(base.schedule),
            stopping: self.stopping.over(base.stopping),
            checkpoint: self.checkpoint.over(base.checkpoint),
        }
    }
}

impl Method {
    /// Returns the number of learnable parameters, of the network and the thresholds.
    pub fn parameters(&self, features: usize, labels: usize) -> usize {
        let prototypes = self.prototypes() * (self.net.last_hidden(features) + labels);
        self.net.parameters(features, labels) + self.threshold.parameters(labels) + prototypes
    }

    /// Returns the local signal in training; `None` if the variant does not use one.
    pub fn local_in_training(&self) -> LocalSignal {
        if self.variant.uses_local() { self.signal.train } else { LocalSignal::None }
    }

    /// Returns the local signal in prediction; `None` if the variant does not use one.
    pub fn local_in_prediction(&self) -> LocalSignal {
        if self.variant.uses_local() { self.signal.predict } else { LocalSignal::None }
    }

    /// Returns whether the global signal is the salience of labels for a row.
    pub fn uses_salience(&self) -> bool {
        self.variant.uses_global() && self.threshold.global == GlobalSignal::Salience
    }

    /// Returns whether the signals of new rows come from training rows if this is the local signal.
    pub fn needs_training_rows(&self, local: LocalSignal) -> bool {
        local == LocalSignal::TrainNeighbours || self.uses_salience()
    }

    /// Returns whether the thresholds were learned for one local signal, so that no other one can replace it.
    pub fn needs_its_local_signal(&self) -> bool {
        self.threshold.fallback || self.prototypes() > 0
    }

    /// Returns the number of prototypes that are learned; zero if the local signal is another one.
    pub fn prototypes(&self) -> usize {
        if self.local_in_training() == LocalSignal::Prototypes { self.signal.prototypes } else { 0 }
    }

    /// Returns whether prediction needs the true labels of the rows that it predicts, as the evaluation of
    /// the paper does. Then only the oracle protocol is possible.
    pub fn predicts_from_true_labels(&self) -> bool {
        let own = self.threshold.global == GlobalSignal::OwnLabels && self.variant.uses_global();
        self.signal.predict == LocalSignal::BatchLabels && (own || self.variant.uses_local())
    }

    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut require = |holds: bool, field: &str, message: &str| {
            if !holds {
                issues.push(Issue::new(field, message));
            }
        };
        let positive = |limit: Limit| limit.value().is_none_or(|value| value > 0.0);
        let share = |value: f64| (0.0..1.0).contains(&value);

        require(self.epochs > 0, "epochs", "at least one epoch is needed");
        require(self.batch > 0, "batch", "at least one row per batch is needed");
        require(!self.net.hidden.contains(&0), "net.hidden", "a layer of width 0 lets nothing through");
        require(share(self.net.dropout), "net.dropout", "must be at least 0 and below 1");
        let counted = matches!(self.net.features, Features::Cut | Features::Hash);
        require(!counted || self.net.feature_count > 0, "net.feature_count", "must be at least 1");
        // An evaluation can use neighbours with any model.
        require(self.signal.neighbours > 0, "signal.neighbours", "must be at least 1");
        let predicted = [self.signal.train, self.signal.predict].contains(&LocalSignal::Predicted);
        let labels = self.signal.predicted_labels > 0;
        require(!predicted || labels, "signal.predicted_labels", "must be at least 1");
        let local = [self.local_in_training(), self.local_in_prediction()];
        let learned = local.contains(&LocalSignal::Prototypes);
        require(
            !learned || local == [LocalSignal::Prototypes; 2],
            "signal",
            "prototypes are learned together with the network: write `train: prototypes` and `predict: prototypes`",
        );
        require(
            !learned || self.signal.prototypes > 0,
            "signal.prototypes",
            "the number of prototypes must be at least 1, for example 64",
        );
        require(
            !learned || !self.net.hidden.is_empty(),
            "net.hidden",
            "prototypes lie in the last hidden layer, so at least one hidden layer is needed",
        );
        require(
            !learned || (!self.loss.standardise && self.threshold.squash == Squash::None),
            "signal",
            "prototypes need thresholds in the space of the logits, as in the presets `paper` and `honest`: \
             `squash: none` of `threshold`, and `standardise: false` of `loss`",
        );
        require(
            !self.threshold.fallback || local == [LocalSignal::TrainNeighbours; 2],
            "threshold.fallback",
            "falls back where the nearest training rows are far away, so it needs a variant with the local signal \
             `train-neighbours` in training and prediction: write `preset: honest` with `variant: adaptive`",
        );
        require(self.signal.eps >= 0.0, "signal.eps", "must not be negative");
        require(self.loss.standardise_eps >= 0.0, "loss.standardise_eps", "must not be negative");
        require(self.loss.margin_weight >= 0.0, "loss.margin_weight", "must not be negative");
        require(self.loss.margin >= 0.0, "loss.margin", "must not be negative");
        let weight = !matches!(self.loss.pos_weight, PosWeight::Number(weight) if weight <= 0.0);
        require(weight, "loss.pos_weight", "must be above 0");
        let lambda = self.threshold.lambda_init;
        require(
            !self.threshold.lambda_sigmoid || (lambda > 0.0 && lambda < 1.0),
            "threshold.lambda_init",
            "must lie between 0 and 1, both excluded, when lambda goes through a sigmoid",
        );
        require(self.optimiser.lr > 0.0, "optimiser.lr", "must be above 0");
        require(share(self.optimiser.beta1), "optimiser.beta1", "must be at least 0 and below 1");
        require(share(self.optimiser.beta2), "optimiser.beta2", "must be at least 0 and below 1");
        require(self.optimiser.eps > 0.0, "optimiser.eps", "must be above 0");
        require(self.optimiser.weight_decay >= 0.0, "optimiser.weight_decay", "must not be negative");
        require(positive(self.optimiser.clip), "optimiser.clip", "must be above 0");
        require(self.schedule.warmup >= 0.0, "schedule.warmup", "must not be negative");
        require((0.0..=1.0).contains(&self.schedule.floor), "schedule.floor", "must lie between 0 and 1");
        require(positive(self.stopping.patience), "stopping.patience", "must be above 0");
        require(positive(self.checkpoint.epochs), "checkpoint.epochs", "must be above 0");
        require(positive(self.checkpoint.minutes), "checkpoint.minutes", "must be above 0");
        issues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(yaml: &str) -> MethodChanges {
        serde_yaml::from_str(yaml).unwrap()
    }

    #[test]
    fn writing_the_value_of_the_preset_changes_nothing() {
        let plain = written("preset: released").resolve();
        let explicit =
            written("{ preset: released, loss: { pos_weight: 1e1 }, net: { dropout: 0.3 } }").resolve();
        assert_eq!(plain, explicit);
    }

    #[test]
    fn a_written_field_is_changed_and_the_others_stay() {
        let paper = Preset::Paper.method();
        let changed = written("{ preset: paper, optimiser: { lr: 0.5 } }").resolve();
        assert_eq!(changed.optimiser, OptimiserConfig { lr: 0.5, ..paper.optimiser.clone() });
        assert_eq!(Method { optimiser: paper.optimiser.clone(), ..changed }, paper);
    }

    #[test]
    fn unknown_fields_are_refused_at_every_depth() {
        for yaml in ["colour: red", "net: { width: 3 }", "optimiser: { learning_rate: 1 }"] {
            assert!(serde_yaml::from_str::<MethodChanges>(yaml).is_err(), "{yaml}");
        }
    }

    #[test]
    fn a_method_survives_json_without_its_checkpoint_interval() {
        let method = written("{ preset: honest, checkpoint: { epochs: 3 } }").resolve();
        let json = serde_json::to_value(&method).unwrap();
        assert!(json.get("checkpoint").is_none());
        let back: Method = serde_json::from_value(json).unwrap();
        assert_eq!(back, Method { checkpoint: CheckpointConfig::default(), ..method });
    }

    #[test]
    fn values_that_cannot_be_used_are_named() {
        let method = written("{ epochs: 0, optimiser: { lr: -1 }, net: { dropout: 1 } }").resolve();
        let fields: Vec<_> = method.issues().into_iter().map(|issue| issue.field).collect();
        assert_eq!(fields, ["epochs", "net.dropout", "optimiser.lr"]);
    }

    #[test]
    fn variants_that_cannot_be_combined_are_named_with_what_to_do() {
        let issue = |yaml: &str| {
            let issues = written(yaml).resolve().issues();
            assert_eq!(issues.len(), 1, "{yaml}: {issues:?}");
            format!("{}: {}", issues[0].field, issues[0].message)
        };
        let fallback = issue("{ preset: paper, threshold: { fallback: true } }");
        assert!(
            fallback.starts_with("threshold.fallback:") && fallback.contains("preset: honest"),
            "{fallback}"
        );
        issue("{ preset: honest, variant: idf-only, threshold: { fallback: true } }");
        let half = issue("{ preset: honest, signal: { train: prototypes, prototypes: 4 } }");
        assert!(half.contains("predict: prototypes"), "{half}");
        let both = "signal: { train: prototypes, predict: prototypes";
        assert!(issue(&format!("{{ preset: honest, {both} }} }}")).starts_with("signal.prototypes:"));
        let linear = issue(&format!("{{ preset: honest, {both}, prototypes: 4 }}, net: {{ hidden: [] }} }}"));
        assert!(linear.starts_with("net.hidden:"), "{linear}");
        let released = issue(&format!("{{ preset: released, {both}, prototypes: 4 }} }}"));
        assert!(released.contains("squash: none"), "{released}");
        let fits =
            format!("{{ preset: paper, {both}, prototypes: 4 }}, threshold: {{ global: salience }} }}");
        assert_eq!(written(&fits).resolve().issues(), []);
    }

    #[test]
    fn the_keys_of_methods_without_the_variants_do_not_contain_them() {
        for preset in [Preset::Paper, Preset::Released, Preset::Honest] {
            let json = serde_json::to_string(&preset.method()).unwrap();
            assert!(!json.contains("fallback") && !json.contains("prototypes"), "{json}");
        }
    }

    #[test]
    fn the_papers_model_has_about_2_8_million_parameters_at_amazoncat_shape() {
        let parameters = Preset::Paper.method().parameters(203_882, 13_330);
        assert_eq!(parameters, 8193 * 128 + 129 * 13_330 + 3 * 13_330 + 1);
        assert!((2.75e6..2.85e6).contains(&(parameters as f64)));
    }
}
