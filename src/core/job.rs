//! A job: the file with which the runner tells a worker process what to compute.
//!
//! The runner writes a [`Job`] as JSON and starts the worker with the path of that file as its only argument. The
//! worker answers with [events](crate::event).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{BlobId, StageKey};

/// The values of the matrix axes that distinguish the instances of one stage, in the order of the axes.
pub type Axes = Vec<(String, String)>;

/// Everything that a worker process needs to compute one stage instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The key of the computation; `None` for a job outside of any pipeline, such as `pipe predict`.
    pub key: Option<StageKey>,
    /// The name of the instance, for messages only.
    pub instance: String,
    /// The stage kind.
    pub kind: String,
    /// The typed parameters of the stage as the pipeline states them, after interpolation.
    pub body: serde_json::Value,
    /// The input artifacts by slot; a slot that takes one artifact has one element.
    pub inputs: BTreeMap<String, Vec<JobInput>>,
    /// Where to write each declared output (a file or a directory), by output name.
    pub outputs: BTreeMap<String, PathBuf>,
    /// A directory that is empty at the start and removed at the end.
    pub scratch: PathBuf,
    /// A directory that survives a killed attempt at the same key.
    pub checkpoints: PathBuf,
    /// The number of threads that the stage may use.
    pub threads: usize,
}

/// One artifact that a job reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// The axes that distinguish this artifact from the others in the same slot.
    pub axes: Axes,
    /// The type of the artifact; `file` for a file of the user.
    pub artifact: String,
    pub path: PathBuf,
    /// The digest of the content; `None` in a job outside of any pipeline.
    pub blob: Option<BlobId>,
}

impl Job {
    /// Reads a job file.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        serde_json::from_slice(&bytes).map_err(std::io::Error::from)
    }
}
