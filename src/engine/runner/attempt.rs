//! One stage instance from the right to compute it to its commit, on a thread of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::executor::{Broken, Executor, Task, Usage};
use super::inspect::{Content, Prepared};
use super::outputs;
use super::slot::{Slot, Slots};
use crate::spec::pipeline::{Instance, Source};
use crate::store::manifest::Manifest;
use crate::store::{Draft, Store, WriteRight};
use pipe_core::digest::StageKey;
use pipe_core::event::WorkerEvent;
use pipe_core::job::{Job, JobInput};
use pipe_core::kind::{FILE, Program};

/// All that is needed to compute one instance.
pub(super) struct Attempt<'a> {
    pub instance: &'a Instance,
    pub name: &'a str,
    pub store: &'a Store,
    pub executor: &'a dyn Executor,
    pub slots: &'a Slots<'a>,
    /// The run's id, under which the output of failed stages is kept.
    pub run: &'a str,
    pub prepared: Prepared,
    pub gpus: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub warnings: Vec<String>,
    /// Another number of threads than the stage asked for.
    pub threads: Option<usize>,
}

/// What an attempt tells while it goes on.
pub(super) enum Note {
    Worker(WorkerEvent),
    /// It failed, and the next try begins.
    Retry {
        failure: Failure,
        key: StageKey,
        attempt: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub error: String,
    pub stderr_tail: String,
    /// It ended because we asked it to.
    pub stopped: bool,
    /// It left something to continue from.
    pub checkpoint: bool,
    /// Another try might succeed.
    worth_retrying: bool,
}

impl Failure {
    /// A failure that has nothing to do with the stage's own program.
    pub(super) fn plain(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            stderr_tail: String::new(),
            stopped: false,
            checkpoint: false,
            worth_retrying: false,
        }
    }
}

/// How much of what a failed stage printed is told at once.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 16 << 10;

impl Attempt<'_> {
    /// Tries as often as the stage asks for. The right is consumed by the commit of a success.
    pub(super) fn perform(
        self,
        right: WriteRight<'_>,
        tell: &mut dyn FnMut(Note),
    ) -> Result<Manifest, Failure> {
        let mut attempt = 1;
        loop {
            let slot = self.slots.take().map_err(Failure::plain)?;
            match self.try_once(&right, &slot, tell) {
                Ok(draft) => {
                    let committed = right.commit(draft).map_err(|error| Failure::plain(error.to_string()));
                    self.slots.put_back(slot);
                    return committed;
                }
                Err(failure) if failure.worth_retrying && attempt <= self.instance.retries => {
                    attempt += 1;
                    tell(Note::Retry { failure, key: right.key(), attempt });
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn try_once(
        &self,
        right: &WriteRight<'_>,
        slot: &Slot,
        tell: &mut dyn FnMut(Note),
    ) -> Result<Draft, Failure> {
        let task = self.task(right, slot)?;
        let (mut metrics, mut facts) = (BTreeMap::new(), BTreeMap::new());
        let ended = self.executor.execute(&task, &mut |event| {
            match &event {
                WorkerEvent::Metric { name, value } => _ = metrics.insert(name.clone(), *value),
                WorkerEvent::Fact { name, value } => _ = facts.insert(name.clone(), value.clone()),
                _ => {}
            }
            tell(Note::Worker(event));
        });
        let result = match ended.outcome {
            Ok(()) => self.inputs_untouched(&task).and_then(|()| self.check_outputs(&task)),
            Err(Broken::Failed(error)) => Err(Failure { worth_retrying: true, ..Failure::plain(error) }),
            Err(Broken::Stopped) => Err(Failure { stopped: true, ..Failure::plain("it was stopped") }),
        };
        match result {
            Ok(warnings) => Ok(self.draft(&task, ended.usage, metrics, facts, warnings)),
            Err(failure) => {
                let error = match self.store.lack_of_space() {
                    Some(lack) if !failure.stopped => format!("{}; {lack}", failure.error),
                    _ => failure.error.clone(),
                };
                let stderr_tail = tail(&task.stderr);
                for (stream, path) in [("stdout", &task.stdout), ("stderr", &task.stderr)] {
                    // Losing a log must not hide why the stage failed.
                    let _ = self.store.keep_log(self.run, self.name, stream, path);
                }
                let checkpoint =
                    self.instance.program != Program::Command && !is_empty(&task.job.checkpoints);
                Err(Failure { error, stderr_tail, checkpoint, ..failure })
            }
        }
    }

    fn task(&self, right: &WriteRight<'_>, slot: &Slot) -> Result<Task<'_>, Failure> {
        let (directory, scratch) = (slot.path().to_owned(), slot.work());
        let is_command = self.instance.program == Program::Command;
        let mut outputs = BTreeMap::new();
        for output in &self.instance.outputs {
            let path = match is_command {
                true => scratch.join(&output.file_name),
                false => directory.join("out").join(&output.name),
            };
            if let Some(parent) = path.parent().filter(|parent| *parent != scratch) {
                fs::create_dir_all(parent).map_err(|error| {
                    Failure::plain(format!("could not create `{}`: {error}", parent.display()))
                })?;
            }
            outputs.insert(output.name.clone(), path);
        }
        // A command is not told of checkpoints.
        let checkpoints = match is_command {
            true => scratch.clone(),
            false => right.checkpoints().map_err(|error| Failure::plain(error.to_string()))?.to_owned(),
        };
        let job = Job {
            key: right.key(),
            instance: self.name.to_owned(),
            kind: self.instance.kind.to_owned(),
            body: self.instance.body.clone(),
            inputs: self.job_inputs(&directory.join("views"))?,
            outputs,
            scratch,
            checkpoints,
            // What the stage asked for, not what this run could spare: a result must not depend on
            // the number of jobs.
            threads: self.threads.unwrap_or(self.instance.resources.cpu),
        };
        Ok(Task {
            instance: self.instance,
            job,
            stdout: directory.join("stdout"),
            stderr: directory.join("stderr"),
            directory,
            gpus: self.gpus.clone(),
        })
    }

    fn job_inputs(&self, views: &Path) -> Result<BTreeMap<String, Vec<JobInput>>, Failure> {
        let mut inputs = BTreeMap::new();
        for (input, contents) in self.instance.inputs.iter().zip(&self.prepared.inputs) {
            let mut artifacts = Vec::with_capacity(contents.len());
            for (source, content) in input.sources.iter().zip(contents) {
                let (axes, artifact) = match source {
                    Source::Output { axes, artifact, .. } => (axes.clone(), *artifact),
                    Source::File(_) => (Vec::new(), FILE),
                };
                let path = self.locate(content, views)?;
                artifacts.push(JobInput { axes, artifact: artifact.to_owned(), path, blob: content.blob() });
            }
            inputs.insert(input.slot.clone(), artifacts);
        }
        Ok(inputs)
    }

    fn locate(&self, content: &Content, views: &Path) -> Result<PathBuf, Failure> {
        match content {
            Content::Stored(stored) => {
                self.store.artifact(stored, views).map_err(|error| Failure::plain(error.to_string()))
            }
            Content::Source(source) => std::path::absolute(&source.path).map_err(|error| {
                Failure::plain(format!("`{}` cannot be found: {error}", source.path.display()))
            }),
        }
    }

    /// An input that changed while the stage ran would make a wrong record.
    fn inputs_untouched(&self, task: &Task) -> Result<(), Failure> {
        for (input, contents) in self.instance.inputs.iter().zip(&self.prepared.inputs) {
            for content in contents {
                match content {
                    Content::Source(source) if !self.store.still_the_same(source) => {
                        return Err(Failure::plain(format!(
                            "its input `{}` (`{}`) was changed while it ran, so its result was not kept; run again",
                            input.slot,
                            source.path.display()
                        )));
                    }
                    Content::Source(_) => {}
                    // Looking for it again checks it again, and drops what is damaged.
                    Content::Stored(stored) => {
                        let again = self.store.artifact(stored, &task.directory.join("views"));
                        again.map_err(|error| {
                            Failure::plain(format!(
                                "its input `{}` in the cache was changed while it ran, most likely by itself ({error}); \
                                 its result was not kept. A stage must copy an input before it writes to it",
                                input.slot
                            ))
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Warnings, if every declared output is there.
    fn check_outputs(&self, task: &Task) -> Result<Vec<String>, Failure> {
        let failed = |error| Failure { worth_retrying: true, ..Failure::plain(error) };
        outputs::check(&task.job.outputs, &task.job.scratch).map_err(failed)?;
        if self.instance.program != Program::Command {
            return Ok(Vec::new());
        }
        let undeclared = outputs::undeclared(&task.job.outputs, &task.job.scratch);
        Ok(outputs::warning(&undeclared).into_iter().collect())
    }

    fn draft(
        &self,
        task: &Task,
        usage: Usage,
        metrics: BTreeMap<String, f64>,
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
        environment.extend(facts);
        warnings.extend(self.warnings.iter().cloned());
        let volatile = self.instance.outputs.iter().filter(|output| output.is_volatile());
        Draft {
            kind: self.instance.kind.to_owned(),
            instance: self.name.to_owned(),
            parts: self.prepared.parts.clone(),
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

/// The last lines of a file, for a person.
fn tail(path: &Path) -> String {
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
