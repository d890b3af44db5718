//! The events of a run: one enum for the console, the run log, the live view and the report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::Why;
use crate::remote::RemoteSummary;
use pipe_core::digest::StageKey;
use pipe_core::event::LogLevel;
use pipe_core::protocol::Protocol;

/// Something that happened in a run. Events as JSON, one per line, are both the run log (`events.jsonl`) and the output
/// of `pipe run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted {
        run: String,
        pipeline: String,
        /// The pipeline file, relative to the project directory; `None` in logs of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
        instances: usize,
        jobs: usize,
        /// The variables that the command line set.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set: Vec<String>,
        /// What the user wrote about the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The commit that was checked out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
    },
    /// Found in the cache; `saved` is how long it took to compute, in seconds.
    Hit {
        instance: String,
        key: StageKey,
        saved: f64,
        /// Whose result it is, if this run took it from the remote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writer: Option<String>,
    },
    /// An attempt begins.
    Started {
        instance: String,
        key: StageKey,
        why: Why,
        /// Counted from 1; the second and later ones follow a failed attempt.
        attempt: u32,
    },
    /// Another process is computing this key; this run waits for its result.
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<Protocol>,
        /// The epoch, for a point of a learning curve.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    Log {
        instance: Option<String>,
        level: LogLevel,
        message: String,
    },
    /// Files that a command used without declaring them, relative to the project if they are in it. Reported only if
    /// commands are observed.
    Undeclared {
        instance: String,
        read: Vec<String>,
        /// Files outside of the working directory.
        written: Vec<String>,
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
    /// The user asked to stop: running stages may finish their checkpoint, or, if asked again (`now`), end at once.
    Stopping {
        now: bool,
    },
    RunFinished {
        summary: Summary,
    },
}

/// What happened to a file outside of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceOutcome {
    Written,
    Unchanged,
    /// The user edited the file since it was written, so it was left alone.
    KeptEdited,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The numbers at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub hits: usize,
    pub ran: usize,
    pub failed: usize,
    pub skipped: usize,
    pub seconds: f64,
    /// The seconds of computing that the cache saved.
    pub saved: f64,
    pub interrupted: bool,
    /// Stages that were left to a cluster, which are among the skipped ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub detached: usize,
    /// Cached results that have warnings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warned: usize,
    /// Generated files that were left alone because the user edited them.
    #[serde(default)]
    pub kept: Vec<String>,
    /// What was exchanged with the remote, if there was a reason to ask it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSummary>,
}
