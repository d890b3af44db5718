//! A survey of a pipeline: which instances are up to date, and why the others would run. Most commands that print
//! something about a pipeline start with it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use super::args::PipelineArgs;
use super::cache::warn_of_damage;
use super::claims;
use super::data_files::MissingDataFiles;
use super::exit::Failure;
use super::history;
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project};
use super::text;
use super::variant_files::{VariantFile, normalised_overrides, variant_files, warnings};
use pipe_core::digest::StageKey;
use pipe_engine::plan::{Change, Plan, Why};
use pipe_engine::runner::{Options, Outlook, key_of, survey};
use pipe_engine::spec::pipeline::{InputSource, Instance, InstanceIndex};
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::{Listed, Store};

/// A pipeline and the outlook of each of its instances.
pub(super) struct Survey {
    pub store: Store,
    pub plan: Plan,
    pub outlooks: Vec<Outlook>,
    /// Placed files that other variants of the pipeline wrote.
    pub leftovers: Vec<VariantFile>,
}

impl Survey {
    /// Opens a pipeline and looks up its instances in the cache. Prints warnings about the cache and about leftovers.
    pub(super) fn of(
        project: &Project,
        file: Option<&PathBuf>,
        PipelineArgs { set, .. }: &PipelineArgs,
        targets: &[String],
    ) -> Result<Self, Failure> {
        let selection = PipelineSelection { file: file.cloned(), stages: targets.to_vec() };
        let opened = project.open(&selection, set)?.find_data(project);
        let Opened { plan, store, targets, missing_data } = opened;
        let options = Options { targets, ..Options::default() };
        let mut outlooks = survey(&plan, &store, &options);
        for (instance, outlook) in plan.pipeline().instances.iter().zip(&mut outlooks) {
            if let (Outlook::CannotRun(reason), Some(missing)) =
                (outlook, missing_data_file(instance, &missing_data))
            {
                reason.clone_from(missing);
            }
        }
        let (set, state) = (normalised_overrides(set), store.pipeline_state(&plan.pipeline().file));
        let leftovers = variant_files(&plan, &outlooks, &state, &set);
        warn_of_damage(project, &store);
        for warning in warnings(&leftovers, &plan, &set) {
            project.status(&warning);
        }
        Ok(Self { store, plan, outlooks, leftovers })
    }

    /// Returns all instances with their outlooks.
    pub(super) fn instances(&self) -> impl Iterator<Item = (InstanceIndex, &Instance, &Outlook)> {
        let instances = self.plan.pipeline().instances.iter().zip(&self.outlooks).enumerate();
        instances.map(|(index, (instance, outlook))| (InstanceIndex(index), instance, outlook))
    }

    /// Warns about results that are up to date and not what the pipeline expects: a run fails because of them. Returns
    /// whether there are any.
    pub(super) fn warn_of_unmet_expectations(&self, project: &Project) -> bool {
        let unmet = self.unmet_expectations();
        for sentence in &unmet {
            project.warn(sentence);
        }
        !unmet.is_empty()
    }

    /// Returns a sentence about each result that is up to date and not what the pipeline expects.
    pub(super) fn unmet_expectations(&self) -> Vec<String> {
        let violations = |(_, instance, outlook): (InstanceIndex, &Instance, &Outlook)| {
            let found = manifest(outlook).filter(|_| !instance.expect.is_empty());
            let unmet = found.map(|found| instance.expect.violations(&found.metrics)).unwrap_or_default();
            unmet.into_iter().map(|unmet| format!("`{}`: {unmet}", instance.id)).collect::<Vec<_>>()
        };
        self.instances().flat_map(violations).collect()
    }

    /// Returns what the claims say that are up to date.
    pub(super) fn verdicts(&self, project: &Project) -> String {
        let verdict = |(_, instance, outlook)| claims::verdict(instance, manifest(outlook)?);
        claims::sentences(&self.store, self.instances().filter_map(verdict), project.paint_out)
    }

    /// Returns the result of an instance that is up to date.
    pub(super) fn fresh(&self, index: InstanceIndex) -> Option<&Manifest> {
        manifest(&self.outlooks[index.0])
    }

    /// Returns the key of an instance, if the results of everything before it are there.
    pub(super) fn key_of(&self, index: InstanceIndex) -> Option<StageKey> {
        key_of(&self.plan, &self.store, &self.outlooks, index)
    }

    /// Returns the name of an instance.
    pub(super) fn name(&self, index: InstanceIndex) -> String {
        self.plan.instance(index).id.to_string()
    }

    /// Lists up to three instances and the number of others.
    fn names(&self, indices: &[InstanceIndex]) -> String {
        text::first_of(&indices.iter().map(|&index| self.name(index)).collect::<Vec<_>>())
    }

    /// Returns the instances that make this one run: among those that it waits for, directly or not, the ones that have a
    /// reason of their own.
    pub(super) fn root_causes(&self, of: InstanceIndex) -> Vec<InstanceIndex> {
        let (mut causes, mut seen, mut open) = (BTreeSet::new(), BTreeSet::from([of]), vec![of]);
        while let Some(index) = open.pop() {
            match &self.outlooks[index.0] {
                Outlook::MayRun { waits_for, known } => {
                    // What was never run has no other reason than the stages that it waits for.
                    let has_reason = known.as_ref().is_some_and(|why| !matches!(why, Why::NeverRun));
                    if has_reason && index != of {
                        causes.insert(index);
                    }
                    open.extend(waits_for.iter().copied().filter(|&needed| seen.insert(needed)));
                }
                Outlook::WillRun(_) | Outlook::CannotRun(_) if index != of => {
                    causes.insert(index);
                }
                _ => {}
            }
        }
        causes.into_iter().collect()
    }

    /// Returns everything further up that makes an instance run: stages that run too, and stages whose result is another one
    /// than when the instance last succeeded, with what changed in them then.
    pub(super) fn causes(&self, of: InstanceIndex) -> Result<Vec<Cause>, Failure> {
        let running = self.root_causes(of);
        let mut causes: Vec<Cause> = running.iter().map(|&index| self.running_cause(index)).collect();
        let changes = |index: InstanceIndex| {
            let why = self.outlooks[index.0].why();
            (index, why.map(|why| why.changes().to_vec()).unwrap_or_default())
        };
        let mut open: Vec<(InstanceIndex, Vec<Change>)> =
            std::iter::once(of).chain(running).map(changes).collect();
        if !open.iter().any(|(_, changes)| changes.iter().any(Change::is_input)) {
            return Ok(causes);
        }
        let results = self.store.list()?;
        let mut seen = BTreeSet::new();
        while let Some((index, changes)) = open.pop() {
            for (producer, old) in changes.iter().filter_map(|change| self.producer(index, change)) {
                let Some(now) = self.fresh(producer).filter(|_| seen.insert(producer)) else { continue };
                let gave = |result: &&Listed| {
                    let found = &result.manifest;
                    found.instance == now.instance && gives(found, &old)
                };
                let Some(before) = results.iter().find(gave) else { continue };
                let changes = Why::between(&before.manifest.parts, &now.parts).changes().to_vec();
                let own = changes.iter().filter(|change| self.producer(producer, change).is_none());
                let own: Vec<String> = own.map(Change::to_string).collect();
                if !own.is_empty() {
                    causes.push(Cause {
                        instance: self.name(producer),
                        state: format!("computed {}", now.finished),
                        reason: own.join(", "),
                        error: None,
                    });
                }
                open.push((producer, changes));
            }
        }
        Ok(causes)
    }

    fn running_cause(&self, index: InstanceIndex) -> Cause {
        let (state, reason) = self.words(&self.outlooks[index.0]);
        Cause { instance: self.name(index), state: state.to_owned(), reason, error: self.error_of(index) }
    }

    /// Returns the first line of the last error of an instance that has to run because it failed.
    pub(super) fn error_of(&self, index: InstanceIndex) -> Option<String> {
        let Some(Why::Failed { run, .. }) = self.outlooks[index.0].why() else { return None };
        let past = history::find(&self.store, run).ok()?;
        let name = self.name(index);
        let failed =
            past.instances().into_iter().find(|end| end.instance == name && end.outcome == "failed")?;
        failed.note.lines().next().map(str::to_owned)
    }

    /// Returns the up-to-date instance that gives a changed input, and the digest that the input had before.
    fn producer(&self, of: InstanceIndex, change: &Change) -> Option<(InstanceIndex, String)> {
        let (old, new) = (change.old.as_ref()?, change.new.as_ref().filter(|_| change.is_input())?);
        let gives_it = |needed: &InstanceIndex| self.fresh(*needed).is_some_and(|found| gives(found, new));
        self.plan.dependencies(of).find(gives_it).map(|needed| (needed, old.clone()))
    }

    /// Returns the state of an instance in words and, if there is one, the reason.
    pub(super) fn words(&self, outlook: &Outlook) -> (&'static str, String) {
        match outlook {
            Outlook::Fresh(_) => ("fresh", String::new()),
            Outlook::WillRun(why) => ("will run", why.to_string()),
            Outlook::MayRun { waits_for, known } => match known {
                Some(why) => ("will run", format!("{why}; after {}", self.names(waits_for))),
                None => ("may run", format!("depends on the result of {}", self.names(waits_for))),
            },
            Outlook::CannotRun(reason) => ("cannot run", reason.clone()),
            Outlook::NotSelected => ("not asked", String::new()),
        }
    }

    /// Returns whether an interrupted attempt has left something that the next one continues from.
    fn has_checkpoint(&self, index: InstanceIndex) -> bool {
        let is_open = matches!(self.outlooks[index.0], Outlook::WillRun(_));
        let key = is_open.then(|| self.key_of(index)).flatten();
        let files = key.and_then(|key| std::fs::read_dir(self.store.checkpoints_of(key)).ok());
        files.is_some_and(|mut files| files.next().is_some())
    }

    /// Returns the state of an instance and the reason as [`Self::words`], with a note about a checkpoint.
    pub(super) fn state(&self, index: InstanceIndex) -> (String, String) {
        let (state, reason) = self.words(&self.outlooks[index.0]);
        let note = if self.has_checkpoint(index) { " (from a checkpoint)" } else { "" };
        (format!("{state}{note}"), reason)
    }

    /// Returns what `--json` prints about an instance.
    pub(super) fn record(&self, index: InstanceIndex) -> InstanceRecord {
        let outlook = &self.outlooks[index.0];
        let (state, reason) = self.words(outlook);
        let why = outlook.why().cloned();
        let waits_for = match outlook {
            Outlook::MayRun { waits_for, .. } => waits_for.iter().map(|&index| self.name(index)).collect(),
            _ => Vec::new(),
        };
        let manifest = manifest(outlook);
        InstanceRecord {
            instance: self.name(index),
            kind: self.plan.instance(index).kind,
            state,
            reason,
            why,
            waits_for,
            key: manifest.map(|manifest| manifest.key.to_string()),
            finished: manifest.map(|manifest| manifest.finished.clone()),
            seconds: manifest.map(|manifest| manifest.seconds),
            checkpoint: self.has_checkpoint(index),
            leftovers: self.leftovers(index),
        }
    }

    /// Returns the placed files of an instance that other variants of the pipeline wrote.
    pub(super) fn leftovers(&self, of: InstanceIndex) -> Vec<VariantFile> {
        self.leftovers.iter().filter(|leftover| leftover.instance == of).cloned().collect()
    }
}

/// A stage further up that explains why an instance runs.
#[derive(Serialize)]
pub(super) struct Cause {
    pub instance: String,
    pub state: String,
    pub reason: String,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Returns whether an output has this digest.
fn gives(manifest: &Manifest, digest: &str) -> bool {
    manifest.outputs.values().any(|stored| stored.blob.to_string() == digest)
}

/// What `--json` prints about one instance.
#[derive(Serialize)]
pub(super) struct InstanceRecord {
    instance: String,
    kind: &'static str,
    state: &'static str,
    reason: String,
    why: Option<Why>,
    waits_for: Vec<String>,
    key: Option<String>,
    finished: Option<String>,
    seconds: Option<f64>,
    /// Whether it would continue from a checkpoint.
    checkpoint: bool,
    leftovers: Vec<VariantFile>,
}

/// Returns the manifest of an instance that is up to date.
pub(super) fn manifest(outlook: &Outlook) -> Option<&Manifest> {
    match outlook {
        Outlook::Fresh(manifest) => Some(manifest),
        _ => None,
    }
}

/// Returns the sentence about a data file that the instance reads and that is missing.
fn missing_data_file<'m>(instance: &Instance, missing: &'m MissingDataFiles) -> Option<&'m String> {
    let sources = instance.inputs.iter().flat_map(|input| &input.sources);
    let mut files = sources.filter_map(|source| match source {
        InputSource::File(path) => Some(path),
        InputSource::Output { .. } => None,
    });
    files.find_map(|path| missing.get(path)).map(|missing| &missing.sentence)
}
