//! `train`: the method on a data set's training part, with its validation part to choose an epoch by.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::dataset::{DATASET, complaint};
use super::idf::IDF;
use super::kind::{RunStage, StageKind};
use super::work::{Stopped, Work};
use crate::ml::config::device::{Device, Precision};
use crate::ml::config::loss::LossChanges;
use crate::ml::config::method::{Method, MethodChanges};
use crate::ml::config::net::NetChanges;
use crate::ml::config::optimiser::OptimiserChanges;
use crate::ml::config::preset::Preset;
use crate::ml::config::schedule::{CheckpointChanges, ScheduleChanges, StoppingChanges};
use crate::ml::config::signal::SignalChanges;
use crate::ml::config::threshold::{ThresholdChanges, Variant};
use crate::ml::data::csr::{Csr, Features};
use crate::ml::data::examples::Examples;
use crate::ml::data::split_data::{PartName, SplitData};
use crate::ml::engine::device;
use crate::ml::signal::idf::Idf;
use crate::ml::train::host::{Host, Progress};
use crate::ml::train::trainer::{Run, TrainError, train};
use crate::spec::kind::{ArtifactType, Complaint, FILE, InputDecl, OutputDecl, Program, SourceDecl};
use crate::spec::reference::StageRef;

/// The artifact: a directory with `model.safetensors` and `model.json`.
pub const MODEL: ArtifactType = "model";
/// The artifact: [`crate::ml::train::history::History`] as JSON.
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
        let one = |slot: &str, from: &StageRef, accepts| InputDecl {
            slot: slot.to_owned(),
            source: SourceDecl::One(from.clone()),
            accepts,
        };
        vec![one("data", &self.data, DATASET), one("idf", &self.idf, IDF)]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        let output = |name: &str, artifact, file_name: &str| OutputDecl {
            name: name.to_owned(),
            artifact,
            file_name: file_name.to_owned(),
        };
        vec![
            output("model", MODEL, "model"),
            output("history", HISTORY, "history.json"),
            // Apart from the history: seconds are never the same twice, and a stage that reads the
            // history must not run again for their sake.
            output("timings", FILE, "timings.json"),
        ]
    }

    fn complaints(&self) -> Vec<Complaint> {
        let problems = self.method.problems().into_iter();
        problems.map(|problem| complaint(problem.field, problem.message)).collect()
    }
}

impl RunStage for Train {
    fn run(&self, work: &mut Work) -> Result<()> {
        let data = SplitData::open(&work.input("data")?.path)?;
        let idf = work.input("idf")?.path.clone();
        let idf: Idf = serde_json::from_slice(&std::fs::read(&idf)?).context("the IDF cannot be read")?;
        let chosen = device::name(device::choose(self.method.device)?);
        work.info(format!("training on {chosen}"));
        let parameters = self.method.parameters(data.meta().features as usize, data.meta().labels as usize);
        work.metric("parameters", parameters as f64);

        let (training, validation) = (Part::open(&data, PartName::Train)?, PartName::Validation);
        let validation = data.has(validation).then(|| Part::open(&data, validation)).transpose()?;
        let checkpoints = work.job().checkpoints.clone();
        let run = Run {
            method: &self.method,
            train: training.examples(),
            validation: validation.as_ref().map(Part::examples),
            idf: &idf,
            checkpoints: Some(&checkpoints),
            threads: work.job().threads,
        };
        let done = match train(run, &mut Reporter(work)) {
            Err(TrainError::Stopped { .. }) => return Err(Stopped.into()),
            other => other?,
        };
        done.model.save(work.output("model")?)?;
        write_json(work.output("history")?, &done.history)?;
        write_json(work.output("timings")?, &done.seconds)?;
        work.metric("epochs", done.history.epochs.len() as f64);
        if let Some(last) = done.history.epochs.last() {
            work.metric("train_loss", last.loss.total);
        }
        if let Some((_, best)) = done.history.best(&self.method.stopping) {
            work.metric("best_validation", best);
        }
        Ok(())
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_vec_pretty(value)?).with_context(|| path.display().to_string())
}

/// One part of a data set, all its rows.
pub struct Part {
    features: Csr,
    labels: Csr,
    rows: Vec<u32>,
}

impl Part {
    pub fn open(data: &SplitData, part: PartName) -> Result<Self> {
        let features = sparse(data.features(part)?);
        let rows = (0..features.rows() as u32).collect();
        Ok(Self { features, labels: data.labels(part)?, rows })
    }

    pub fn examples(&self) -> Examples<'_> {
        Examples { features: &self.features, labels: &self.labels, rows: &self.rows }
    }
}

/// Dense features as sparse rows without their zeros.
pub fn sparse(features: Features) -> Csr {
    let dense = match features {
        Features::Sparse(csr) => return csr,
        Features::Dense(dense) => dense,
    };
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..dense.rows {
        for (column, &value) in dense.row(row).iter().enumerate().filter(|(_, value)| **value != 0.0) {
            indices.push(column as u32);
            values.push(value);
        }
        indptr.push(indices.len() as u64);
    }
    Csr { cols: dense.cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
}

/// Tells the runner how training goes.
struct Reporter<'a, 'b>(&'a mut Work<'b>);

impl Host for Reporter<'_, '_> {
    fn progress(&mut self, progress: Progress) {
        let done = progress.epoch * progress.batches + progress.batch;
        let total = progress.epochs * progress.batches;
        let mut message =
            format!("epoch {} of {}, loss {:.4}", progress.epoch, progress.epochs, progress.loss);
        if let Some(macro_f1) = progress.macro_f1 {
            message.push_str(&format!(", macro-F1 {macro_f1:.4}"));
        }
        self.0.progress(done, Some(total), "batches", message);
    }

    fn warn(&mut self, message: String) {
        self.0.warn(message);
    }

    fn should_stop(&mut self) -> bool {
        self.0.should_stop()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::idf::IdfStage;
    use super::super::trial::Trial;
    use super::*;
    use crate::ml::data::csr::Dense;
    use crate::ml::data::synthetic::Synthetic;
    use crate::ml::model::Model;
    use crate::ml::train::history::History;
    use crate::spec::kind::Kind;
    use crate::stage::kind::KindOf;

    fn data() -> Trial {
        let body = json!({
            "rows": 400, "test_rows": 50, "features": 120, "labels": 20, "labels_per_row": 2.0,
            "features_per_row": 8, "frequencies": "power-law", "validation": { "fraction": 0.2, "seed": 0 },
        });
        Trial::of::<Synthetic>(body, [] as [(&str, PathBuf); 0])
    }

    #[test]
    fn a_data_set_becomes_an_idf_and_a_model() {
        let data = data();
        let dataset = || data.output("dataset");
        let idf = Trial::of::<IdfStage>(json!({ "data": "data" }), [("data", dataset())]);
        let body = json!({
            "data": "data", "idf": "idf", "preset": "honest", "epochs": 3, "device": "cpu",
            "net": { "hidden": [16] }, "optimiser": { "lr": 0.01 },
        });
        let inputs = || [("data", dataset()), ("idf", idf.output("idf"))];
        let trained = Trial::of::<Train>(body.clone(), inputs());
        let model = Model::load(&trained.output("model")).unwrap();
        assert_eq!((model.features(), model.labels()), (120, 20));
        let read = |trial: &Trial| std::fs::read(trial.output("history")).unwrap();
        let history: History = serde_json::from_slice(&read(&trained)).unwrap();
        assert_eq!(history.epochs.len(), 3);
        assert!(trained.progress() >= 3);
        let again = Trial::of::<Train>(body, inputs());
        assert_eq!(read(&again), read(&trained));
    }

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

    #[test]
    fn dense_features_lose_only_their_zeros() {
        let dense = Dense { rows: 2, cols: 3, values: vec![0.0, 1.5, 0.0, 2.0, 0.0, -1.0].into() };
        let csr = sparse(Features::Dense(dense));
        assert_eq!((csr.row(0), csr.row_values(0)), (&[1][..], &[1.5][..]));
        assert_eq!((csr.row(1), csr.row_values(1)), (&[0, 2][..], &[2.0, -1.0][..]));
    }
}
