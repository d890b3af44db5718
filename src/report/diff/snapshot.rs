//! The state of a pipeline at one time, as recorded by a run or a lock file.

use std::collections::BTreeMap;

use pipe_core::digest::{BlobId, StageKey};
use pipe_ml::metric::marked::Marked;

/// The state of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The name for messages: `20260131T101500Z-1a2b3c4d`, `HEAD~1:pipelines/x.lock`.
    pub name: String,
    /// The stages, by the name of the instance.
    pub stages: BTreeMap<String, StageSnapshot>,
}

/// The state of one instance of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSnapshot {
    pub key: StageKey,
    /// The key parts that a person chooses or changes: parameters, the version of the code, environment variables. They
    /// are canonical text, under the names that `pipe why` shows.
    pub params: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, Marked<f64>>,
    pub outputs: BTreeMap<String, BlobId>,
}
