//! The view that a running stage has of its job: its inputs, its outputs, and events to the runner.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::artifact::{Artifact, SaveArtifact};
use crate::event::{LogLevel, WorkerEvent};
use crate::job::{Axes, Job, JobInput};
use crate::protocol::Protocol;
use crate::slot::{Out, Slot};

/// A receiver of a stage's events: the runner, or a list in a test.
pub trait EventSink: Send {
    /// Takes one event.
    fn send(&mut self, event: WorkerEvent);
}

/// The name of the fact that says what multiplied matrices, if it was not libtorch: such a library chooses its code by the
/// vector units of the machine, and another code may round differently.
pub const MATRIX_PRODUCT: &str = "matrix product";

/// The error that a stage returns when it ends because of [`Work::should_stop`], after it has written its checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request")]
pub struct Stopped;

/// One job while it runs.
///
/// Inputs and outputs are reached by the typed constants of the stage kind; see [`crate::slot`].
pub struct Work<'a> {
    job: Job,
    events: &'a mut dyn EventSink,
    stop: StopRequest,
}

/// A request to stop, as the process of a stage receives it.
#[derive(Debug, Clone, Default)]
pub struct StopRequest {
    /// Whether there was a request.
    pub requested: Arc<AtomicBool>,
    /// Whether a request ends the process at once.
    pub ends_process: Arc<AtomicBool>,
}

impl<'a> Work<'a> {
    /// Returns a view of a job whose events go to `events`.
    pub fn new(job: Job, events: &'a mut dyn EventSink) -> Self {
        Self { job, events, stop: StopRequest::default() }
    }

    /// Makes [`Work::should_stop`] follow a request.
    pub fn stopped_by(self, stop: StopRequest) -> Self {
        Self { stop, ..self }
    }

    /// Returns whether the runner has asked the stage to end.
    ///
    /// A long stage checks this now and then, writes its checkpoint to `job().checkpoints` and returns [`Stopped`].
    /// A short stage may finish instead.
    pub fn should_stop(&self) -> bool {
        self.stop.requested.load(Ordering::SeqCst)
    }

    /// Says that the stage has no checkpoint to write: from now on, a request to stop ends its process at once. For
    /// computations that cannot check [`Work::should_stop`] often enough.
    pub fn end_at_once_when_stopped(&self) -> Result<(), Stopped> {
        self.stop.ends_process.store(true, Ordering::SeqCst);
        if self.should_stop() { Err(Stopped) } else { Ok(()) }
    }

    /// Returns the job: parameters, scratch directory, number of threads.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Opens the artifact of a slot that takes exactly one.
    pub fn open<T: Artifact>(&self, slot: Slot<T>) -> Result<T> {
        T::open(self.input_path(slot)?)
    }

    /// Opens the artifact of a slot, or returns `None` if the stage was declared without this input.
    pub fn open_optional<T: Artifact>(&self, slot: Slot<T>) -> Result<Option<T>> {
        if self.inputs(&slot).is_empty() { Ok(None) } else { self.open(slot).map(Some) }
    }

    /// Opens all artifacts of a slot, each with the axes that identify it.
    pub fn open_all<T: Artifact>(&self, slot: Slot<T>) -> Result<Vec<(Axes, T)>> {
        self.inputs(&slot).iter().map(|input| Ok((input.axes.clone(), T::open(&input.path)?))).collect()
    }

    /// Returns the inputs of a slot, without opening them. There are none if the stage was declared without the slot.
    pub fn inputs<T>(&self, slot: &Slot<T>) -> &[JobInput] {
        self.job.inputs.get(slot.name()).map_or(&[], Vec::as_slice)
    }

    /// Returns the path of the artifact of a slot that takes exactly one.
    pub fn input_path<T>(&self, slot: Slot<T>) -> Result<&Path> {
        match self.inputs(&slot) {
            [input] => Ok(&input.path),
            [] => bail!("the job has no input `{}`", slot.name()),
            inputs => bail!("the job has {} inputs `{}`, expected one", inputs.len(), slot.name()),
        }
    }

    /// Writes an output.
    pub fn save<T: SaveArtifact>(&self, output: Out<T>, artifact: &T) -> Result<()> {
        artifact.save(self.output_path(output)?)
    }

    /// Returns the path to which an output is to be written, for artifacts that are written row by row.
    pub fn output_path<T>(&self, output: Out<T>) -> Result<&Path> {
        let path = self.job.outputs.get(output.name()).map(PathBuf::as_path);
        path.with_context(|| format!("the job has no output `{}`", output.name()))
    }

    /// Reports that `done` of `total` units are done.
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
        self.send_metric(name, value, None, None);
    }

    /// Reports a value with the protocol under which it was measured: what `Marked::reveal` returns.
    pub fn marked_metric(&mut self, name: &str, (protocol, value): (Protocol, f64)) {
        self.send_metric(name, value, Some(protocol), None);
    }

    /// Reports a point of a learning curve. The last one of a name is also a value of the stage.
    pub fn curve_point(&mut self, name: &str, epoch: u64, (protocol, value): (Option<Protocol>, f64)) {
        self.send_metric(name, value, protocol, Some(epoch));
    }

    fn send_metric(&mut self, name: &str, value: f64, protocol: Option<Protocol>, epoch: Option<u64>) {
        self.events.send(WorkerEvent::Metric { name: name.to_owned(), value, protocol, epoch });
    }

    /// Records what the result is computed with, such as the device. It is kept in the manifest and never part of a key.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.events.send(WorkerEvent::Fact { name: name.to_owned(), value: value.into() });
    }

    /// Logs a message.
    pub fn info(&mut self, message: impl Into<String>) {
        self.events.send(WorkerEvent::Log { level: LogLevel::Info, message: message.into() });
    }

    /// Logs a warning, which is kept in the manifest and shown to the user.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.events.send(WorkerEvent::Log { level: LogLevel::Warning, message: message.into() });
    }
}
