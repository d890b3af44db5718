//! `train`: the method on a data set's training part, with its validation part to choose an epoch by.
//! `pipe-worker` runs it; these are its parameters.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::dataset::DATASET;
use super::idf::IDF;
use pipe_core::issue::Issue;
use pipe_core::kind::{ArtifactType, InputDecl, OutputDecl, Program, TIMINGS};
use pipe_core::reference::StageRef;
use pipe_core::stage::StageKind;
use pipe_ml::config::device::{Device, Precision};
use pipe_ml::config::loss::LossChanges;
use pipe_ml::config::method::{Method, MethodChanges};
use pipe_ml::config::net::NetChanges;
use pipe_ml::config::optimiser::OptimiserChanges;
use pipe_ml::config::preset::Preset;
use pipe_ml::config::schedule::{CheckpointChanges, ScheduleChanges, StoppingChanges};
use pipe_ml::config::signal::SignalChanges;
use pipe_ml::config::threshold::{ThresholdChanges, Variant};

/// The artifact: a directory with `model.safetensors` and `model.json`.
pub const MODEL: ArtifactType = "model";
/// The artifact: the figures of each epoch, as JSON.
pub const HISTORY: ArtifactType = "history";

/// The resolved parameters, which are what the key holds; written as a [`TrainBody`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "TrainBody")]
pub struct Train {
    pub data: StageRef,
    pub idf: StageRef,
    pub method: Method,
}

/// What a user writes: a preset, and what is to be different.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TrainBody {
    data: StageRef,
    idf: StageRef,
    #[serde(default)]
    preset: Preset,
    variant: Option<Variant>,
    seed: Option<u64>,
    epochs: Option<u64>,
    /// Rows per step.
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

impl StageKind for Train {
    const NAME: &'static str = "train";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Trains a model with adaptive thresholds";
    const PROGRAM: Program = Program::Worker;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![InputDecl::one("data", &self.data, DATASET), InputDecl::one("idf", &self.idf, IDF)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![
            OutputDecl::new("model", MODEL, "model"),
            OutputDecl::new("history", HISTORY, "history.json"),
            // Apart from the history: seconds are never the same twice, and a stage that reads the
            // history must not run again for their sake.
            OutputDecl::new("timings", TIMINGS, "timings.json"),
        ]
    }

    fn issues(&self) -> Vec<Issue> {
        self.method.issues()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;

    fn params(yaml: &str) -> serde_json::Value {
        let check = KindOf::<Train>::new().check(serde_yaml::from_str(yaml).unwrap());
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
        let error = KindOf::<Train>::new().check(serde_yaml::from_str(yaml).unwrap()).err().unwrap();
        assert_eq!(error.path().to_string(), "optimiser.rate");
    }
}
