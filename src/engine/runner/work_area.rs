//! The directories in which a stage runs: a working directory and a temporary directory.
//!
//! They are new for every attempt. If they were emptied and used again, a process that an earlier stage left behind and that
//! cannot be ended (see `descendants`) would write into the directory of the next one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::{Scratch, Store};

/// The directories of one attempt. They are removed when this is dropped.
#[derive(Debug)]
pub(super) struct WorkArea(Scratch);

impl WorkArea {
    /// Creates the directories, or returns a sentence if that fails.
    pub(super) fn new(store: &Store) -> Result<Self, String> {
        let scratch = store.scratch().map_err(|error| error.to_string())?;
        for name in ["work", "tmp"] {
            fs::create_dir(scratch.join(name))
                .map_err(|error| format!("could not make directories in `{}`: {error}", scratch.display()))?;
        }
        Ok(Self(scratch))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the working directory.
    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }
}
