//! The record of one finished computation: what went in, what came out, and what it took.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use pipe_core::digest::{BlobId, StageKey};
use pipe_core::key::KeyParts;
use pipe_core::protocol::MetricValue;

/// A finished computation whose outputs are `O`: paths before the commit ([`Draft`]), content in the store after it
/// ([`Manifest`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Computed<O> {
    pub kind: String,
    /// The instance that first computed it; for people, not part of the key.
    pub instance: String,
    pub parts: KeyParts,
    pub outputs: BTreeMap<String, O>,
    /// The names of outputs whose bytes differ from run to run.
    #[serde(default = "BTreeSet::new", skip_serializing_if = "BTreeSet::is_empty")]
    pub volatile: BTreeSet<String>,
    /// What the stage printed; an empty log is none.
    pub stdout: Option<O>,
    pub stderr: Option<O>,
    pub metrics: BTreeMap<String, MetricValue>,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub max_rss_bytes: u64,
    /// Versions, machine, device. Recorded, never part of a key.
    pub environment: BTreeMap<String, String>,
    /// What the user should know: undeclared outputs, reduced resources.
    pub warnings: Vec<String>,
}

/// The result of a stage before it is committed. Outputs are moved from where they are, which has to be in a
/// [`Scratch`](super::Scratch) directory.
pub type Draft = Computed<PathBuf>;

/// A committed result. It is found under its key, and written last, by a rename, so that a manifest that
/// can be looked up is complete.
///
/// Dereferences to what was computed, so that `manifest.outputs` is the outputs.
///
/// Unknown fields are ignored: another version of `pipe` that uses the same cache may record more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub key: StageKey,
    /// The time of the commit, in RFC 3339.
    pub finished: String,
    /// The writer whose result this is, if it was taken from a remote. Such a result is never signed by this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,
    #[serde(flatten)]
    pub computed: Computed<Stored>,
}

/// A file or directory in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub blob: BlobId,
    /// The size of the file, or of all files in the directory together.
    pub bytes: u64,
    #[serde(default)]
    pub directory: bool,
}

impl<O> Computed<O> {
    /// Replaces every output by what `output` returns for its name and value, and every log by what `log` returns; `None`
    /// drops the log.
    pub(super) fn try_map<P, E>(
        self,
        mut output: impl FnMut(&str, O) -> Result<P, E>,
        mut log: impl FnMut(&str, O) -> Result<Option<P>, E>,
    ) -> Result<Computed<P>, E> {
        let mut outputs = BTreeMap::new();
        for (name, kept) in self.outputs {
            let kept = output(&name, kept)?;
            outputs.insert(name, kept);
        }
        Ok(Computed {
            kind: self.kind,
            instance: self.instance,
            parts: self.parts,
            outputs,
            volatile: self.volatile,
            stdout: self.stdout.map(|path| log("stdout", path)).transpose()?.flatten(),
            stderr: self.stderr.map(|path| log("stderr", path)).transpose()?.flatten(),
            metrics: self.metrics,
            seconds: self.seconds,
            cpu_seconds: self.cpu_seconds,
            max_rss_bytes: self.max_rss_bytes,
            environment: self.environment,
            warnings: self.warnings,
        })
    }
}

impl Manifest {
    /// Returns everything in the store that the manifest refers to.
    pub fn stored(&self) -> impl Iterator<Item = &Stored> {
        self.outputs.values().chain(&self.stdout).chain(&self.stderr)
    }
}

impl Deref for Manifest {
    type Target = Computed<Stored>;

    fn deref(&self) -> &Computed<Stored> {
        &self.computed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::digest::Digest;
    use pipe_core::protocol::Protocol;
    use serde_json::{Value, json};

    fn manifest() -> Manifest {
        let parts = KeyParts::new(BTreeMap::from([("kind".to_owned(), "load".to_owned())]));
        let out = Stored { blob: BlobId::new(Digest::of(b"out")), bytes: 3, directory: false };
        let metrics = BTreeMap::from([
            ("rows".to_owned(), MetricValue::unmarked(3.0)),
            ("macro_f1".to_owned(), MetricValue { value: f64::INFINITY, protocol: Some(Protocol::Oracle) }),
        ]);
        let computed = Computed {
            kind: "load".into(),
            instance: "data".into(),
            outputs: BTreeMap::from([("out".to_owned(), out)]),
            volatile: BTreeSet::new(),
            stdout: None,
            stderr: None,
            metrics,
            seconds: 0.1 + 0.2,
            cpu_seconds: 0.0,
            max_rss_bytes: u64::MAX,
            environment: BTreeMap::new(),
            warnings: Vec::new(),
            parts,
        };
        Manifest {
            key: computed.parts.key(),
            finished: "2026-01-31T10:15:00Z".into(),
            taken_from: None,
            computed,
        }
    }

    #[test]
    fn a_manifest_survives_its_json() {
        let json = serde_json::to_value(manifest()).unwrap();
        assert_eq!(json["outputs"]["out"]["bytes"], 3, "the fields are not nested");
        assert_eq!(json["metrics"]["macro_f1"], json!({ "value": "inf", "protocol": "oracle" }));
        assert_eq!(json["metrics"]["rows"], json!({ "value": 3.0 }));
        let text = serde_json::to_string(&manifest()).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest());
    }

    #[test]
    fn an_unknown_field_of_an_output_is_refused() {
        let mut json = serde_json::to_value(manifest()).unwrap();
        json["outputs"]["out"]["colour"] = Value::from("blue");
        let error = serde_json::from_value::<Manifest>(json).unwrap_err().to_string();
        assert!(error.contains("colour"), "{error}");
    }
}
