//! What the coordinator asks of whatever runs a stage: a process on this machine, one day a
//! queue of a cluster, in tests a double without processes.

use std::path::PathBuf;

use super::stop::Urgency;
use crate::spec::pipeline::Instance;
use pipe_core::event::WorkerEvent;
use pipe_core::job::Job;

/// One attempt at one stage instance.
pub struct Task<'a> {
    pub instance: &'a Instance,
    /// Its paths exist, are absolute and belong to this attempt alone.
    pub job: Job,
    /// A directory that holds all that the attempt leaves behind; for a command, its parent.
    pub directory: PathBuf,
    /// Where what the program prints is kept.
    pub stdout: PathBuf,
    pub stderr: PathBuf,
    /// The devices that the attempt has for itself, as CUDA names them.
    pub gpus: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub max_rss_bytes: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub outcome: Result<(), Broken>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Broken {
    /// A sentence that says how, and where it helps what to do next.
    Failed(String),
    /// It ended because we asked it to.
    Stopped,
}

/// Called from one thread per running stage.
pub trait Executor: Sync {
    /// Runs the task to its end and reports what it says meanwhile.
    fn execute(&self, task: &Task, report: &mut dyn FnMut(WorkerEvent)) -> Ended;

    /// Asks all that runs, and all that is about to, to end. May be called again, more urgently.
    fn stop(&self, urgency: Urgency);
}
