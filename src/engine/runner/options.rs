//! What the user asks of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::cluster::Cluster;
use crate::plan::Plan;
use crate::remote::Remote;
use crate::spec::pipeline::InstanceIndex;
use crate::store::manifest::Manifest;
use pipe_core::digest::{BlobId, StageKey};

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that user files and placements are relative to.
    pub project: PathBuf,
    /// How many processors stages may use together.
    pub jobs: usize,
    /// Whether to continue with stages that do not depend on a failed one.
    pub keep_going: bool,
    /// The variables that the command line set, which are recorded with the placed files.
    pub set: Vec<String>,
    /// What the user wrote about the run.
    pub note: Option<String>,
    /// The commit that is checked out.
    pub commit: Option<String>,
    /// Only these and what they need; everything if `None`.
    pub targets: Option<Vec<InstanceIndex>>,
    /// Instances whose dependents do not run.
    pub until: Vec<InstanceIndex>,
    /// Instances to compute even if the cache has them.
    pub force: Vec<InstanceIndex>,
    /// Results to take from the store as they are, whether or not their inputs are here.
    pub known: BTreeMap<InstanceIndex, StageKey>,
    /// The content of outputs that the lock recorded before the run: a placed file with such content was not edited.
    pub locked_outputs: BTreeSet<BlobId>,
    /// Whether to replace placed files that the user has edited.
    pub overwrite: bool,
    /// The memory that stages may use together, in bytes; that of the machine if `None`.
    pub memory: Option<u64>,
    /// The devices that stages may use, as CUDA names them; all if `None`.
    pub gpus: Option<Vec<String>>,
    /// The number of threads for every stage, instead of what each asks for; it must not change a result.
    pub threads: Option<usize>,
    /// Whether to begin with the stages that come last in the file where the order is free.
    pub last_first: bool,
    /// Where stages run that are not light; on this machine if `None`.
    pub cluster: Option<Arc<Cluster>>,
    /// Decides whether a result may be used, before anything is computed from it.
    pub gate: Option<ResultGate>,
    /// Where to look for results that the store does not have, and where to upload what is computed.
    pub remote: Option<Arc<Remote>>,
}

/// A check that every result must pass. If it returns an error, the stage fails with that message.
#[derive(Clone)]
pub struct ResultGate(Arc<ResultCheck>);

type ResultCheck = dyn Fn(InstanceIndex, &Manifest) -> Result<(), String> + Send + Sync;

impl ResultGate {
    /// Creates a gate from a function.
    pub fn new(
        check: impl Fn(InstanceIndex, &Manifest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// Checks the result of an instance. The error says why it may not be used.
    pub fn check(&self, instance: InstanceIndex, result: &Manifest) -> Result<(), String> {
        (self.0)(instance, result)
    }
}

impl fmt::Debug for ResultGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultGate")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            project: PathBuf::from("."),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            keep_going: false,
            set: Vec::new(),
            note: None,
            commit: None,
            targets: None,
            until: Vec::new(),
            force: Vec::new(),
            known: BTreeMap::new(),
            locked_outputs: BTreeSet::new(),
            overwrite: false,
            memory: None,
            gpus: None,
            threads: None,
            last_first: false,
            cluster: None,
            gate: None,
            remote: None,
        }
    }
}

impl Options {
    /// Returns for each instance whether it takes part. With an instance, everything that it needs takes part.
    pub fn selection<F>(&self, plan: &Plan<F>) -> Vec<bool> {
        let mut selected = match &self.targets {
            Some(targets) => plan.with_dependencies(targets),
            None => vec![true; plan.len()],
        };
        if !self.until.is_empty() {
            let until = plan.excluding_dependents(&self.until);
            for (selected, until) in selected.iter_mut().zip(until) {
                *selected &= until;
            }
        }
        selected
    }
}
