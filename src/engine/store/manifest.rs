//! The record of one finished computation: what went in, what came out, and how it went.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use pipe_core::digest::{BlobId, StageKey};
use pipe_core::key::KeyParts;

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
    /// Outputs that are never the same twice.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub volatile: BTreeSet<String>,
    pub stdout: Option<Stored>,
    pub stderr: Option<Stored>,
    #[serde(with = "metrics")]
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

impl Manifest {
    /// Everything it refers to.
    pub fn stored(&self) -> impl Iterator<Item = &Stored> {
        self.outputs.values().chain(&self.stdout).chain(&self.stderr)
    }
}

/// JSON has no number for what is not finite; as text it stays what it was.
mod metrics {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        metrics: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(metrics.iter().map(|(name, value)| match value.is_finite() {
            true => (name, Value::from(*value)),
            false => (name, Value::from(value.to_string())),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let figure = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
        BTreeMap::<String, Value>::deserialize(deserializer)?
            .into_iter()
            .map(|(name, value)| match figure(&value) {
                Some(figure) => Ok((name, figure)),
                None => Err(D::Error::custom(format!("metric {name}: {value} is no figure"))),
            })
            .collect()
    }
}
