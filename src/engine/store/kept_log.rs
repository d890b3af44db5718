//! What failed stages printed, kept with the run that they failed in. A stage that succeeds has
//! its output in its manifest.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Store;
use super::error::StoreError;

impl Store {
    /// Keeps a copy of `from`, which the failed `instance` wrote to `stream`, with the run.
    pub fn keep_log(&self, run: &str, instance: &str, stream: &str, from: &Path) -> Result<(), StoreError> {
        let to = self.log_path(run, instance, stream);
        match fs::copy(from, &to) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::writing(&to, error)),
        }
    }

    /// What a failed instance wrote in a run, if anything was kept.
    pub fn kept_log(&self, run: &str, instance: &str, stream: &str) -> Option<Vec<u8>> {
        fs::read(self.log_path(run, instance, stream)).ok()
    }

    fn log_path(&self, run: &str, instance: &str, stream: &str) -> PathBuf {
        let name = instance.replace('/', "%2F");
        self.layout.runs().join(run).join(format!("{name}.{stream}"))
    }
}
