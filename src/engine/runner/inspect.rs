//! Determines the key of an instance and whether the store has its result, as soon as the content of its inputs is
//! known. Used by the run and by the survey.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::options::Options;
use super::stop::Stop;
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::key::KeyParts;

use crate::plan::key::{self, Content, InputContent};
use crate::plan::{Plan, Why};
use crate::spec::pipeline::{Input, InputSource, Instance, InstanceIndex};
use crate::store::manifest::{Manifest, Stored};
use crate::store::{self, FailedAttempt, Lookup, PipelineState, Store};

/// What is known about the instances of a plan so far.
pub(super) struct Inspector<'a> {
    plan: &'a Plan,
    store: &'a Store,
    project: &'a Path,
    /// Hashing the files of the user ends when the user asks to stop.
    stop: Stop,
    pub state: PipelineState,
    /// Each file of the user is hashed once per run, so that all stages of a run see the same content.
    sources: HashMap<&'a OsStr, Result<Arc<store::UserFile>, String>>,
    outputs: Vec<Option<BTreeMap<String, Stored>>>,
    names: Vec<String>,
    /// The largest memory that the instances of a stage have used, by the name of the stage.
    peaks: HashMap<String, Option<u64>>,
}

/// An instance whose inputs are known, and therefore its key.
pub(super) struct Prepared {
    pub key: StageKey,
    /// By input and by source, in the order of the instance.
    pub inputs: Vec<Vec<ResolvedInput>>,
}

impl Prepared {
    /// Returns the parts of the key of this instance.
    pub(super) fn parts(&self, instance: &Instance) -> KeyParts {
        with_contents(instance, &self.inputs, key::parts)
    }
}

/// The content of one input.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResolvedInput<F = Arc<store::UserFile>> {
    Stored(Stored),
    /// A file of the user.
    Source(F),
}

impl ResolvedInput {
    pub(super) fn blob(&self) -> BlobId {
        match self {
            Self::Stored(stored) => stored.blob,
            Self::Source(source) => source.blob,
        }
    }

    fn content(&self) -> Content {
        match self {
            Self::Stored(stored) => stored.blob.into(),
            Self::Source(source) => Content::of_user_file(source),
        }
    }
}

/// What the store has for an instance.
pub(super) enum Finding {
    Hit(Box<Manifest>),
    Miss(Why),
}

impl<'a> Inspector<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        store: &'a Store,
        project: &'a Path,
        state: PipelineState,
        stop: &Stop,
    ) -> Self {
        Self {
            plan,
            store,
            project,
            state,
            stop: stop.clone(),
            sources: HashMap::new(),
            outputs: vec![None; plan.len()],
            names: plan.pipeline().instances.iter().map(|instance| instance.id.to_string()).collect(),
            peaks: HashMap::new(),
        }
    }

    pub(super) fn name(&self, index: InstanceIndex) -> &str {
        &self.names[index.0]
    }

    pub(super) fn outputs(&self, index: InstanceIndex) -> Option<&BTreeMap<String, Stored>> {
        self.outputs[index.0].as_ref()
    }

    /// Remembers the result of an instance, so that its dependents can be prepared.
    pub(super) fn learn(&mut self, index: InstanceIndex, outputs: BTreeMap<String, Stored>) {
        self.outputs[index.0] = Some(outputs);
    }

    /// Returns the key of an instance whose inputs are all known, or a sentence if one cannot be read.
    pub(super) fn prepare(&mut self, index: InstanceIndex) -> Result<Prepared, String> {
        let instance = self.plan.instance(index);
        instance.packages()?;
        let mut inputs = Vec::with_capacity(instance.inputs.len());
        for input in &instance.inputs {
            let contents: Result<Vec<ResolvedInput>, String> =
                input.sources.iter().map(|source| self.content(input, source)).collect();
            inputs.push(contents?);
        }
        let key = with_contents(instance, &inputs, key::key);
        Ok(Prepared { key, inputs })
    }

    fn content(&mut self, input: &Input, source: &'a InputSource) -> Result<ResolvedInput, String> {
        match source {
            InputSource::Output { producer, output, .. } => {
                let known = self.outputs[producer.0].as_ref().and_then(|outputs| outputs.get(output));
                known.copied().map(ResolvedInput::Stored).ok_or_else(|| {
                    let producer = self.name(*producer);
                    format!(
                        "`{producer}` has no output `{output}`, which the input `{}` asks for",
                        input.slot
                    )
                })
            }
            InputSource::File(path) => {
                let give_up = || self.stop.requested().is_some();
                let digest = || self.store.digest_user_file_unless(&self.project.join(path), &give_up);
                let known = self.sources.entry(path.as_os_str());
                let known =
                    known.or_insert_with(|| digest().map(Arc::new).map_err(|error| error.to_string()));
                match known {
                    Ok(source) => Ok(ResolvedInput::Source(Arc::clone(source))),
                    Err(problem) => Err(format!("the input `{}` cannot be used: {problem}", input.slot)),
                }
            }
        }
    }

    /// Looks an instance up, or returns a sentence if the store cannot be read.
    pub(super) fn look_up(&self, index: InstanceIndex, prepared: &Prepared) -> Result<Finding, String> {
        match self.store.lookup(&prepared.key) {
            Lookup::Hit(manifest) => Ok(Finding::Hit(manifest)),
            Lookup::Miss => Ok(Finding::Miss(self.why(index, prepared))),
            Lookup::Damaged(problem) => Ok(Finding::Miss(Why::Damaged { problem })),
            Lookup::Unreadable(error) => Err(error.to_string()),
        }
    }

    fn why(&self, index: InstanceIndex, prepared: &Prepared) -> Why {
        match self.last(index) {
            None => self.untried(index),
            Some(last) => {
                let record = self.store.record(last);
                let between = record
                    .map(|record| Why::between(&record.parts, &prepared.parts(self.plan.instance(index))));
                match (self.failed(index), between) {
                    (Some(failed), between) if failed.key == prepared.key => {
                        let changes = between.map(|why| why.changes().to_vec()).unwrap_or_default();
                        Why::Failed { run: failed.run.clone(), changes }
                    }
                    _ if last == prepared.key => Why::Missing,
                    (_, Some(why)) => why,
                    (_, None) => Why::NoRecord,
                }
            }
        }
    }

    /// Returns the reason to run that is known before the inputs are: that something else has changed.
    pub(super) fn known_so_far(&self, index: InstanceIndex) -> Option<Why> {
        let Some(last) = self.last(index) else { return Some(self.untried(index)) };
        let record = self.store.record(last)?;
        let without_inputs = |parts: &KeyParts| {
            let rest = parts.iter().filter(|(name, _)| !name.starts_with("inputs."));
            KeyParts::new(rest.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        };
        let now = key::parts(self.plan.instance(index), &[]);
        let why = Why::between(&without_inputs(&record.parts), &now);
        matches!(why, Why::Changed { .. }).then_some(why)
    }

    /// Returns why an instance without any result runs.
    fn untried(&self, index: InstanceIndex) -> Why {
        match self.failed(index) {
            Some(FailedAttempt { run, .. }) => Why::Failed { run: run.clone(), changes: Vec::new() },
            None => Why::NeverRun,
        }
    }

    fn failed(&self, index: InstanceIndex) -> Option<&FailedAttempt> {
        self.state.failed.get(self.name(index))
    }

    /// Returns how long the instance took when it last ran.
    pub(super) fn last_seconds(&self, index: InstanceIndex) -> Option<f64> {
        self.store.record(self.last(index)?).map(|record| record.seconds)
    }

    /// Returns the largest memory, in bytes, that the instances of a stage used when they last ran.
    pub(super) fn peak_memory(&mut self, stage: &str) -> Option<u64> {
        if let Some(&known) = self.peaks.get(stage) {
            return known;
        }
        let instances = self.plan.pipeline().instances.iter().zip(&self.names);
        let keys = instances
            .filter(|(instance, _)| instance.id.stage == stage)
            .filter_map(|(_, name)| self.state.last.get(name));
        let peak = keys.filter_map(|&key| self.store.record(key)).map(|record| record.max_rss_bytes).max();
        self.peaks.insert(stage.to_owned(), peak);
        peak
    }

    fn last(&self, index: InstanceIndex) -> Option<StageKey> {
        self.state.last.get(self.name(index)).copied()
    }
}

/// Returns the result that the caller wants to be used for an instance, if the store has it.
pub(super) fn known(store: &Store, options: &Options, index: InstanceIndex) -> Option<Box<Manifest>> {
    match store.lookup(options.known.get(&index)?) {
        Lookup::Hit(manifest) => Some(manifest),
        Lookup::Miss | Lookup::Damaged(_) | Lookup::Unreadable(_) => None,
    }
}

fn with_contents<T>(
    instance: &Instance,
    inputs: &[Vec<ResolvedInput>],
    compute: impl FnOnce(&Instance, &[InputContent]) -> T,
) -> T {
    let contents: Vec<Vec<Content>> =
        inputs.iter().map(|contents| contents.iter().map(ResolvedInput::content).collect()).collect();
    compute(instance, &key::contents(instance, &contents))
}
