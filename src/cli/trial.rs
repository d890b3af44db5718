//! A run that is nobody's result: in a store of its own, to be compared and thrown away. Neither the lock,
//! nor the cache, nor a placed file is written to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::args::VerifyArgs;
use super::console::{Console, Style};
use super::data_files;
use super::exit::{Exit, Failure};
use super::lock::stored;
use super::project::Project;
use super::run::stop_on_signals;
use pipe_core::digest::StageKey;
use pipe_engine::lock::difference::difference;
use pipe_engine::lock::{LockedOutput, Record};
use pipe_engine::plan::Plan;
use pipe_engine::runner::event::Event;
use pipe_engine::runner::local::{LocalProcess, Programs};
use pipe_engine::runner::{self, Options, Outlook, RunError, Stop, survey};
use pipe_engine::spec::pipeline::InstanceIndex;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;
use pipe_stages::command;

/// What differs between two runs, none of which may matter.
#[derive(Clone, Copy, Default)]
pub(super) struct Conditions {
    pub jobs: Option<usize>,
    pub threads: Option<usize>,
    pub perturbed: bool,
}

/// A run in a store of its own.
pub(super) struct Trial {
    directory: PathBuf,
    pub store: Store,
    pub results: BTreeMap<InstanceIndex, Manifest>,
    /// What was taken over rather than computed.
    pub seeded: BTreeSet<InstanceIndex>,
    failures: BTreeMap<String, String>,
}

impl Trial {
    pub(super) fn failure(&self, instance: &str) -> String {
        match self.failures.get(instance) {
            Some(error) => format!("it could not be computed again: {error}"),
            None => "it was not computed again, because something that it needs was not".to_owned(),
        }
    }
}

pub(super) struct Bench<'a> {
    project: &'a Project,
    real: &'a Store,
    pub plan: Plan,
    pub jobs: usize,
    stop: Stop,
    root: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    pub(super) fn new(project: &'a Project, args: &VerifyArgs, real: &'a Store) -> Result<Self, Failure> {
        let mut pipeline = project.load(&args.file, &[])?;
        // What is computed for a comparison is nobody's result.
        pipeline.placements.clear();
        // Where the data is not here, results of the cache may do; a stage that needs it says so.
        data_files::find(&mut pipeline, &project.data_dir);
        let plan = Plan::new(pipeline).map_err(|cycle| Failure::bad_input(cycle.to_string()))?;
        let parent = args.scratch.clone().unwrap_or_else(|| project.cache_dir.clone());
        let make = || {
            std::fs::create_dir_all(&parent)?;
            tempfile::Builder::new().prefix("verify-").tempdir_in(&parent)
        };
        let root = make().map_err(|error| {
            Failure::bad_input(format!(
                "cannot make a directory in {}: {error}; try --scratch",
                parent.display()
            ))
        })?;
        let stop = Stop::new();
        stop_on_signals(&stop)?;
        let jobs = args.jobs.unwrap_or_else(|| Options::default().jobs);
        Ok(Self { project, real, plan, jobs, stop, root })
    }

    pub(super) fn trial(
        &self,
        label: &str,
        targets: &[InstanceIndex],
        seeds: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
    ) -> Result<Trial, Failure> {
        self.trial_from(label, targets, seeds, conditions, self.real)
    }

    pub(super) fn trial_from(
        &self,
        label: &str,
        targets: &[InstanceIndex],
        seeds: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
        from: &Store,
    ) -> Result<Trial, Failure> {
        let directory = self.root.path().join(label);
        let store = Store::open(&directory)?;
        let wanted = self.plan.only(targets);
        let mut known = BTreeMap::new();
        for &index in self.plan.topological().iter().filter(|index| wanted[index.0]) {
            if let Some(key) = seeds(index)
                && store.adopt(key, from)?.is_some()
            {
                known.insert(index, key);
            }
        }
        let options = Options {
            jobs: conditions.jobs.unwrap_or(self.jobs),
            threads: conditions.threads,
            last_first: conditions.perturbed,
            keep_going: true,
            targets: Some(targets.to_vec()),
            known,
            ..Options::default()
        };
        let mut executor =
            LocalProcess::new(Programs { pipe: std::env::current_exe()?, command: command::argv });
        if conditions.perturbed {
            executor = executor.perturbed();
        }
        let failures = self.run(&store, &executor, &options, label)?;
        let mut results = BTreeMap::new();
        for (index, outlook) in survey(&self.plan, &store, &options).into_iter().enumerate() {
            if let Outlook::Fresh(manifest) = outlook {
                results.insert(InstanceIndex(index), *manifest);
            }
        }
        let seeded = options.known.into_keys().collect();
        Ok(Trial { directory, store, results, seeded, failures })
    }

    fn run(
        &self,
        store: &Store,
        executor: &LocalProcess,
        options: &Options,
        label: &str,
    ) -> Result<BTreeMap<String, String>, Failure> {
        self.project.status(&format!("verify: {label}"));
        let mut console = Console::new(Style::Lines, self.project.verbosity, self.project.paint);
        let mut failures = BTreeMap::new();
        let summary = runner::run(&self.plan, store, executor, options, &self.stop, &mut |event| {
            if let Event::Failed { instance, error, will_retry: false, .. } = &event {
                failures.insert(instance.clone(), error.clone());
            }
            console.show(&event);
        });
        let summary = summary.map_err(|error| match error {
            RunError::Store(error) => Failure::from(error),
            other => Failure::bad_input(other.to_string()),
        })?;
        if summary.interrupted {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was compared"));
        }
        Ok(failures)
    }

    /// Both sides of a difference stay for whoever wants to look at them.
    pub(super) fn end(self, keep: bool) {
        if keep {
            let kept: &Path = &self.root.keep();
            self.project.status(&format!("both sides are kept for you to look at: {}", kept.display()));
        }
    }
}

/// Where both versions can be looked at, and what differs where that can be shown.
pub(super) fn sides(
    different: &[(&String, &String)],
    record: &Record,
    now: &Record,
    real: &Store,
    trial: &Trial,
) -> String {
    let mut lines = String::new();
    for (output, _) in different {
        let (Some(old), Some(new)) = (record.outputs.get(*output), now.outputs.get(*output)) else {
            continue;
        };
        let views = trial.directory.join("views");
        let locked = real.artifact(&stored(old), &views.join("locked"));
        let again = trial.store.artifact(&stored(new), &views.join("again"));
        let shown = |path: Result<PathBuf, _>| match path {
            Ok(path) => path.display().to_string(),
            Err(_) => "no longer in the cache".to_owned(),
        };
        lines.push_str(&format!("{output}: {}\n", shown(locked)));
        lines.push_str(&format!("{output} again: {}\n", shown(again)));
        let small = |output: &LockedOutput| !output.stored.directory && output.stored.bytes < 1 << 20;
        if small(old)
            && small(new)
            && let (Ok(old), Ok(new)) = (real.read(&stored(old)), trial.store.read(&stored(new)))
        {
            lines.push_str(&difference(&old, &new).unwrap_or_default());
        }
    }
    lines
}
