//! `train`: trains the paper's method on the training part of a data set, and chooses an epoch by the validation part.
//! These are its parameters; `pipe-worker` runs it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::StageKind;
use pipe_ml::artifacts::{EpochSeconds, ModelDirectory};
use pipe_ml::config::device::{Device, Precision};
use pipe_ml::config::loss::LossChanges;
use pipe_ml::config::method::{Method, MethodChanges};
use pipe_ml::config::net::NetChanges;
use pipe_ml::config::optimiser::OptimiserChanges;
use pipe_ml::config::preset::Preset;
use pipe_ml::config::schedule::{CheckpointChanges, ScheduleChanges, StoppingChanges};
use pipe_ml::config::signal::SignalChanges;
use pipe_ml::config::threshold::{ThresholdChanges, Variant};
use pipe_ml::data::split_data::SplitData;
use pipe_ml::history::History;
use pipe_ml::signal::idf::Idf;

/// The resolved parameters of `train`, which are part of the key. Users write a [`TrainBody`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "TrainBody")]
pub struct Train {
    pub data: StageRef,
    pub idf: StageRef,
    pub method: Method,
}

/// The parameters of `train` as a user writes them: a preset, and changes to it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TrainBody {
    /// The data set.
    data: StageRef,
    /// The rarity of the labels: an `idf` stage on the same data.
    idf: StageRef,
    /// The preset, which sets all parameters that are not given here.
    #[serde(default)]
    preset: Preset,
    /// The signals that the thresholds use.
    variant: Option<Variant>,
    /// The seed of all random draws.
    seed: Option<u64>,
    /// The largest number of epochs.
    epochs: Option<u64>,
    /// The number of rows per step.
    batch: Option<usize>,
    device: Option<Device>,
    precision: Option<Precision>,
    #[serde(default)]
    net: NetChanges,
    #[serde(default)]
    threshold: ThresholdChanges,
    #[serde(default)]
    signal: SignalChanges,
    #[serde(default)]
    loss: LossChanges,
    #[serde(default)]
    optimiser: OptimiserChanges,
    #[serde(default)]
    schedule: ScheduleChanges,
    #[serde(default)]
    stopping: StoppingChanges,
    #[serde(default)]
    checkpoint: CheckpointChanges,
}

impl From<TrainBody> for Train {
    fn from(body: TrainBody) -> Self {
        let changes = MethodChanges {
            preset: body.preset,
            variant: body.variant,
            seed: body.seed,
            epochs: body.epochs,
            batch: body.batch,
            device: body.device,
            precision: body.precision,
            net: body.net,
            threshold: body.threshold,
            signal: body.signal,
            loss: body.loss,
            optimiser: body.optimiser,
            schedule: body.schedule,
            stopping: body.stopping,
            checkpoint: body.checkpoint,
        };
        Self { data: body.data, idf: body.idf, method: changes.resolve() }
    }
}

impl JsonSchema for Train {
    fn schema_name() -> Cow<'static, str> {
        "Train".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TrainBody::json_schema(generator)
    }
}

impl Train {
    /// The data set with the training and validation rows.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The rarity of the labels.
    pub const IDF: Slot<Idf> = Slot::new("idf");
    /// The model: `model.safetensors` and `model.json`.
    pub const MODEL: Out<ModelDirectory> = Out::new("model", "model");
    /// The values of each epoch.
    pub const HISTORY: Out<History> = Out::new("history", "history.json");
    /// The seconds of each epoch. They are not part of the history, because seconds differ from run to run, and stages
    /// that read the history must not run again for that.
    pub const TIMINGS: Out<EpochSeconds> = Out::new("timings", "timings.json");

    /// The metric with the number of trained parameters.
    pub const PARAMETERS: &'static str = "parameters";
    /// The metric with the number of epochs.
    pub const EPOCHS: &'static str = "epochs";
    /// The metric with the loss of an epoch.
    pub const TRAIN_LOSS: &'static str = "train_loss";
    /// The metric with the macro-F1 of an epoch on validation rows.
    pub const VALIDATION_MACRO_F1: &'static str = "validation_macro_f1";
    /// The metric with the best value on validation rows.
    pub const BEST_VALIDATION: &'static str = "best_validation";
}

impl StageKind for Train {
    const NAME: &'static str = "train";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Trains a model with adaptive thresholds";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![Self::DATA.one(&self.data), Self::IDF.one(&self.idf)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::MODEL.decl(), Self::HISTORY.decl(), Self::TIMINGS.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        self.method.issues()
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec![
            Self::PARAMETERS,
            Self::EPOCHS,
            Self::TRAIN_LOSS,
            Self::VALIDATION_MACRO_F1,
            Self::BEST_VALIDATION,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;

    fn params(yaml: &str) -> serde_json::Value {
        let check = KindOf::<Train>::new().check(&serde_yaml::from_str(yaml).unwrap());
        check.unwrap().params
    }

    #[test]
    fn the_key_holds_resolved_parameters_and_no_names() {
        let short = params("{ data: a, idf: b, preset: released }");
        assert_eq!(short["method"]["loss"]["pos_weight"], 10.0);
        assert_eq!(short, params("{ idf: y, data: x, preset: released, loss: { pos_weight: 1e1 } }"));
        assert_ne!(short, params("{ data: a, idf: b, preset: released, seed: 1 }"));
        assert_eq!(short, params("{ data: a, idf: b, preset: released, checkpoint: { minutes: 1 } }"));
    }

    #[test]
    fn a_misspelt_field_is_refused_with_its_path() {
        let yaml = "{ data: a, idf: b, optimiser: { rate: 1 } }";
        let error = KindOf::<Train>::new().check(&serde_yaml::from_str(yaml).unwrap()).err().unwrap();
        assert_eq!(error.path().to_string(), "optimiser.rate");
    }
}
