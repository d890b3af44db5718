//! Runs stages as processes on this machine.
//!
//! A built-in kind runs in a worker (`pipe worker JOB` or `pipe-worker JOB`), which answers with
//! events; `docs/worker.md` describes the protocol. A `command` runs as itself, in a directory
//! and an environment that hold nothing but what it declared; the kind's documentation says what.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::child::{ChildProcess, Children};
use super::executor::{Broken, Ended, Executor, Task, Usage};
use super::exit::Exit;
use super::listen;
use super::machine;
use super::stop::Urgency;
use crate::protocol::{Axes, WorkerEvent};
use crate::spec::kind::Program;

/// How the programs that stages run in are found.
pub struct Programs {
    /// `pipe` itself.
    pub pipe: PathBuf,
    /// The words to execute for the body of a command stage.
    pub command: fn(&serde_json::Value) -> Result<Vec<String>, serde_json::Error>,
}

pub struct LocalProcess {
    programs: Programs,
    /// A worker that says nothing for this long, not even that it lives, is worth a warning.
    silence: Duration,
    children: Children,
    memory_kills: OnceLock<Option<AtomicU64>>,
}

/// Workers say every few seconds that they live; this is many beats.
const SILENCE: Duration = Duration::from_secs(60);

impl LocalProcess {
    pub fn new(programs: Programs) -> Self {
        Self { programs, silence: SILENCE, children: Children::default(), memory_kills: OnceLock::new() }
    }

    pub fn warn_after_silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    fn run_command(&self, task: &Task) -> Result<Usage, Trouble> {
        let words = (self.programs.command)(&task.job.body).map_err(|e| Trouble::failed(e.to_string()))?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Trouble::failed("there is no program to run"));
        };
        let home = task.directory.as_path();
        let temporary = home.join("tmp");
        fs::create_dir(&temporary).map_err(|e| Trouble::io("create", &temporary, &e))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&task.job.scratch)
            .env_clear()
            .env("HOME", home)
            .env("TMPDIR", &temporary)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("PIPE_THREADS", task.job.threads.to_string());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        link_inputs(task, &mut command)?;
        for (name, path) in &task.job.outputs {
            command.env(variable("PIPE_OUT_", name), path);
        }
        for (name, value) in &task.instance.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(create(&task.stdout)?).stderr(create(&task.stderr)?);
        let child = self.spawn(task, &mut command, program)?;
        let (exit, usage) = self.wait(child)?;
        if exit.is_success() { Ok(usage) } else { Err(self.explain(exit, usage)) }
    }

    fn run_worker(&self, task: &Task, report: &mut dyn FnMut(WorkerEvent)) -> Result<Usage, Trouble> {
        let job = task.directory.join("job.json");
        let text = serde_json::to_vec_pretty(&task.job).map_err(|e| Trouble::failed(e.to_string()))?;
        fs::write(&job, text).map_err(|e| Trouble::io("write", &job, &e))?;
        let mut command = match task.instance.program {
            Program::Worker => Command::new(self.find_worker()?),
            _ => {
                let mut command = Command::new(&self.programs.pipe);
                command.arg("worker");
                command
            }
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let threads = task.job.threads.to_string();
        command
            .arg(&job)
            .current_dir(&task.job.scratch)
            .env("OMP_NUM_THREADS", &threads)
            .env("MKL_NUM_THREADS", &threads)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(create(&task.stderr)?);
        let mut child = self.spawn(task, &mut command, &program)?;
        let said = match child.process.stdout.take() {
            Some(stdout) => listen::until_the_end(stdout, &child, self.silence, report),
            None => Ok(listen::Said::default()),
        };
        let (exit, usage) = self.wait(child)?;
        let said = said.map_err(|e| Trouble::failed(format!("reading what the worker says failed: {e}")))?;
        match (said.failed, exit.is_success(), said.done) {
            (Some(message), ..) => Err(Trouble(self.broken(message), usage)),
            (None, false, _) => Err(self.explain(exit, usage)),
            (None, true, false) => Err(Trouble(
                Broken::Failed("the worker ended without saying that it was done".to_owned()),
                usage,
            )),
            (None, true, true) => Ok(usage),
        }
    }

    fn spawn(&self, task: &Task, command: &mut Command, program: &str) -> Result<ChildProcess<'_>, Trouble> {
        self.memory_kills.get_or_init(|| machine::out_of_memory_kills().map(AtomicU64::new));
        if !task.gpus.is_empty() {
            command.env("CUDA_VISIBLE_DEVICES", task.gpus.join(","));
        }
        self.children.spawn(command).map_err(|error| {
            Trouble::failed(match error.kind() {
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

    fn wait(&self, child: ChildProcess<'_>) -> Result<(Exit, Usage), Trouble> {
        child.wait().map_err(|error| Trouble::failed(format!("waiting for its process failed: {error}")))
    }

    fn explain(&self, exit: Exit, usage: Usage) -> Trouble {
        let message = exit.explain(usage, self.ran_out_of_memory());
        Trouble(self.broken(message), usage)
    }

    fn broken(&self, message: String) -> Broken {
        if self.children.is_stopping() { Broken::Stopped } else { Broken::Failed(message) }
    }

    /// Whether the kernel counted a kill since we last looked.
    fn ran_out_of_memory(&self) -> Option<bool> {
        let before = self.memory_kills.get()?.as_ref()?;
        let now = machine::out_of_memory_kills()?;
        Some(before.fetch_max(now, Ordering::SeqCst) < now)
    }

    fn find_worker(&self) -> Result<PathBuf, Trouble> {
        let beside = self.programs.pipe.with_file_name("pipe-worker");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|directory| directory.join("pipe-worker"));
        std::iter::once(beside).chain(on_path).find(|candidate| candidate.is_file()).ok_or_else(|| {
            Trouble::failed(format!(
                "this stage needs `pipe-worker`, which is neither beside `{}` nor on PATH; `make build` makes both",
                self.programs.pipe.display()
            ))
        })
    }
}

impl Executor for LocalProcess {
    fn execute(&self, task: &Task, report: &mut dyn FnMut(WorkerEvent)) -> Ended {
        let result = match task.instance.program {
            Program::Command => self.run_command(task),
            Program::Pipe | Program::Worker => self.run_worker(task, report),
        };
        match result {
            Ok(usage) => Ended { outcome: Ok(()), usage },
            Err(Trouble(broken, usage)) => Ended { outcome: Err(broken), usage },
        }
    }

    fn stop(&self, urgency: Urgency) {
        self.children.stop(urgency);
    }
}

/// Why an attempt gave nothing, with what it used all the same.
struct Trouble(Broken, Usage);

impl Trouble {
    fn failed(message: impl Into<String>) -> Self {
        Self(Broken::Failed(message.into()), Usage::default())
    }

    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("could not {what} `{}`: {error}", path.display()))
    }
}

fn create(path: &Path) -> Result<File, Trouble> {
    File::create(path).map_err(|error| Trouble::io("create", path, &error))
}

/// `in/<slot>`, or for a fan-in `in/<slot>/<axes>`, and `$PIPE_IN_<SLOT>`.
fn link_inputs(task: &Task, command: &mut Command) -> Result<(), Trouble> {
    let directory = task.job.scratch.join("in");
    if task.instance.inputs.is_empty() {
        return Ok(());
    }
    fs::create_dir(&directory).map_err(|e| Trouble::io("create", &directory, &e))?;
    for input in &task.instance.inputs {
        let artifacts = task.job.inputs.get(&input.slot).map_or(&[][..], Vec::as_slice);
        let place = directory.join(&input.slot);
        if input.many {
            fs::create_dir(&place).map_err(|e| Trouble::io("create", &place, &e))?;
            for (position, artifact) in artifacts.iter().enumerate() {
                link(&artifact.path, &place.join(member_file_name(&artifact.axes, position)))?;
            }
        } else if let Some(artifact) = artifacts.first() {
            link(&artifact.path, &place)?;
        }
        command.env(variable("PIPE_IN_", &input.slot), place);
    }
    Ok(())
}

fn link(target: &Path, place: &Path) -> Result<(), Trouble> {
    symlink(target, place).map_err(|error| Trouble::io("link", place, &error))
}

/// `variant=adaptive,seed=1`; a member that no axis tells apart is called by its number.
fn member_file_name(axes: &Axes, position: usize) -> String {
    if axes.is_empty() {
        return (position + 1).to_string();
    }
    let pairs: Vec<String> = axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    pairs.join(",").replace('/', "%2F")
}

fn variable(prefix: &str, name: &str) -> OsString {
    format!("{prefix}{}", name.to_ascii_uppercase().replace('-', "_")).into()
}
