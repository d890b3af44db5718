//! One job as a stage sees it: where its inputs are, where its outputs go, and how to tell the
//! runner what is happening.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::event::{LogLevel, WorkerEvent};
use crate::job::{Job, JobInput};
use crate::protocol::Protocol;

/// Sends events to the runner. A stage under test gets one that collects them.
pub trait EventSink: Send {
    fn send(&mut self, event: WorkerEvent);
}

/// What a stage returns after [`Work::should_stop`] said so and its checkpoint is written.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request")]
pub struct Stopped;

pub struct Work<'a> {
    job: Job,
    events: &'a mut dyn EventSink,
    stop: Arc<AtomicBool>,
}

impl<'a> Work<'a> {
    pub fn new(job: Job, events: &'a mut dyn EventSink) -> Self {
        Self { job, events, stop: Arc::default() }
    }

    /// Has [`Work::should_stop`] follow this flag.
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Whether the runner asked us to end. A stage that takes long looks at this now and then,
    /// writes its checkpoint to `job().checkpoints` and returns [`Stopped`]; a short one may
    /// as well finish.
    pub fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn input(&self, slot: &str) -> Result<&JobInput> {
        self.inputs(slot)?.first().with_context(|| format!("the input `{slot}` is empty"))
    }

    pub fn inputs(&self, slot: &str) -> Result<&[JobInput]> {
        let inputs = self.job.inputs.get(slot);
        inputs.map(Vec::as_slice).with_context(|| format!("the job names no input `{slot}`"))
    }

    pub fn output(&self, name: &str) -> Result<&Path> {
        let path = self.job.outputs.get(name).map(PathBuf::as_path);
        path.with_context(|| format!("the job names no output `{name}`"))
    }

    pub fn progress(&mut self, done: u64, total: Option<u64>, unit: &str, message: impl Into<String>) {
        self.events.send(WorkerEvent::Progress {
            done,
            total,
            unit: unit.to_owned(),
            message: message.into(),
        });
    }

    /// Reports a value that no protocol applies to, such as a number of rows.
    pub fn metric(&mut self, name: &str, value: f64) {
        self.events.send(WorkerEvent::Metric { name: name.to_owned(), value, protocol: None });
    }

    /// Reports a value with the protocol under which it was measured: what `Marked::reveal` returns.
    pub fn marked_metric(&mut self, name: &str, (protocol, value): (Protocol, f64)) {
        let protocol = Some(protocol);
        self.events.send(WorkerEvent::Metric { name: name.to_owned(), value, protocol });
    }

    /// Says what the result is computed with. Kept beside it; never part of a key.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.events.send(WorkerEvent::Fact { name: name.to_owned(), value: value.into() });
    }

    pub fn info(&mut self, message: impl Into<String>) {
        self.events.send(WorkerEvent::Log { level: LogLevel::Info, message: message.into() });
    }

    pub fn warn(&mut self, message: impl Into<String>) {
        self.events.send(WorkerEvent::Log { level: LogLevel::Warning, message: message.into() });
    }
}
