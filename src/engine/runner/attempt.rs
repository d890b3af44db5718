//! One stage instance, from the right to compute it to its commit, on its own thread.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::computation::{Computation, InputArtifact};
use super::executor::{AttemptError, Executor, ResourceUsage, Task};
use super::inspect::ResolvedInput;
use super::listen::SILENT;
use super::outputs;
use super::packages::PackageTask;
use super::stop::{Stop, Urgency};
use super::work_area::WorkArea;
use crate::store::manifest::Manifest;
use crate::store::{Draft, Seen, Store, StoreError, WriteRight};
use pipe_core::digest::StageKey;
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::job::{Job, JobInput};
use pipe_core::kind::Program;
use pipe_core::protocol::MetricValue;

/// Everything that is needed to compute one instance.
pub(super) struct Attempt<'a> {
    pub computation: &'a Computation,
    pub store: &'a Store,
    pub executor: &'a dyn Executor,
    pub stop: &'a Stop,
    /// Keeps the output of a failed stage: the name of the stream, and the file with what was printed.
    pub keep_log: &'a dyn Fn(&str, &Path),
    pub gpus: Vec<String>,
    /// A description of this machine.
    pub environment: BTreeMap<String, String>,
}

/// What an attempt reports while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum AttemptNote {
    /// The remote has no result that may be used, so the first try begins.
    NotOnRemote { key: StageKey },
    /// It failed, and the next try begins.
    Retry { error: String, stderr_tail: String, key: StageKey, attempt: u32 },
    #[serde(untagged)]
    Worker(WorkerEvent),
}

/// How much of the output of a failed stage is shown.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 16 << 10;

impl Attempt<'_> {
    /// Runs the stage, and again after a failure if the stage allows it. The commit of a success consumes the right.
    pub(super) fn perform(
        self,
        right: WriteRight<'_>,
        report: &mut dyn FnMut(AttemptNote),
    ) -> Result<Manifest, AttemptError> {
        let mut attempt = 1;
        loop {
            let area = WorkArea::new(self.store).map_err(AttemptError::permanent)?;
            match self.try_once(&right, &area, report) {
                Ok(draft) => {
                    let give_up = || self.stop.requested() == Some(Urgency::Now);
                    return right.commit_unless(draft, &give_up).map_err(|error| {
                        if give_up() {
                            AttemptError::Stopped { checkpoint: false }
                        } else {
                            AttemptError::permanent(error.to_string())
                        }
                    });
                }
                Err(AttemptError::Failed { error, stderr_tail, retry: true, .. })
                    if attempt <= self.computation.retries =>
                {
                    attempt += 1;
                    report(AttemptNote::Retry { error, stderr_tail, key: right.key(), attempt });
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_once(
        &self,
        right: &WriteRight<'_>,
        area: &WorkArea,
        report: &mut dyn FnMut(AttemptNote),
    ) -> Result<Draft, AttemptError> {
        let (task, seen) = self.task(right, area)?;
        let (mut metrics, mut facts) = (BTreeMap::<String, MetricValue>::new(), BTreeMap::new());
        let (mut mixed, mut warned) = (None, Vec::new());
        let executed = self.executor.execute(&task, &mut |event| {
            match &event {
                WorkerEvent::Metric { name, value, protocol, .. } => {
                    let metric = MetricValue { value: *value, protocol: *protocol };
                    let before = metrics.insert(name.clone(), metric);
                    if before.is_some_and(|before| before.protocol != *protocol) {
                        mixed = Some(name.clone());
                    }
                }
                WorkerEvent::Log { level: LogLevel::Warning, message } if !message.starts_with(SILENT) => {
                    warned.push(message.clone());
                }
                WorkerEvent::Fact { name, value } => {
                    facts.insert(name.clone(), value.clone());
                }
                _ => {}
            }
            report(AttemptNote::Worker(event));
        });
        let checked = executed.and_then(|usage| {
            if let Some(name) = mixed {
                return Err(AttemptError::permanent(format!(
                    "it reported the metric `{name}` under two protocols; values of two protocols need two names"
                )));
            }
            self.inputs_untouched(&seen)?;
            Ok((usage, self.check_outputs(&task)?))
        });
        match checked {
            Ok((usage, warnings)) => {
                warned.extend(warnings);
                Ok(self.draft(&task, usage, metrics, facts, warned))
            }
            Err(error) => {
                for (stream, path) in [("stdout", &task.stdout), ("stderr", &task.stderr)] {
                    (self.keep_log)(stream, path);
                }
                Err(self.described(error, &task))
            }
        }
    }

    /// Adds to an error what only the attempt knows: the last lines printed, a full disk, a checkpoint.
    fn described(&self, error: AttemptError, task: &Task) -> AttemptError {
        match error {
            AttemptError::Failed { error, retry, out_of_memory, .. } => {
                let error = match self.store.lack_of_space() {
                    Some(lack) => format!("{error}; {lack}"),
                    None => error,
                };
                let stderr_tail = tail(&task.stderr);
                AttemptError::Failed { error, stderr_tail, retry, out_of_memory }
            }
            AttemptError::Detached { job } => AttemptError::Detached { job },
            AttemptError::Stopped { .. } => AttemptError::Stopped {
                checkpoint: self.computation.program != Program::Command && !is_empty(&task.job.checkpoints),
            },
        }
    }

    /// Returns the task, and what its inputs in the store look like.
    fn task(&self, right: &WriteRight<'_>, area: &WorkArea) -> Result<(Task<'_>, Vec<Seen>), AttemptError> {
        let (directory, scratch) = (area.path().to_owned(), area.work());
        let Computation { instance, kind, program, body, .. } = self.computation;
        let is_command = *program == Program::Command;
        let mut outputs = BTreeMap::new();
        for output in &self.computation.outputs {
            let path = if is_command {
                scratch.join(&output.file_name)
            } else {
                directory.join("out").join(&output.name)
            };
            if let Some(parent) = path.parent().filter(|parent| *parent != scratch) {
                fs::create_dir_all(parent).map_err(|error| {
                    AttemptError::permanent(format!("could not create `{}`: {error}", parent.display()))
                })?;
            }
            outputs.insert(output.name.clone(), path);
        }
        // A command does not know about checkpoints.
        let checkpoints = if is_command {
            scratch.clone()
        } else {
            right.checkpoints().map_err(|error| AttemptError::permanent(error.to_string()))?.to_owned()
        };
        let mut seen = Vec::new();
        let job = Job {
            key: Some(right.key()),
            instance: instance.clone(),
            kind: kind.clone(),
            body: body.clone(),
            inputs: self.job_inputs(&directory.join("views"), &mut seen)?,
            outputs,
            scratch,
            checkpoints,
            threads: self.computation.threads,
        };
        let packages = self.computation.packages.as_ref();
        let packages = packages.map(|packages| PackageTask::new(packages, &job, self.store)).transpose();
        let fan_ins = self.computation.inputs.iter().filter(|input| input.many);
        let task = Task {
            job,
            program: *program,
            fan_ins: fan_ins.map(|input| input.slot.clone()).collect(),
            environment: &self.computation.environment,
            packages: packages.map_err(AttemptError::permanent)?,
            stdout: directory.join("stdout"),
            stderr: directory.join("stderr"),
            directory,
            gpus: self.gpus.clone(),
        };
        Ok((task, seen))
    }

    fn job_inputs(
        &self,
        views: &Path,
        seen: &mut Vec<Seen>,
    ) -> Result<BTreeMap<String, Vec<JobInput>>, AttemptError> {
        let mut inputs = BTreeMap::new();
        for input in &self.computation.inputs {
            let mut artifacts = Vec::with_capacity(input.artifacts.len());
            for InputArtifact { axes, artifact, content } in &input.artifacts {
                artifacts.push(JobInput {
                    axes: axes.clone(),
                    artifact: artifact.clone(),
                    path: self.locate(content, views, seen)?,
                    blob: Some(content.blob()),
                });
            }
            inputs.insert(input.slot.clone(), artifacts);
        }
        Ok(inputs)
    }

    fn locate(
        &self,
        content: &ResolvedInput,
        views: &Path,
        seen: &mut Vec<Seen>,
    ) -> Result<PathBuf, AttemptError> {
        match content {
            ResolvedInput::Stored(stored) => {
                let failed = |error: StoreError| AttemptError::permanent(error.to_string());
                seen.push(self.store.inspect_artifact(stored).map_err(failed)?);
                self.store.checked_artifact(stored, views).map_err(failed)
            }
            ResolvedInput::Source(source) => std::path::absolute(&source.path).map_err(|error| {
                AttemptError::permanent(format!("`{}` cannot be found: {error}", source.path.display()))
            }),
        }
    }

    /// Fails if an input changed while the stage ran, even for a moment: then the manifest could be wrong.
    fn inputs_untouched(&self, seen: &[Seen]) -> Result<(), AttemptError> {
        let mut seen = seen.iter();
        for input in &self.computation.inputs {
            for InputArtifact { content, .. } in &input.artifacts {
                match content {
                    ResolvedInput::Source(source) if !self.store.still_the_same(source) => {
                        return Err(AttemptError::permanent(format!(
                            "its input `{}` (`{}`) was changed while it ran, so its result was not kept; run again",
                            input.slot,
                            source.path.display()
                        )));
                    }
                    ResolvedInput::Source(_) => {}
                    // This checks the artifact again, and removes it if it is damaged.
                    ResolvedInput::Stored(stored) => {
                        let flaw = match self.store.inspect_artifact(stored) {
                            Ok(now) if seen.next().is_some_and(|before| before.is_same(&now)) => continue,
                            Ok(_) => "it was written to, replaced or given another hard link".to_owned(),
                            Err(error) => error.to_string(),
                        };
                        return Err(AttemptError::permanent(format!(
                            "its input `{}` in the cache was changed while it ran, most likely by itself ({flaw}); \
                             its result was not kept. A stage must copy an input before it writes to it",
                            input.slot
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns warnings if every declared output is there.
    fn check_outputs(&self, task: &Task) -> Result<Vec<String>, AttemptError> {
        outputs::check(&task.job.outputs, &task.job.scratch).map_err(AttemptError::retryable)?;
        if self.computation.program != Program::Command {
            return Ok(Vec::new());
        }
        let undeclared = outputs::undeclared(&task.job.outputs, &task.job.scratch);
        Ok(outputs::warning(&undeclared).into_iter().collect())
    }

    fn draft(
        &self,
        task: &Task,
        usage: ResourceUsage,
        metrics: BTreeMap<String, MetricValue>,
        facts: BTreeMap<String, String>,
        mut warnings: Vec<String>,
    ) -> Draft {
        let not_empty =
            |path: &PathBuf| path.metadata().is_ok_and(|file| file.len() > 0).then(|| path.clone());
        let mut environment = self.environment.clone();
        environment.insert("threads".to_owned(), task.job.threads.to_string());
        if !self.gpus.is_empty() {
            environment.insert("gpus".to_owned(), self.gpus.join(","));
        }
        if let Some(interpreter) = self.computation.packages.as_ref().and_then(|it| it.interpreter.as_ref()) {
            environment.insert("interpreter".to_owned(), interpreter.version.clone());
        }
        environment.extend(facts);
        let Computation { instance, kind, parts, outputs, .. } = self.computation;
        warnings.extend(self.computation.warnings.iter().cloned());
        let volatile = outputs.iter().filter(|output| output.volatile);
        Draft {
            kind: kind.clone(),
            instance: instance.clone(),
            parts: parts.clone(),
            outputs: task.job.outputs.clone(),
            volatile: volatile.map(|output| output.name.clone()).collect(),
            stdout: not_empty(&task.stdout),
            stderr: not_empty(&task.stderr),
            metrics,
            seconds: usage.seconds,
            cpu_seconds: usage.cpu_seconds,
            max_rss_bytes: usage.max_rss_bytes,
            environment,
            warnings,
        }
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

/// Returns the last lines of a file.
pub(super) fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
