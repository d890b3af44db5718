//! What happened between a run and its remote.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::backend::BackendError;
use pipe_core::digest::{BlobId, StageKey};

/// After this many failures in a row the remote is not used any more.
const MOST_FAILURES: usize = 3;

/// What the remote is used for. Failures are counted separately, because a server may answer questions and hang when something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Fetch,
    Upload,
}

/// The numbers at the end of a run that has a remote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSummary {
    /// Results that were taken from the remote.
    pub taken: usize,
    /// Results that were uploaded.
    pub uploaded: usize,
    /// Results that were not uploaded because it takes less time to compute them than to fetch them.
    #[serde(default)]
    pub cheap: usize,
    /// The bytes that were received and sent, compressed.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Results on the remote that were not used, although they have the right key.
    pub refused: Vec<Refusal>,
    /// Why the remote could not be used, if so; the first of several reasons.
    pub unreachable: Option<String>,
}

/// A result on the remote that was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The stage instance that needed it.
    pub instance: String,
    pub key: StageKey,
    pub writer: String,
    /// Completes the sentence "the result was refused: ...".
    pub reason: String,
}

impl RemoteSummary {
    /// Returns one sentence for each writer and reason of the refusals.
    pub fn refusals(&self) -> Vec<String> {
        let mut groups: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for refusal in &self.refused {
            let instances = groups.entry((&refusal.writer, &refusal.reason)).or_default();
            instances.push(&refusal.instance);
        }
        let sentence = |((writer, reason), instances): ((&str, &str), Vec<&str>)| {
            let more = match instances.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            let first = instances.first().copied().unwrap_or_default();
            format!("the result of `{writer}` for `{first}`{more} on the remote was refused: {reason}")
        };
        groups.into_iter().map(sentence).collect()
    }
}

/// Collects what happens, from several threads.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    summary: RemoteSummary,
    warnings: Vec<String>,
    failed_fetches_in_a_row: usize,
    failed_uploads_in_a_row: usize,
    /// Blobs that the remote has, but not with the right content.
    damaged: HashSet<BlobId>,
}

impl Entries {
    fn failures_in_a_row(&mut self, direction: Direction) -> &mut usize {
        match direction {
            Direction::Fetch => &mut self.failed_fetches_in_a_row,
            Direction::Upload => &mut self.failed_uploads_in_a_row,
        }
    }
}

impl Ledger {
    fn entries<T>(&self, update: impl FnOnce(&mut Entries) -> T) -> T {
        update(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn summary(&self) -> RemoteSummary {
        self.entries(|entries| entries.summary.clone())
    }

    pub(super) fn update(&self, update: impl FnOnce(&mut RemoteSummary)) {
        self.entries(|entries| update(&mut entries.summary));
    }

    /// Returns the warnings since the last call.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.entries(|entries| std::mem::take(&mut entries.warnings))
    }

    pub(super) fn warn(&self, warning: String) {
        self.entries(|entries| entries.warnings.push(warning));
    }

    /// Returns whether the remote failed so often that it is not used any more in a direction. Nothing is uploaded to a remote that does not
    /// even answer questions.
    pub(super) fn has_given_up(&self, direction: Direction) -> bool {
        self.entries(|entries| {
            entries.failed_fetches_in_a_row >= MOST_FAILURES
                || (direction == Direction::Upload && entries.failed_uploads_in_a_row >= MOST_FAILURES)
        })
    }

    /// Takes note of an answer, which ends a row of failures, or of a failure. The first failure is a warning.
    pub(super) fn note<T>(&self, direction: Direction, answer: Result<T, BackendError>) -> Option<T> {
        self.entries(|entries| match answer {
            Ok(value) => {
                let failures = entries.failures_in_a_row(direction);
                if *failures < MOST_FAILURES {
                    *failures = 0;
                }
                Some(value)
            }
            Err(BackendError(what)) => {
                *entries.failures_in_a_row(direction) += 1;
                if entries.summary.unreachable.is_none() {
                    entries.warnings.push(format!("the remote failed: {what}"));
                    entries.summary.unreachable = Some(what);
                }
                None
            }
        })
    }

    pub(super) fn refuse(&self, instance: &str, key: StageKey, writer: &str, reason: String) {
        let refusal = Refusal { instance: instance.to_owned(), key, writer: writer.to_owned(), reason };
        self.update(|summary| {
            if !summary.refused.contains(&refusal) {
                summary.refused.push(refusal);
            }
        });
    }

    pub(super) fn mark_damaged(&self, blob: BlobId) {
        self.entries(|entries| entries.damaged.insert(blob));
    }

    pub(super) fn is_damaged(&self, blob: BlobId) -> bool {
        self.entries(|entries| entries.damaged.contains(&blob))
    }
}
