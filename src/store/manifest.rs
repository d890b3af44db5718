//! The record of one finished computation: what went in, what came out, and how it went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{BlobId, StageKey};
use crate::plan::key::KeyParts;

/// Found under its key; written last, by a rename, so that what can be looked up is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub key: StageKey,
    pub kind: String,
    /// The instance that first computed it; for people, not part of the key.
    pub instance: String,
    pub parts: KeyParts,
    pub outputs: BTreeMap<String, Stored>,
    pub stdout: Option<Stored>,
    pub stderr: Option<Stored>,
    pub metrics: BTreeMap<String, f64>,
    /// RFC 3339.
    pub finished: String,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub max_rss_bytes: u64,
    /// Recorded, never hashed: versions, machine, device.
    pub environment: BTreeMap<String, String>,
    /// What the run wanted the user to know: undeclared outputs, clamped resources.
    pub warnings: Vec<String>,
}

/// A file or directory in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub blob: BlobId,
    /// Of the file, or of all files in the directory together.
    pub bytes: u64,
    #[serde(default)]
    pub directory: bool,
}
