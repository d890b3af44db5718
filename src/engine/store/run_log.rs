//! The logs of runs: one directory per run, with every event as it happened, and a summary at the end.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Store;
use super::error::StoreError;
use super::sealed::{self, Unsealed};
use super::session::{new_directory, time_of};
use pipe_core::digest::{BlobId, Digest};

pub(super) const EVENTS: &str = "events.jsonl";
pub(super) const SUMMARY: &str = "run.json";

/// The log of the current run.
pub struct RunLog<'store> {
    store: &'store Store,
    directory: PathBuf,
    events: BufWriter<File>,
    hasher: blake3::Hasher,
}

/// A past run. It has no summary if it was killed or is still running.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Starts with the time in UTC, so that ids sort by age.
    pub id: String,
    pub summary: Option<serde_json::Value>,
    pub bytes: u64,
}

impl RunRecord {
    /// Returns when it started, to the second.
    pub fn started(&self) -> Option<jiff::Timestamp> {
        time_of(Path::new(&self.id))
    }
}

/// The content of `run.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ending {
    /// The digest of the finished event log.
    pub(super) events: BlobId,
    pub(super) summary: serde_json::Value,
}

impl Store {
    /// Starts the log of a new run.
    pub fn new_run(&self) -> Result<RunLog<'_>, StoreError> {
        self.session()?;
        let runs = self.layout.runs();
        let directory = new_directory(&runs).map_err(|e| StoreError::writing(&runs, e))?;
        let path = directory.join(EVENTS);
        let events = File::create_new(&path).map_err(|e| StoreError::writing(&path, e))?;
        let events = BufWriter::new(events);
        Ok(RunLog { store: self, directory, events, hasher: blake3::Hasher::new() })
    }

    /// Returns all runs, newest first; of those that started in the same second, the one that was written to last comes
    /// first.
    pub fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        let written = |id: &str| self.layout.runs().join(id).join(EVENTS).metadata()?.modified();
        let second = |id: &str| id.split('-').next().unwrap_or_default().to_owned();
        let mut ids: Vec<_> =
            self.run_ids()?.into_iter().map(|id| ((second(&id), written(&id).ok()), id)).collect();
        ids.sort_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(|(_, id)| self.run_record(id)).collect())
    }

    pub(super) fn run_ids(&self) -> Result<Vec<String>, StoreError> {
        let runs = self.layout.runs();
        let entries = match fs::read_dir(&runs) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| StoreError::reading(&runs, e))?,
        };
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn run_record(&self, id: String) -> RunRecord {
        let directory = self.layout.runs().join(&id);
        let summary = match sealed::read::<Ending>(&directory.join(SUMMARY)) {
            Ok(ending) => Some(ending.summary),
            Err(Unsealed::Missing) => None,
            Err(Unsealed::Damaged(flaw) | Unsealed::Foreign(flaw)) => {
                self.warn(format!("the summary of run {id} is damaged: {flaw}"));
                None
            }
            Err(Unsealed::Unreadable(error)) => {
                self.warn(format!("the summary of run {id} cannot be read: {error}"));
                None
            }
        };
        let size = |name| directory.join(name).metadata().map_or(0, |file| file.len());
        RunRecord { bytes: size(EVENTS) + size(SUMMARY), id, summary }
    }

    /// Returns the events of a run, one JSON object per line. A log that does not match the digest in the summary gives a
    /// warning.
    pub fn run_events(&self, id: &str) -> Result<String, StoreError> {
        let directory = self.layout.runs().join(id);
        let path = directory.join(EVENTS);
        let bytes = fs::read(&path).map_err(|e| StoreError::reading(&path, e))?;
        if let Some(flaw) = flaw_of_run(&directory, &bytes) {
            self.warn(format!("the log of run {id} is damaged: {flaw}"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns what is wrong with the files of a run. A run without a summary has nothing to be compared with.
pub(super) fn flaw_of_run(directory: &Path, events: &[u8]) -> Option<String> {
    match sealed::read::<Ending>(&directory.join(SUMMARY)) {
        Ok(ending) if ending.events.digest() == Digest::of(events) => None,
        Ok(_) => Some("its events are not those that were written".into()),
        Err(Unsealed::Missing | Unsealed::Foreign(_) | Unsealed::Unreadable(_)) => None,
        Err(Unsealed::Damaged(flaw)) => Some(flaw),
    }
}

impl RunLog<'_> {
    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        self.directory.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Writes what was appended, so that readers see it, also after a crash.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.events.flush().map_err(|e| StoreError::writing(&self.directory.join(EVENTS), e))
    }

    /// Appends an event.
    pub fn append(&mut self, event: &impl Serialize) -> Result<(), StoreError> {
        let path = self.directory.join(EVENTS);
        let writing = |e| StoreError::writing(&path, e);
        let mut line = serde_json::to_vec(event).map_err(|e| writing(e.into()))?;
        line.push(b'\n');
        self.events.write_all(&line).map_err(writing)?;
        self.hasher.update(&line);
        Ok(())
    }

    /// Writes the summary and ends the log.
    pub fn finish(mut self, summary: &impl Serialize) -> Result<(), StoreError> {
        self.flush()?;
        let path = self.directory.join(SUMMARY);
        let writing = |e| StoreError::writing(&path, e);
        let summary = serde_json::to_value(summary).map_err(|e| writing(e.into()))?;
        let events = BlobId::new(self.hasher.finalize().into());
        let text = sealed::encode(&Ending { events, summary }).map_err(writing)?;
        self.store.write(&path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::flip_bit;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_is_listed_with_its_events_and_its_summary() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.new_run().unwrap();
        log.append(&json!({"event": "started"})).unwrap();
        let id = log.id().to_owned();
        log.flush().unwrap();
        assert_eq!(store.run_events(&id).unwrap(), "{\"event\":\"started\"}\n", "readable while it runs");
        assert_eq!(store.runs().unwrap()[0].summary, None);
        log.append(&json!({"event": "done"})).unwrap();
        log.finish(&json!({"ran": 1})).unwrap();

        let runs = store.runs().unwrap();
        assert_eq!((runs.len(), &runs[0].id, &runs[0].summary), (1, &id, &Some(json!({"ran": 1}))));
        assert_eq!(store.run_events(&id).unwrap().lines().count(), 2);
        assert_eq!(store.warnings(), [""; 0]);

        flip_bit(&store.layout.runs().join(&id).join(EVENTS), 12);
        store.run_events(&id).unwrap();
        assert_eq!(store.warnings().len(), 1);
    }
}
