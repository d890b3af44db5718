//! What the user asks of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::plan::Plan;
use crate::spec::pipeline::InstanceIndex;
use crate::store::manifest::Manifest;
use pipe_core::digest::StageKey;

#[derive(Debug, Clone)]
pub struct Options {
    /// Sources and placements are relative to it.
    pub project: PathBuf,
    /// How many processors stages may occupy together.
    pub jobs: usize,
    /// Go on with what does not depend on a stage that failed.
    pub keep_going: bool,
    /// The variables that the command line set, to be remembered with what the run gives.
    pub set: Vec<String>,
    /// Only these and what they need; none: everything.
    pub targets: Option<Vec<InstanceIndex>>,
    /// Nothing that comes after these.
    pub until: Vec<InstanceIndex>,
    /// To be computed even if the cache has them.
    pub force: Vec<InstanceIndex>,
    /// Results to take from the store as they are, whether or not what they were made from is here.
    pub known: BTreeMap<InstanceIndex, StageKey>,
    /// Replace placed files that the user has edited.
    pub overwrite: bool,
    /// Bytes that stages may hold together; none: what the machine has.
    pub memory: Option<u64>,
    /// Devices that stages may use, as CUDA names them; none: all that there are.
    pub gpus: Option<Vec<String>>,
    /// Threads for every stage, in place of what each asks for; it must not change a result.
    pub threads: Option<usize>,
    /// Where the order of stages is free, begin with those that come last in the file.
    pub last_first: bool,
    /// Whether a result may be used, asked before anything is built on it.
    pub judge: Option<Judge>,
}

/// Refuses results: a sentence fails the stage that gave one.
#[derive(Clone)]
pub struct Judge(Arc<Verdict>);

type Verdict = dyn Fn(InstanceIndex, &Manifest) -> Result<(), String> + Send + Sync;

impl Judge {
    pub fn new(
        judge: impl Fn(InstanceIndex, &Manifest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }

    pub fn judge(&self, instance: InstanceIndex, result: &Manifest) -> Result<(), String> {
        (self.0)(instance, result)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            project: PathBuf::from("."),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            keep_going: false,
            set: Vec::new(),
            targets: None,
            until: Vec::new(),
            force: Vec::new(),
            known: BTreeMap::new(),
            overwrite: false,
            memory: None,
            gpus: None,
            threads: None,
            last_first: false,
            judge: None,
        }
    }
}

impl Options {
    /// Which instances take part, closed under what they need.
    pub fn selection<F>(&self, plan: &Plan<F>) -> Vec<bool> {
        let mut selected = match &self.targets {
            Some(targets) => plan.with_dependencies(targets),
            None => vec![true; plan.len()],
        };
        if !self.until.is_empty() {
            let until = plan.excluding_dependents(&self.until);
            selected.iter_mut().zip(until).for_each(|(selected, until)| *selected &= until);
        }
        selected
    }
}
