//! What each pipeline file last gave: the memory of `pipe why`, and the roots of garbage collection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Store;
use super::error::StoreError;
use super::sealed::{self, Unsealed};
use crate::digest::{BlobId, Digest, StageKey};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineState {
    /// The pipeline file's canonical path.
    pub file: PathBuf,
    /// The key that each instance last had, by its name.
    pub last: BTreeMap<String, StageKey>,
    /// What was last placed at each path outside the store.
    pub placed: BTreeMap<String, BlobId>,
}

impl Store {
    /// Empty if the pipeline was never run, or if its record is damaged.
    pub fn pipeline_state(&self, pipeline: &Path) -> PipelineState {
        let file = canonical(pipeline);
        let path = self.pipeline_path(&file);
        match sealed::read::<PipelineState>(&path) {
            Ok(state) if state.file == file => return state,
            Ok(_) | Err(Unsealed::Missing) => {}
            Err(Unsealed::Damaged(flaw)) => {
                self.discard(&path);
                let name = file.display();
                self.warn(format!("the record of what {name} last gave is damaged: {flaw}"));
            }
        }
        PipelineState { file, last: BTreeMap::new(), placed: BTreeMap::new() }
    }

    pub fn save_pipeline_state(&self, state: &PipelineState) -> Result<(), StoreError> {
        let path = self.pipeline_path(&state.file);
        let text = sealed::encode(state).map_err(|e| StoreError::writing(&path, e))?;
        if std::fs::read(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        self.write(&path, &text)
    }

    pub(super) fn pipeline_path(&self, file: &Path) -> PathBuf {
        self.layout.pipeline(Digest::of(file.as_os_str().as_encoded_bytes()))
    }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
