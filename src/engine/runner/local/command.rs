//! Runs commands, in a directory and an environment that contain only what they declared.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::executor::{AttemptError, ResourceUsage, Task};
use super::super::file_trace::{FileTrace, Surroundings, input_lines, listed};
use super::super::listen::Kept;
use super::super::packages::PackageTask;
use super::{LocalProcess, Observation, OnUndeclared, Start, io_error};
use crate::store::{Installation, StoreError};
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::job::Axes;

/// How often a command checks whether another process has installed its packages.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl LocalProcess {
    pub(super) fn run_command(
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
            if let Some(found) = packages.directory.installed() {
                let Some(problem) = packages.problem(&found) else { return Ok(found) };
                let shown = packages.shown();
                let message =
                    format!("the installed packages of `{shown}` cannot be used any more: {problem}");
                report(WorkerEvent::Log { level: LogLevel::Info, message });
                packages.directory.forget();
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
