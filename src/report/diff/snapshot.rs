//! A pipeline as it stood at one time, whoever tells it: a run, or a lock file.

use std::collections::BTreeMap;

use pipe_core::digest::{BlobId, StageKey};
use pipe_ml::metric::marked::Marked;

#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// What to call it: `20260131T101500Z-1a2b3c4d`, `HEAD~1:pipelines/x.lock`.
    pub name: String,
    /// By the name of the instance.
    pub stages: BTreeMap<String, StageSnapshot>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StageSnapshot {
    pub key: StageKey,
    /// The ingredients of the key that a person chooses or changes: parameters, the version of the code, environment
    /// variables. As canonical text, under the names that `pipe why` shows.
    pub params: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, Marked<f64>>,
    pub outputs: BTreeMap<String, BlobId>,
}
