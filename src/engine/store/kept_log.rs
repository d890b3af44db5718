//! The output of failed stages, kept with the run in which they failed. The output of a stage that succeeds is in its
//! manifest.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Store;
use super::error::StoreError;

impl Store {
    /// Copies `from`, the output of a failed instance to `stream`, to the directory of the run.
    pub fn keep_log(&self, run: &str, instance: &str, stream: &str, from: &Path) -> Result<(), StoreError> {
        let to = self.log_path(run, instance, stream);
        match fs::copy(from, &to) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::writing(&to, error)),
        }
    }

    /// Returns what a failed instance printed to `stream` in a run, if it was kept.
    pub fn kept_log(&self, run: &str, instance: &str, stream: &str) -> Option<Vec<u8>> {
        fs::read(self.log_path(run, instance, stream)).ok()
    }

    fn log_path(&self, run: &str, instance: &str, stream: &str) -> PathBuf {
        let name = instance.replace('/', "%2F");
        self.layout.runs().join(run).join(format!("{name}.{stream}"))
    }
}
