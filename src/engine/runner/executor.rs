//! The interface between the coordinator and the code that runs a stage: a process on this machine, or a function in
//! tests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::packages::PackageTask;
use super::stop::Urgency;
use pipe_core::event::WorkerEvent;
use pipe_core::job::Job;
use pipe_core::kind::Program;

/// One attempt at one job.
pub struct Task<'a> {
    /// Its paths exist, are absolute, and belong only to this attempt.
    pub job: Job,
    pub program: Program,
    /// The slots that take any number of artifacts: for a command they are directories in `in/`.
    pub fan_ins: BTreeSet<String>,
    /// The environment variables of a command, by name; `None` unsets one.
    pub environment: &'a [(String, Option<String>)],
    /// The packages that a command finds.
    pub packages: Option<PackageTask<'a>>,
    /// A directory that holds everything that the attempt leaves behind.
    pub directory: PathBuf,
    /// The file that keeps what a command prints. (A worker prints events.)
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    /// The devices that are reserved for the attempt, as CUDA names them.
    pub gpus: Vec<String>,
}

/// What an attempt used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceUsage {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub max_rss_bytes: u64,
}

/// Why an attempt gave no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptError {
    Failed {
        /// A sentence that says what happened and, where it helps, what to do next.
        error: String,
        /// The last lines that the stage printed to standard error.
        stderr_tail: String,
        /// Whether another try might succeed.
        retry: bool,
        /// Whether it was killed because it needed too much memory, as far as this is known.
        out_of_memory: bool,
    },
    /// Whether it ended because it was asked to stop.
    Stopped {
        /// Whether it left a checkpoint to continue from.
        checkpoint: bool,
    },
    /// It was left to the cluster.
    Detached {
        /// The id of its job; `None` if it was not submitted, because too many jobs are in the queue.
        job: Option<String>,
    },
}

impl AttemptError {
    /// A failure of the stage's own program, which might succeed another time.
    pub fn retryable(error: impl Into<String>) -> Self {
        Self::failed(error, true)
    }

    /// A failure that would happen again.
    pub fn permanent(error: impl Into<String>) -> Self {
        Self::failed(error, false)
    }

    /// Adds a sentence about what to do to a failure.
    pub(super) fn with_hint(mut self, hint: Option<String>) -> Self {
        if let (Self::Failed { error, .. }, Some(hint)) = (&mut self, hint) {
            error.push_str(&format!("; {hint}"));
        }
        self
    }

    fn failed(error: impl Into<String>, retry: bool) -> Self {
        Self::Failed { error: error.into(), stderr_tail: String::new(), retry, out_of_memory: false }
    }
}

/// Runs tasks. Called from one thread per running stage.
pub trait Executor: Sync {
    /// Runs the task to its end and reports its events.
    fn execute(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError>;

    /// Asks every running task, and every task that starts later, to end. May be called again, more urgently.
    fn stop(&self, urgency: Urgency);
}
