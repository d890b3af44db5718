//! The last results of each pipeline file: the memory of `pipe why`, and the roots of garbage collection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Store;
use super::blob::sync_directory_of;
use super::error::StoreError;
use super::sealed::{self, Unsealed};
use super::stamp::Stamp;
use pipe_core::digest::{BlobId, Digest, StageKey};

/// What the store remembers about one pipeline file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineState {
    /// The canonical path of the pipeline file.
    pub file: PathBuf,
    /// The last key of each instance, by its name.
    pub last: BTreeMap<String, StageKey>,
    /// What was last placed at each path outside the store. It is recorded just before the file is placed.
    pub placed: BTreeMap<String, BlobId>,
    /// What was at the path before: it is still there if the run was killed before it could place the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, BlobId>,
    /// The run that placed it, by path.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
    /// The last failed attempt at each instance since its last success.
    #[serde(default)]
    pub failed: BTreeMap<String, FailedAttempt>,
}

/// What the file with a pipeline's state looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSighting(Option<Stamp>);

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedAttempt {
    pub run: String,
    pub key: StageKey,
}

/// The run that placed a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    pub run: String,
    /// The variables that were set on its command line: without them the pipeline gives something else.
    pub set: Vec<String>,
}

impl Store {
    /// Returns the state of a pipeline. It is empty if the pipeline was never run, or if the state is damaged or cannot
    /// be read, which becomes a warning.
    pub fn pipeline_state(&self, pipeline: &Path) -> PipelineState {
        self.read_pipeline_state(pipeline).unwrap_or_else(|error| {
            self.warn(error.to_string());
            PipelineState { file: canonical(pipeline), ..PipelineState::default() }
        })
    }

    /// Returns the state of a pipeline for a run, which will replace it. A damaged state is a warning and counts as
    /// empty; a state that cannot be read is an error, because it may be sound.
    pub fn read_pipeline_state(&self, pipeline: &Path) -> Result<PipelineState, StoreError> {
        let file = canonical(pipeline);
        let path = self.pipeline_path(&file);
        match sealed::read::<PipelineState>(&path) {
            Ok(state) if state.file == file => return Ok(state),
            Ok(_) | Err(Unsealed::Missing) => {}
            Err(Unsealed::Unreadable(error)) => return Err(StoreError::reading(&path, error)),
            Err(Unsealed::Damaged(flaw) | Unsealed::Foreign(flaw)) => {
                self.discard(&path);
                let name = file.display();
                self.warn(format!("the record of the last results of {name} is damaged: {flaw}"));
            }
        }
        Ok(PipelineState { file, ..PipelineState::default() })
    }

    /// Returns what the file with the state of a pipeline looks like. Every new state is a new file, so a state that was read after
    /// the file was sighted is still the present one as long as the file looks the same.
    pub fn sight_pipeline_state(&self, pipeline: &Path) -> StateSighting {
        let metadata = self.pipeline_path(&canonical(pipeline)).symlink_metadata();
        StateSighting(metadata.ok().map(|metadata| Stamp::of(&metadata)))
    }

    /// Writes the state of a pipeline, unless it is unchanged, so that it survives a power loss.
    pub fn save_pipeline_state(&self, state: &PipelineState) -> Result<(), StoreError> {
        let path = self.pipeline_path(&state.file);
        let writing = |e| StoreError::writing(&path, e);
        let text = sealed::encode(state).map_err(writing)?;
        if fs::read(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let temp = self.temp()?;
        let mut file = File::create(&temp).map_err(writing)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(writing)?;
        fs::rename(&temp, &path).map_err(writing)?;
        sync_directory_of(&path)
    }

    /// Returns the pipeline below a directory that was run last and whose file still exists. A cache that was copied, or that several
    /// projects share, also knows pipelines elsewhere.
    pub fn last_pipeline_file(&self, project: &Path) -> Option<PathBuf> {
        let mut newest = None;
        for entry in fs::read_dir(self.layout.pipelines()).ok()?.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            if modified > newest.as_ref().and_then(|(time, _)| *time)
                && let Ok(state) = sealed::read::<PipelineState>(&entry.path())
                && state.file.starts_with(project)
                && state.file.exists()
            {
                newest = Some((modified, state.file));
            }
        }
        newest.map(|(_, file)| file)
    }

    /// Returns the last keys of the pipelines that have this key among theirs.
    pub fn companions(&self, key: StageKey) -> BTreeSet<StageKey> {
        let entries = fs::read_dir(self.layout.pipelines()).into_iter().flatten().flatten();
        let states = entries.filter_map(|entry| sealed::read::<PipelineState>(&entry.path()).ok());
        let last = states.map(|state| state.last.into_values().collect::<BTreeSet<_>>());
        last.filter(|keys| keys.contains(&key)).flatten().collect()
    }

    /// Remembers that this pipeline was run last, if its state has not changed.
    pub fn mark_as_last(&self, state: &PipelineState) -> Result<(), StoreError> {
        let path = self.pipeline_path(&state.file);
        match File::options().write(true).open(&path) {
            Ok(file) => file
                .set_modified(std::time::SystemTime::now())
                .map_err(|error| StoreError::writing(&path, error)),
            Err(_) => self.save_pipeline_state(state),
        }
    }

    pub(super) fn pipeline_path(&self, file: &Path) -> PathBuf {
        self.layout.pipeline(Digest::of(file.as_os_str().as_encoded_bytes()))
    }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_state_is_found_by_any_spelling_of_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let file = dir.path().join("pipeline.yaml");
        fs::write(&file, "").unwrap();
        let mut state = store.pipeline_state(&file);
        assert!(state.last.is_empty() && state.placed.is_empty());
        state.last.insert("train[adaptive,seed=1]".into(), key("train"));
        state.placed.insert("results/table.tex".into(), BlobId::new(Digest::of(b"table")));
        store.save_pipeline_state(&state).unwrap();
        let spelled = dir.path().join("cache/../pipeline.yaml");
        assert_eq!(store.pipeline_state(&spelled), state);
        assert!(store.pipeline_state(&dir.path().join("other.yaml")).last.is_empty());
    }

    #[test]
    fn a_damaged_state_is_a_warning_and_starts_empty() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut state = store.pipeline_state(&dir.path().join("pipeline.yaml"));
        state.last.insert("a".into(), key("a"));
        store.save_pipeline_state(&state).unwrap();
        flip_bit(&store.pipeline_path(&state.file), 90);
        assert!(store.pipeline_state(&state.file).last.is_empty());
        assert_eq!(store.warnings().len(), 1);
        store.save_pipeline_state(&state).unwrap();
        assert_eq!(store.pipeline_state(&state.file), state);
    }

    #[test]
    fn a_directory_in_the_place_of_a_state_is_moved_to_the_trash() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let file = dir.path().join("pipeline.yaml");
        let path = store.pipeline_path(&store.pipeline_state(&file).file);
        fs::create_dir(&path).unwrap();
        assert!(store.read_pipeline_state(&file).unwrap().last.is_empty());
        assert_eq!(store.warnings().len(), 1);
        assert!(!path.exists(), "nobody has to remove it");
    }
}
