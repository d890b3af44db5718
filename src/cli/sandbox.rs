//! Throw-away runs in stores of their own, to compare their results or to try something out. They write to neither the lock,
//! nor the cache, nor a placed file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::console::{Console, Style};
use super::exit::{Exit, Failure};
use super::project::Project;
use super::run::{programs, stop_on_signals};
use pipe_core::digest::StageKey;
use pipe_engine::lock::compare::{CompareVerdict, compare};
use pipe_engine::lock::difference::difference;
use pipe_engine::lock::{LockRecord, LockedOutput};
use pipe_engine::plan::Plan;
use pipe_engine::runner::event::Event;
use pipe_engine::runner::executor::Executor;
use pipe_engine::runner::local::{LocalProcess, OnUndeclared};
use pipe_engine::runner::{self, Options, Outlook, Stop, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::{Store, TemporaryDirectory};

/// The circumstances of a run that must not influence its results.
#[derive(Clone, Copy, Default)]
pub(super) struct Conditions {
    pub jobs: Option<usize>,
    pub threads: Option<usize>,
    pub perturbed: bool,
    /// Whether to observe which files commands read.
    pub observed: bool,
}

/// A finished run in a store of its own.
pub(super) struct SandboxRun {
    directory: PathBuf,
    pub store: Store,
    pub results: BTreeMap<InstanceIndex, Manifest>,
    /// The instances whose results were copied into the store rather than computed.
    pub copied: BTreeSet<InstanceIndex>,
    /// Why instances failed, by name.
    pub failures: BTreeMap<String, String>,
    /// The files that commands read without declaring them, by instance, if the run was observed.
    pub undeclared: BTreeMap<String, Vec<String>>,
}

impl SandboxRun {
    /// Returns a sentence about why there is no result of an instance.
    pub(super) fn failure(&self, instance: &str) -> String {
        match self.failures.get(instance) {
            Some(error) => format!("it could not be computed again: {error}"),
            None => "it was not computed again because a stage that it needs failed".to_owned(),
        }
    }

    /// Compares the recorded outputs of an instance, whose content is in `old_store`, with those of this run.
    pub(super) fn compare(
        &self,
        instance: &Instance,
        old: &LockRecord,
        old_store: &Store,
        new: &LockRecord,
    ) -> BTreeMap<String, CompareVerdict> {
        let read = |of_new: bool, output: &LockedOutput| {
            let store = if of_new { &self.store } else { old_store };
            store.read(&output.stored).ok()
        };
        compare(old.into(), new.into(), &instance.compare, &read)
    }

    /// Returns the paths of both versions of the outputs that differ, and a textual difference of small files.
    pub(super) fn describe_differences(
        &self,
        verdicts: &BTreeMap<String, CompareVerdict>,
        old: &LockRecord,
        old_store: &Store,
        new: &LockRecord,
    ) -> String {
        let views = self.directory.join("views");
        let mut lines = String::new();
        for (output, _) in different(verdicts) {
            let (Some(old), Some(new)) = (old.outputs.get(output), new.outputs.get(output)) else {
                continue;
            };
            let old_path = old_store.artifact(&old.stored, &views.join("locked"));
            let new_path = self.store.artifact(&new.stored, &views.join("again"));
            let shown = |path: Result<PathBuf, _>| match path {
                Ok(path) => path.display().to_string(),
                Err(_) => "no longer in the cache".to_owned(),
            };
            lines.push_str(&format!("{output}: {}\n", shown(old_path)));
            lines.push_str(&format!("{output} again: {}\n", shown(new_path)));
            let is_small = |output: &LockedOutput| !output.stored.directory && output.stored.bytes < 1 << 20;
            if is_small(old)
                && is_small(new)
                && let (Ok(old), Ok(new)) = (old_store.read(&old.stored), self.store.read(&new.stored))
            {
                lines.push_str(&difference(&old, &new).unwrap_or_default());
            }
        }
        lines
    }
}

/// Returns the outputs that differ, each with a sentence about how.
pub(super) fn different(
    verdicts: &BTreeMap<String, CompareVerdict>,
) -> impl Iterator<Item = (&String, &String)> {
    verdicts.iter().filter_map(|(output, verdict)| match verdict {
        CompareVerdict::Different(how) => Some((output, how)),
        _ => None,
    })
}

/// A pipeline and a temporary directory to run it in.
pub(super) struct Sandbox<'a> {
    project: &'a Project,
    /// The project's own store, which is only read.
    cache: &'a Store,
    pub plan: Plan,
    pub jobs: usize,
    stop: Stop,
    root: TemporaryDirectory,
}

impl<'a> Sandbox<'a> {
    /// Creates the temporary directory in `parent`.
    pub(super) fn new(
        project: &'a Project,
        plan: Plan,
        cache: &'a Store,
        parent: &Path,
        jobs: Option<usize>,
    ) -> Result<Self, Failure> {
        let root = temporary_directory(parent).map_err(|error| {
            Failure::bad_input(format!("cannot create a directory in {}: {error}", parent.display()))
        })?;
        let stop = Stop::new();
        stop_on_signals(&stop)?;
        let jobs = jobs.unwrap_or_else(|| Options::default().jobs);
        Ok(Self { project, cache, plan, jobs, stop, root })
    }

    /// Runs the targets in a new store, starting from results of the project's cache.
    ///
    /// `known` returns the key of an instance that is to be copied from the cache instead of computed.
    pub(super) fn run(
        &self,
        label: &str,
        targets: &[InstanceIndex],
        known: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
    ) -> Result<SandboxRun, Failure> {
        self.run_from(self.cache, label, targets, known, conditions)
    }

    /// Does the same as [`Self::run`], starting from results of another store.
    pub(super) fn run_from(
        &self,
        from: &Store,
        label: &str,
        targets: &[InstanceIndex],
        known: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
    ) -> Result<SandboxRun, Failure> {
        let options = Options {
            jobs: conditions.jobs.unwrap_or(self.jobs),
            threads: conditions.threads,
            last_first: conditions.perturbed,
            keep_going: true,
            ..Options::default()
        };
        let mut executor = LocalProcess::new(programs()?);
        if conditions.perturbed {
            executor = executor.perturbed();
        }
        if conditions.observed {
            executor = executor.observing_files(&options.project, OnUndeclared::Report);
        }
        self.project.status(&format!("verify: {label}"));
        let mut console = Console::new(Style::Lines, self.project.verbosity, self.project.paint);
        self.run_with(from, label, targets, known, options, &executor, &mut |event| console.show(event))
    }

    /// Does the same as [`Self::run_from`], with an executor of the caller, who also shows the events.
    #[expect(clippy::too_many_arguments, reason = "they are what a run consists of")]
    pub(super) fn run_with(
        &self,
        from: &Store,
        label: &str,
        targets: &[InstanceIndex],
        known: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        options: Options,
        executor: &dyn Executor,
        show: &mut dyn FnMut(&Event),
    ) -> Result<SandboxRun, Failure> {
        let directory = self.root.join(label);
        let mut store = Store::open(&directory)?;
        store.share_packages_of(self.cache);
        let wanted = self.plan.with_dependencies(targets);
        let mut copied = BTreeMap::new();
        for &index in self.plan.topological().iter().filter(|index| wanted[index.0]) {
            if let Some(key) = known(index)
                && store.adopt(key, from)?.is_some()
            {
                copied.insert(index, key);
            }
        }
        let options = Options { targets: Some(targets.to_vec()), known: copied, ..options };
        let (mut failures, mut undeclared) = (BTreeMap::new(), BTreeMap::new());
        let summary = runner::run(&self.plan, &store, executor, &options, &self.stop, &mut |event| {
            match &event {
                Event::Failed { instance, error, will_retry: false, .. } => {
                    failures.insert(instance.clone(), error.clone());
                }
                Event::Undeclared { instance, read, .. } if !read.is_empty() => {
                    undeclared.insert(instance.clone(), read.clone());
                }
                _ => {}
            }
            show(&event);
        });
        if summary?.interrupted {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was recorded or compared"));
        }
        let mut results = BTreeMap::new();
        for (index, outlook) in survey(&self.plan, &store, &options).into_iter().enumerate() {
            if let Outlook::Fresh(manifest) = outlook {
                results.insert(InstanceIndex(index), *manifest);
            }
        }
        let copied = options.known.into_keys().collect();
        Ok(SandboxRun { directory, store, results, copied, failures, undeclared })
    }

    /// Deletes the directory, or keeps it if the user should look at both sides of a difference.
    pub(super) fn finish(self, keep: bool) {
        if keep {
            let kept = self.root.keep();
            self.project.status(&format!("both sides were kept for comparison: {}", kept.display()));
        }
    }
}

fn temporary_directory(parent: &Path) -> std::io::Result<TemporaryDirectory> {
    std::fs::create_dir_all(parent)?;
    TemporaryDirectory::new_in(&std::path::absolute(parent)?)
}
