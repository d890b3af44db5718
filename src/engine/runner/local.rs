//! Runs stages as processes on this machine.
//!
//! A built-in kind runs in a worker (`pipe worker JOB` or `pipe-worker JOB`), which answers with events;
//! `docs/worker.md` describes the format. A `command` runs directly, in a directory and an environment that contain only
//! what it declared; the documentation of the kind says what.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::child::{ChildProcess, Children};
use super::executor::{AttemptError, Executor, ResourceUsage, Task};
use super::exit::ProcessExit;
use super::file_trace::{FileTrace, Surroundings, input_lines, listed};
use super::libtorch::Worker;
use super::listen::{self, Events, Kept, StreamSink};
use super::machine;
use super::packages::PackageTask;
use super::stop::Urgency;
use super::worker_servers::WorkerServers;
use crate::store::{Installation, StoreError};
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::job::{Axes, Job};
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

/// How often a command checks whether another process has installed its packages.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A time zone with half hours, and a language in which `i` is not the lower case of `I` and numbers have commas.
const PERTURBED: [(&str, &str); 3] =
    [("TZ", "Asia/Kolkata"), ("LC_ALL", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")];

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

    fn run_command(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        let words =
            (self.programs.command)(&task.job.body).map_err(|e| AttemptError::retryable(e.to_string()))?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(AttemptError::retryable("there is no program to run"));
        };
        let mut command = self.command_process(task, program, report)?;
        command.args(arguments);
        let mut stdout = Kept::at(&task.stdout);
        let Some(observation) = &self.observed else {
            let (exit, usage) = self.run(task, Start::Cleared, &mut command, &mut stdout)?;
            return if exit.is_success() {
                Ok(usage)
            } else {
                Err(self.explain(exit, usage).with_hint(undeclared_files(&words, task)))
            };
        };
        let trace = observation.start(task, &mut command)?;
        let ended = self.run(task, Start::Forked, &mut command, &mut stdout);
        let undeclared = observation.finish(trace, task, report);
        let (exit, usage) = ended?;
        if !exit.is_success() {
            return Err(self.explain(exit, usage));
        }
        undeclared.map(|()| usage)
    }

    /// Links the inputs of a task, installs its packages, and returns a process in its working directory that sees what a
    /// command would see.
    pub fn command_process(
        &self,
        task: &Task,
        program: &str,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<Command, AttemptError> {
        let temporary = task.directory.join("tmp");
        let mut command = Command::new(program);
        command
            .current_dir(&task.job.scratch)
            .env_clear()
            .env("HOME", &temporary)
            .env("TMPDIR", &temporary)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("PIPE_THREADS", task.job.threads.to_string());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        link_inputs(task, &mut command, self.perturbed)?;
        for (name, path) in &task.job.outputs {
            command.env(variable("PIPE_OUT_", name), path);
        }
        for (name, value) in task.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(packages) = &task.packages {
            packages.activate(&self.installed(packages, task, report)?, &mut command);
        }
        Ok(command)
    }

    /// Returns the directory with the packages of a command. Installs them if they are not there, or waits for another
    /// process that does.
    fn installed(
        &self,
        packages: &PackageTask,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<PathBuf, AttemptError> {
        let failed = |error: StoreError| AttemptError::permanent(error.to_string());
        while !self.children.is_stopping() {
            match packages.directory.installed() {
                Some(found) => match packages.problem(&found) {
                    None => return Ok(found),
                    Some(problem) => {
                        let shown = packages.shown();
                        let message =
                            format!("the installed packages of `{shown}` cannot be used any more: {problem}");
                        report(WorkerEvent::Log { level: LogLevel::Info, message });
                        packages.directory.forget();
                    }
                },
                None => {}
            }
            match packages.directory.try_begin().map_err(failed)? {
                // Another process may have ended its installation just before.
                Some(installation) if packages.directory.installed().is_none() => {
                    self.install(packages, &installation, task, report)?;
                    return installation.commit().map_err(failed);
                }
                Some(_) => {}
                None => std::thread::sleep(LOOK_AGAIN),
            }
        }
        Err(AttemptError::Stopped { checkpoint: false })
    }

    fn install(
        &self,
        packages: &PackageTask,
        installation: &Installation,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<(), AttemptError> {
        let message = format!("installing the packages of `{}`, once", packages.shown());
        report(WorkerEvent::Log { level: LogLevel::Info, message });
        let files = task.directory.join("packages");
        packages.copy_files(&files)?;
        for mut command in packages.installing(installation.path(), &files) {
            let (exit, usage) = self.run(task, Start::Forked, &mut command, &mut Kept::at(&task.stdout))?;
            if !exit.is_success() {
                let mut failure = self.explain(exit, usage);
                if let AttemptError::Failed { error, .. } = &mut failure {
                    *error =
                        format!("the packages of `{}` could not be installed: {error}", packages.shown());
                }
                return Err(failure);
            }
        }
        // What the tool printed belongs to the packages and not to the stage.
        for log in [&task.stdout, &task.stderr] {
            let _ = fs::remove_file(log);
        }
        match packages.problem(installation.path()) {
            None => Ok(()),
            Some(problem) => Err(AttemptError::permanent(format!(
                "the environment of `{}` is not the one that was asked for: {problem}; run again",
                packages.shown()
            ))),
        }
    }

    fn run_worker(
        &self,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<ResourceUsage, AttemptError> {
        let job = job_file(task);
        let text =
            serde_json::to_vec_pretty(&task.job).map_err(|e| AttemptError::retryable(e.to_string()))?;
        fs::write(&job, text).map_err(|e| io_error("write", &job, &e))?;
        let program = match task.program {
            Program::Either if (self.programs.needs_worker)(&task.job) => Program::Worker,
            Program::Either => Program::Pipe,
            stated => stated,
        };
        let (start, mut command) = match program {
            Program::Worker => (Start::Served, self.worker_command()?),
            _ => {
                let mut command = Command::new(&self.programs.pipe);
                command.arg("worker");
                (Start::Forked, command)
            }
        };
        let threads = task.job.threads.to_string();
        command
            .arg(&job)
            .current_dir(&task.job.scratch)
            .env("OMP_NUM_THREADS", &threads)
            .env("MKL_NUM_THREADS", &threads);
        if self.perturbed {
            command.envs(PERTURBED);
        }
        let mut said = Events::new(report, self.silence);
        let (exit, usage) = self.run(task, start, &mut command, &mut said)?;
        said.end();
        match (said.failed, exit.is_success(), said.done) {
            (Some(message), ..) => Err(self.failure(message)),
            (None, false, _) => Err(self.explain(exit, usage)),
            (None, true, false) => {
                Err(AttemptError::retryable("the worker ended without saying that it was done"))
            }
            (None, true, true) => Ok(usage),
        }
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

    /// Returns a command that starts the worker, which is looked for once.
    fn worker_command(&self) -> Result<Command, AttemptError> {
        let found = self.worker.get_or_init(|| Worker::find(&self.programs.pipe));
        let needed =
            |problem: &String| AttemptError::permanent(format!("this stage needs `pipe-worker`: {problem}"));
        Ok(found.as_ref().map_err(needed)?.command())
    }
}

impl Observation {
    fn start(&self, task: &Task, command: &mut Command) -> Result<FileTrace, AttemptError> {
        let inputs = task.job.inputs.values().flatten().map(|input| input.path.as_path()).collect();
        let surroundings = Surroundings { project: &self.project, work_area: &task.directory, inputs };
        FileTrace::prepare(command, &surroundings)
            .map_err(|e| AttemptError::retryable(format!("its files cannot be observed: {e}")))
    }

    /// Reports the undeclared files of a command that has ended.
    fn finish(
        &self,
        trace: FileTrace,
        task: &Task,
        report: &mut dyn FnMut(WorkerEvent),
    ) -> Result<(), AttemptError> {
        let files = trace
            .finish()
            .map_err(|e| AttemptError::retryable(format!("its files could not be observed: {e}")))?;
        if !files.read.is_empty() || !files.written.is_empty() {
            report(WorkerEvent::Undeclared { read: files.read.clone(), written: files.written.clone() });
        }
        if self.undeclared == OnUndeclared::Report || files.read.is_empty() {
            return Ok(());
        }
        let taken: Vec<&str> = task.job.inputs.keys().map(String::as_str).collect();
        Err(AttemptError::permanent(files.failure(&taken)))
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

/// Returns a hint if the words of a command name files of the project that it does not declare, so that they are not in its
/// working directory.
fn undeclared_files(words: &[String], task: &Task) -> Option<String> {
    let is_separator = |c: char| c.is_whitespace() || "'\"();|&<>=`$".contains(c);
    let parts = words.iter().flat_map(|word| word.split(is_separator));
    let is_output =
        |path: &Path| task.job.outputs.values().any(|output| *output == task.job.scratch.join(path));
    let is_undeclared = |part: &&str| {
        let path = Path::new(part);
        path.is_relative() && path.is_file() && !task.job.scratch.join(path).exists() && !is_output(path)
    };
    let mut files: Vec<String> = parts.filter(is_undeclared).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    let taken: Vec<&str> = task.job.inputs.keys().map(String::as_str).collect();
    let lines = input_lines(&files, &taken);
    let first = lines.first()?.split(':').next()?;
    Some(format!(
        "{} of the project is not in its working directory. Add to its `inputs:`, and write `in/{first}` in the command\n    {}",
        listed(&files),
        lines.join("\n    ")
    ))
}

fn job_file(task: &Task) -> PathBuf {
    task.directory.join("job.json")
}

fn io_error(what: &str, path: &Path, error: &io::Error) -> AttemptError {
    AttemptError::retryable(format!("could not {what} `{}`: {error}", path.display()))
}

/// Makes `in/<slot>`, or for a fan-in `in/<slot>/<axes>`, and sets `$PIPE_IN_<SLOT>`.
fn link_inputs(task: &Task, command: &mut Command, reversed: bool) -> Result<(), AttemptError> {
    let directory = task.job.scratch.join("in");
    if !task.job.inputs.is_empty() {
        fs::create_dir_all(&directory).map_err(|e| io_error("create", &directory, &e))?;
    }
    for (slot, artifacts) in &task.job.inputs {
        let place = directory.join(slot);
        if task.fan_ins.contains(slot) {
            fs::create_dir(&place).map_err(|e| io_error("create", &place, &e))?;
            let mut members: Vec<_> = artifacts.iter().enumerate().collect();
            if reversed {
                members.reverse();
            }
            for (position, artifact) in members {
                link(&artifact.path, &place.join(member_file_name(&artifact.axes, position)))?;
            }
        } else if let Some(artifact) = artifacts.first() {
            link(&artifact.path, &place)?;
        }
        command.env(variable("PIPE_IN_", slot), place);
    }
    Ok(())
}

fn link(target: &Path, place: &Path) -> Result<(), AttemptError> {
    symlink(target, place).map_err(|error| io_error("link", place, &error))
}

/// Returns a name such as `variant=adaptive,seed=1`; a member without axes is named by its number.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::*;
    use crate::plan::sample;
    use crate::spec::pipeline::{Input, Instance};
    use pipe_core::job::{Job, JobInput};

    struct Bench {
        directory: tempfile::TempDir,
        instance: Instance,
    }

    impl Bench {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), instance: sample::stage("it", &[]) }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn task(&self, body: Value) -> Task<'_> {
            fs::create_dir(self.path("work")).unwrap();
            fs::create_dir(self.path("tmp")).unwrap();
            let job = Job {
                key: None,
                instance: "it".into(),
                kind: self.instance.kind.into(),
                body,
                inputs: BTreeMap::new(),
                outputs: BTreeMap::from([("the-table".into(), self.path("work/t.csv"))]),
                scratch: self.path("work"),
                checkpoints: self.path("checkpoints"),
                threads: 3,
            };
            let directory = self.directory.path().to_owned();
            let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
            let Instance { program, inputs, environment, .. } = &self.instance;
            let fan_ins = inputs.iter().filter(|input| input.many).map(|input| input.slot.clone()).collect();
            let (packages, gpus) = (None, Vec::new());
            Task { job, program: *program, fan_ins, environment, packages, directory, stdout, stderr, gpus }
        }

        /// A `pipe` that is a shell script.
        fn executor(&self, worker: &str) -> LocalProcess {
            let pipe = self.path("pipe");
            fs::write(&pipe, format!("#!/bin/sh\n{worker}\n")).unwrap();
            fs::set_permissions(&pipe, fs::Permissions::from_mode(0o755)).unwrap();
            LocalProcess::new(Programs {
                pipe,
                command: |body| serde_json::from_value(body.clone()),
                needs_worker: |job| !job.inputs.is_empty(),
            })
        }

        fn command(&mut self, script: &str) -> (Result<ResourceUsage, AttemptError>, String) {
            self.instance.program = Program::Command;
            let task = self.task(json!(["sh", "-c", script]));
            let ended = self.executor("").execute(&task, &mut |_| {});
            (ended, fs::read_to_string(self.path("stdout")).unwrap_or_default())
        }

        fn worker(&self, script: &str) -> (Result<ResourceUsage, AttemptError>, Vec<WorkerEvent>) {
            let mut heard = Vec::new();
            let executor = self.executor(script).warn_after_silence(Duration::from_millis(50));
            let ended = executor.execute(&self.task(Value::Null), &mut |event| heard.push(event));
            (ended, heard)
        }
    }

    fn failed(outcome: Result<ResourceUsage, AttemptError>) -> String {
        match outcome {
            Err(AttemptError::Failed { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_sees_nothing_but_what_it_declared() {
        let mut bench = Bench::new();
        bench.instance.environment = vec![("SHOWN".into(), Some("yes".into())), ("UNSET".into(), None)];
        let (outcome, stdout) = bench.command("env | cut -d= -f1 | sort; ls -A; pwd");
        assert!(outcome.is_ok(), "{outcome:?}");
        let work = bench.path("work").canonicalize().unwrap();
        let expected = format!(
            "HOME\nLANG\nPATH\nPIPE_OUT_THE_TABLE\nPIPE_THREADS\nPWD\nSHOWN\nTMPDIR\nTZ\n{}\n",
            work.display()
        );
        // Some shells export what others do not.
        let stdout: String = stdout
            .lines()
            .filter(|l| !["OLDPWD", "SHLVL", "_"].contains(l))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(stdout, expected);
    }

    #[test]
    fn inputs_are_found_by_name_and_a_fan_in_by_axes() {
        let mut bench = Bench::new();
        fs::write(bench.path("blob"), "content").unwrap();
        let input = |slot: &str, many| Input { slot: slot.into(), many, sources: Vec::new() };
        bench.instance.inputs = vec![input("my-data", false), input("folds", true)];
        bench.instance.program = Program::Command;
        let script = r#"cat "$PIPE_IN_MY_DATA"; cat in/my-data; ls "$PIPE_IN_FOLDS"; cat "in/folds/seed=1,path=a%2Fb""#;
        let mut task = bench.task(json!(["sh", "-c", script]));
        let artifact = |axes: &[(&str, &str)]| JobInput {
            axes: axes.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect(),
            artifact: "file".into(),
            path: bench.path("blob"),
            blob: None,
        };
        let folds =
            vec![artifact(&[("seed", "0")]), artifact(&[("seed", "1"), ("path", "a/b")]), artifact(&[])];
        task.job.inputs = BTreeMap::from([("my-data".into(), vec![artifact(&[])]), ("folds".into(), folds)]);
        let ended = bench.executor("").execute(&task, &mut |_| {});
        assert!(ended.is_ok(), "{ended:?}");
        assert_eq!(
            fs::read_to_string(&task.stdout).unwrap(),
            "contentcontent3\nseed=0\nseed=1,path=a%2Fb\ncontent"
        );
    }

    #[test]
    fn a_command_that_fails_says_how() {
        assert_eq!(failed(Bench::new().command("exit 7").0), "it ended with exit code 7");
        assert!(failed(Bench::new().command("kill -ABRT $$").0).contains("SIGABRT"));
        assert!(failed(Bench::new().command("kill -KILL $$").0).contains("ran out of memory"));
        let mut bench = Bench::new();
        bench.instance.program = Program::Command;
        let ended = bench.executor("").execute(&bench.task(json!(["no-such-program"])), &mut |_| {});
        assert!(failed(ended).contains("`no-such-program` was not found"));
    }

    #[test]
    fn the_usage_of_a_command_is_measured() {
        let mut bench = Bench::new();
        bench.instance.program = Program::Command;
        let task = bench.task(json!(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]));
        let usage = bench.executor("").execute(&task, &mut |_| {}).unwrap();
        assert!(usage.seconds > 0.0 && usage.cpu_seconds > 0.0 && usage.max_rss_bytes > 0, "{usage:?}");
    }

    #[test]
    fn a_worker_gets_its_job_and_its_events_are_reported() {
        let script = r#"[ "$1" = worker ] && grep -q '"instance": "it"' "$2" && echo '{"event":"metric","name":"a","value":1}'
            echo hello; echo '{"event":"done"}'"#;
        let (outcome, heard) = Bench::new().worker(script);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(
            heard,
            [
                WorkerEvent::Metric { name: "a".into(), value: 1.0, protocol: None },
                WorkerEvent::Log { level: LogLevel::Info, message: "hello".into() },
                WorkerEvent::Done,
            ]
        );
    }

    #[test]
    fn a_worker_explains_its_failure_or_its_exit_code_does() {
        let say = |text: &str| failed(Bench::new().worker(text).0);
        assert_eq!(say(r#"echo '{"event":"failed","message":"no labels"}'; exit 1"#), "no labels");
        assert_eq!(say(r#"echo '{"event":"done"}'; exit 4"#), "it ended with exit code 4");
        assert_eq!(say("exit 0"), "the worker ended without saying that it was done");
    }

    #[test]
    fn a_silent_worker_causes_one_warning() {
        let (outcome, heard) = Bench::new().worker(r#"sleep 0.3; echo '{"event":"done"}'"#);
        assert!(outcome.is_ok(), "{outcome:?}");
        let [WorkerEvent::Log { level: LogLevel::Warning, message }, WorkerEvent::Done] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert!(message.contains("silent"), "{message}");
    }

    #[test]
    fn a_missing_pipe_worker_is_explained() {
        let mut bench = Bench::new();
        bench.instance.program = Program::Worker;
        let message = failed(bench.worker("").0);
        assert!(message.contains("`make build` builds both"), "{message}");
        fs::write(bench.path("pipe-worker"), "#!/bin/sh\necho '{\"event\":\"done\"}'\n").unwrap();
        fs::set_permissions(bench.path("pipe-worker"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir(bench.path("work")).unwrap();
        fs::remove_dir(bench.path("tmp")).unwrap();
        assert!(bench.worker("").0.is_ok());
    }

    #[test]
    fn a_stage_of_either_program_runs_in_pipe_unless_its_job_needs_the_worker() {
        let mut bench = Bench::new();
        bench.instance.program = Program::Either;
        let executor = bench.executor("echo '{\"event\":\"done\"}'");
        let mut task = bench.task(Value::Null);
        assert!(executor.execute(&task, &mut |_| {}).is_ok());
        task.job.inputs.insert("model".to_owned(), Vec::new());
        let ended = executor.execute(&task, &mut |_| {});
        assert!(failed(ended).contains("pipe-worker"));
    }
}
