//! Runs one stage in a test, without the runner.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipe_core::digest::{BlobId, Digest};
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::job::{Axes, Job, JobInput};
use pipe_core::kind::Vocabulary;
use pipe_core::protocol::Protocol;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::{EventSink, Work};
use pipe_ml::data::split_data::SplitData;

/// A stage that has run, with its outputs and events.
pub(crate) struct StageTest {
    directory: tempfile::TempDir,
    events: Vec<WorkerEvent>,
}

struct CollectedEvents(Vec<WorkerEvent>);

impl EventSink for CollectedEvents {
    fn send(&mut self, event: WorkerEvent) {
        self.0.push(event);
    }
}

fn slots(
    inputs: impl IntoIterator<Item = (impl Into<String>, Axes, PathBuf)>,
) -> BTreeMap<String, Vec<JobInput>> {
    let blob = Some(BlobId::new(Digest::of(b"")));
    let mut slots: BTreeMap<String, Vec<JobInput>> = BTreeMap::new();
    for (slot, axes, path) in inputs {
        let input = JobInput { axes, artifact: "file".to_owned(), path, blob };
        slots.entry(slot.into()).or_default().push(input);
    }
    slots
}

impl StageTest {
    /// Runs a stage that is expected to succeed.
    pub(crate) fn of<T: StageKind + RunStage<Stage = T>>(
        body: serde_json::Value,
        inputs: impl IntoIterator<Item = (impl Into<String>, PathBuf)>,
    ) -> Self {
        Self::run::<T>(body, inputs).unwrap()
    }

    /// Runs a stage whose slots hold several artifacts, each with its axes.
    pub(crate) fn of_many<T: StageKind + RunStage<Stage = T>>(
        body: serde_json::Value,
        inputs: Vec<(&str, Axes, PathBuf)>,
    ) -> Self {
        Self::run_job::<T>(body, slots(inputs)).unwrap()
    }

    /// Returns the error message of a stage that is expected to fail.
    pub(crate) fn failure<T: StageKind + RunStage<Stage = T>>(
        body: serde_json::Value,
        inputs: impl IntoIterator<Item = (impl Into<String>, PathBuf)>,
    ) -> String {
        match Self::run::<T>(body, inputs) {
            Ok(_) => panic!("the stage did not fail"),
            Err(error) => format!("{error:#}"),
        }
    }

    fn run<T: StageKind + RunStage<Stage = T>>(
        body: serde_json::Value,
        inputs: impl IntoIterator<Item = (impl Into<String>, PathBuf)>,
    ) -> anyhow::Result<Self> {
        let one = |(slot, path): (_, PathBuf)| (Into::<String>::into(slot), Axes::new(), path);
        Self::run_job::<T>(body, slots(inputs.into_iter().map(one)))
    }

    /// Runs a stage with complete inputs.
    pub(crate) fn run_job<T: StageKind + RunStage<Stage = T>>(
        body: serde_json::Value,
        inputs: BTreeMap<String, Vec<JobInput>>,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("scratch"))?;
        let stage: T = serde_json::from_value(body.clone())?;
        assert_eq!(stage.issues(), []);
        let job = Job {
            key: None,
            instance: "test".to_owned(),
            kind: T::NAME.to_owned(),
            body,
            inputs,
            outputs: stage
                .outputs()
                .into_iter()
                .map(|output| (output.name.clone(), at(&output.name)))
                .collect(),
            scratch: at("scratch"),
            checkpoints: at("checkpoints"),
            threads: 2,
        };
        let mut events = CollectedEvents(Vec::new());
        T::run(&stage, &mut Work::new(job, &mut events))?;
        if let Some(declared) = stage.metrics().map(Vocabulary::of_metrics) {
            for event in &events.0 {
                if let WorkerEvent::Metric { name, .. } = event {
                    assert!(declared.has(name), "`{}` does not declare the metric `{name}`", T::NAME);
                }
            }
        }
        Ok(Self { directory, events: events.0 })
    }

    /// Returns the path of an output.
    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens the output `dataset`.
    pub(crate) fn dataset(&self) -> SplitData {
        SplitData::open(&self.output("dataset")).unwrap()
    }

    /// Returns the last value that the stage reported under a name.
    pub(crate) fn metric(&self, wanted: &str) -> Option<f64> {
        self.events.iter().rev().find_map(|event| match event {
            WorkerEvent::Metric { name, value, .. } if name == wanted => Some(*value),
            _ => None,
        })
    }

    /// Returns the protocol of the last value that the stage reported under a name.
    pub(crate) fn protocol(&self, wanted: &str) -> Option<Protocol> {
        self.events.iter().rev().find_map(|event| match event {
            WorkerEvent::Metric { name, protocol, .. } if name == wanted => *protocol,
            _ => None,
        })
    }

    /// Returns the warnings of the stage.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warning = |event| match event {
            &WorkerEvent::Log { level: LogLevel::Warning, ref message } => Some(message.as_str()),
            _ => None,
        };
        self.events.iter().filter_map(warning).collect()
    }

    /// Returns how often the stage reported progress.
    pub(crate) fn progress(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, WorkerEvent::Progress { .. })).count()
    }
}
