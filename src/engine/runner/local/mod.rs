//! Runs stages as processes on this machine.
//!
//! A built-in kind runs in a worker (`pipe worker JOB` or `pipe-worker JOB`), which answers with events;
//! `docs/worker.md` describes the format. A `command` runs directly, in a directory and an environment that contain only
//! what it declared; the documentation of the kind says what.

mod command;
#[cfg(test)]
mod tests;
mod worker;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::child::{ChildProcess, Children};
use super::executor::{AttemptError, Executor, ResourceUsage, Task};
use super::exit::ProcessExit;
use super::libtorch::Worker;
use super::listen::{self, Kept, StreamSink};
use super::machine;
use super::stop::Urgency;
use super::worker_servers::WorkerServers;
use pipe_core::event::WorkerEvent;
use pipe_core::job::Job;
use pipe_core::kind::Program;

/// How the programs that stages run in are found.
pub struct Programs {
    /// `pipe` itself.
    pub pipe: PathBuf,
    /// The words to execute for the body of a command stage.
    pub command: fn(&serde_json::Value) -> Result<Vec<String>, serde_json::Error>,
    /// Whether a job of [`Program::Either`] needs `pipe-worker`.
    pub needs_worker: fn(&Job) -> bool,
}

/// Runs tasks as child processes.
pub struct LocalProcess {
    programs: Programs,
    /// A worker that sends no event for this long causes a warning.
    silence: Duration,
    worker: OnceLock<Result<Worker, String>>,
    servers: WorkerServers,
    children: Children,
    memory_kills: OnceLock<Option<AtomicU64>>,
    perturbed: bool,
    observed: Option<Observation>,
}

/// How the files that commands use are observed.
struct Observation {
    project: PathBuf,
    undeclared: OnUndeclared,
}

/// What follows if a command reads a file that it does not declare. Either way, [`WorkerEvent::Undeclared`] is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUndeclared {
    /// The command fails.
    Fail,
    /// Nothing else.
    Report,
}

/// How a process is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// As a command whose environment was cleared.
    Cleared,
    /// By the server of its program, if there is one.
    Served,
    /// As any other process.
    Forked,
}

/// Workers send an event every few seconds; this is many times as long.
const SILENCE: Duration = Duration::from_secs(60);

impl LocalProcess {
    /// An executor that finds programs in the given places.
    pub fn new(programs: Programs) -> Self {
        Self {
            programs,
            silence: SILENCE,
            worker: OnceLock::new(),
            servers: WorkerServers::default(),
            children: Children::default(),
            memory_kills: OnceLock::new(),
            perturbed: false,
            observed: None,
        }
    }

    /// Changes conditions that no result may depend on: workers get another time zone and locale, and the members of a fan-in are
    /// linked in reverse order. What `pipe` promises to a command stays the same.
    pub fn perturbed(self) -> Self {
        Self { perturbed: true, ..self }
    }

    /// Observes which files commands use; see [`super::file_trace`].
    pub fn observing_files(self, project: &Path, undeclared: OnUndeclared) -> Self {
        Self { observed: Some(Observation { project: project.to_owned(), undeclared }), ..self }
    }

    /// Sets how long a worker may be silent before there is a warning.
    pub fn warn_after_silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Starts the command, reads its output, and waits for its end.
    fn run(
        &self,
        task: &Task,
        start: Start,
        command: &mut Command,
        stdout: &mut dyn StreamSink,
    ) -> Result<(ProcessExit, ResourceUsage), AttemptError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(task, start, command)?;
        let heard = listen::drain(&mut child, stdout, &mut Kept::at(&task.stderr));
        // Its output is no longer read, so it could wait for ever.
        if heard.is_err() {
            child.kill();
        }
        let ended =
            child.wait().map_err(|e| AttemptError::retryable(format!("waiting for its process failed: {e}")));
        heard.map_err(|e| AttemptError::retryable(format!("what it printed could not be kept: {e}")))?;
        ended
    }

    fn spawn(
        &self,
        task: &Task,
        start: Start,
        command: &mut Command,
    ) -> Result<ChildProcess<'_>, AttemptError> {
        self.memory_kills.get_or_init(|| machine::out_of_memory_kills().map(AtomicU64::new));
        if !task.gpus.is_empty() {
            command.env("CUDA_VISIBLE_DEVICES", task.gpus.join(","));
        }
        if start == Start::Served
            && let Some(child) = self.servers.fork(&self.children, command, &job_file(task))
        {
            return Ok(child);
        }
        let spawned = match start {
            Start::Cleared => self.children.spawn_cleared(command),
            Start::Served | Start::Forked => self.children.spawn(command),
        };
        spawned.map_err(|error| {
            let program = command.get_program().to_string_lossy();
            AttemptError::retryable(match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("the program `{program}` was not found; is it installed and on PATH?")
                }
                io::ErrorKind::PermissionDenied => {
                    format!("the program `{program}` may not be executed; does it have the x permission?")
                }
                _ => format!("the program `{program}` could not be started: {error}"),
            })
        })
    }

    fn explain(&self, exit: ProcessExit, usage: ResourceUsage) -> AttemptError {
        let counted = self.ran_out_of_memory();
        let mut failure = self.failure(exit.explain(usage, counted));
        if let AttemptError::Failed { out_of_memory, .. } = &mut failure {
            *out_of_memory = exit.is_kill() && counted != Some(false);
        }
        failure
    }

    /// A process that fails during a stop counts as stopped.
    fn failure(&self, message: String) -> AttemptError {
        if self.children.is_stopping() {
            AttemptError::Stopped { checkpoint: false }
        } else {
            AttemptError::retryable(message)
        }
    }

    /// Returns whether the kernel counted an out-of-memory kill since the last call.
    fn ran_out_of_memory(&self) -> Option<bool> {
        let before = self.memory_kills.get()?.as_ref()?;
        let now = machine::out_of_memory_kills()?;
        Some(before.fetch_max(now, Ordering::SeqCst) < now)
    }
}

impl Executor for LocalProcess {
    fn execute(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        match task.program {
            Program::Command => self.run_command(task, report),
            Program::Pipe | Program::Worker | Program::Either => self.run_worker(task, report),
        }
    }

    fn stop(&self, urgency: Urgency) {
        self.children.stop(urgency);
    }
}

fn job_file(task: &Task) -> PathBuf {
    task.directory.join("job.json")
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> AttemptError {
    AttemptError::retryable(format!("could not {what} `{}`: {error}", path.display()))
}
