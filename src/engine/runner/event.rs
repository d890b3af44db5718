//! One enum feeds the console, the run log, the live view and the report.

use serde::{Deserialize, Serialize};

use pipe_core::digest::StageKey;
use pipe_core::event::LogLevel;

/// What happened, in the order in which it happened. Serialised, one per line, it is both the
/// run log (`events.jsonl`) and the output of `pipe run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        run: String,
        pipeline: String,
        instances: usize,
        jobs: usize,
        /// The variables that the command line set.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set: Vec<String>,
    },
    /// Found in the cache; `saved` is what computing it took, in seconds.
    Hit {
        instance: String,
        key: StageKey,
        saved: f64,
    },
    Started {
        instance: String,
        key: StageKey,
        why: String,
        attempt: u32,
    },
    /// Another process holds the right to compute this key; we wait for its result.
    Waiting {
        instance: String,
        key: StageKey,
    },
    Progress {
        instance: String,
        done: u64,
        total: Option<u64>,
        unit: String,
        message: String,
    },
    Metric {
        instance: String,
        name: String,
        #[serde(with = "pipe_core::float")]
        value: f64,
    },
    Log {
        instance: Option<String>,
        level: LogLevel,
        message: String,
    },
    /// Computed and committed.
    Done {
        instance: String,
        key: StageKey,
        seconds: f64,
        cpu_seconds: f64,
        max_rss_bytes: u64,
    },
    Failed {
        instance: String,
        error: String,
        stderr_tail: String,
        will_retry: bool,
    },
    /// Not run because something it needs failed, or because the run is stopping.
    Skipped {
        instance: String,
        because: String,
    },
    Placed {
        path: String,
        outcome: PlaceOutcome,
    },
    /// The user asked to stop: once, and running stages may finish their checkpoint; twice, at once.
    Stopping {
        now: bool,
    },
    RunFinished {
        summary: Summary,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceOutcome {
    Written,
    Unchanged,
    /// The user edited the file since we wrote it; it was left alone.
    KeptEdited,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub hits: usize,
    pub ran: usize,
    pub failed: usize,
    pub skipped: usize,
    pub seconds: f64,
    /// Seconds of computing that the cache made unnecessary.
    pub saved: f64,
    pub interrupted: bool,
    /// Generated files that were edited since and so were left as they are.
    #[serde(default)]
    pub kept: Vec<String>,
}
