//! What the runner and a worker process say to each other: one job file in, JSON lines out.
//!
//! The runner writes [`Job`] as JSON and starts the worker with that file's path as its only
//! argument. The worker answers on standard output, one [`WorkerEvent`] per line, and exits with 0
//! after [`WorkerEvent::Done`], or with anything else after [`WorkerEvent::Failed`]. Standard error is free text; the runner
//! keeps it. A line on standard output that is not an event is kept as a log line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{BlobId, StageKey};

/// Values of matrix axes that tell instances of one stage apart, in the order of the axes.
pub type Axes = Vec<(String, String)>;

/// Everything one worker process needs in order to run one stage instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    pub key: StageKey,
    /// For messages only.
    pub instance: String,
    pub kind: String,
    /// The stage's typed parameters as the pipeline gives them, after interpolation.
    pub body: serde_json::Value,
    /// By slot name; a slot that takes one artifact has one entry.
    pub inputs: BTreeMap<String, Vec<JobInput>>,
    /// Where each declared output is to be written: a file or a directory, by output name.
    pub outputs: BTreeMap<String, PathBuf>,
    /// A directory that is empty at the start and removed at the end.
    pub scratch: PathBuf,
    /// A directory that outlives a killed attempt at the same key.
    pub checkpoints: PathBuf,
    /// How many threads the stage may use.
    pub threads: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// What tells this artifact from its siblings in a fan-in.
    pub axes: Axes,
    /// The artifact's type name, `file` for a source file.
    pub artifact: String,
    pub path: PathBuf,
    pub blob: BlobId,
}

impl Job {
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        serde_json::from_slice(&bytes).map_err(std::io::Error::from)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// Sent every few seconds by a thread of its own: the process lives.
    Alive,
    /// `done` of `total` `unit`s; the message is for people (`epoch 3, macro-F1 0.38`).
    Progress {
        done: u64,
        total: Option<u64>,
        unit: String,
        message: String,
    },
    /// A figure worth keeping in the manifest; the last one of a name wins.
    Metric {
        name: String,
        #[serde(with = "figure")]
        value: f64,
    },
    /// What the result was computed with (`libtorch`, `device`): kept in the manifest, never hashed.
    Fact {
        name: String,
        value: String,
    },
    Log {
        level: LogLevel,
        message: String,
    },
    Done,
    Failed {
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
}

/// A figure as a JSON number, or as text where JSON has no number for it.
pub mod figure {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match value.is_finite() {
            true => serializer.serialize_f64(*value),
            false => serializer.collect_str(value),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let figure = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        figure.ok_or_else(|| D::Error::invalid_type(Unexpected::Other("something else"), &"a figure"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_json_has_no_number_for_survive() {
        for value in [0.1, f64::INFINITY, f64::NEG_INFINITY] {
            let event = WorkerEvent::Metric { name: "loss".into(), value };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<WorkerEvent>(&text).unwrap(), event, "{text}");
        }
        let nan =
            serde_json::to_string(&WorkerEvent::Metric { name: "loss".into(), value: f64::NAN }).unwrap();
        let back = serde_json::from_str(&nan).unwrap();
        assert!(matches!(back, WorkerEvent::Metric { value, .. } if value.is_nan()), "{nan}");
    }
}
