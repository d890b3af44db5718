//! The directories of jobs on a cluster: `jobs/<stage key>/<number>/`. The files in them belong to `runner::cluster`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Store;
use super::error::StoreError;
use super::session::remove_tree;
use pipe_core::digest::StageKey;

impl Store {
    /// Returns the directories of the jobs for a key, oldest first.
    pub fn job_directories(&self, key: StageKey) -> Result<Vec<PathBuf>, StoreError> {
        let mut found: Vec<(u32, PathBuf)> = Vec::new();
        for path in list(&self.layout.jobs(key))? {
            let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            found.extend(number.map(|number| (number, path)));
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// Returns every key that has a directory for jobs.
    pub fn keys_with_jobs(&self) -> Result<Vec<StageKey>, StoreError> {
        let found = list(&self.layout.all_jobs())?;
        let mut keys: Vec<StageKey> =
            found.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Creates the directory of a new job for a key. The caller holds the key.
    pub fn new_job_directory(&self, key: StageKey) -> Result<PathBuf, StoreError> {
        self.session()?;
        let parent = self.layout.jobs(key);
        fs::create_dir_all(&parent).map_err(|e| StoreError::writing(&parent, e))?;
        let last = self.job_directories(key)?.pop();
        let last: u32 = last.and_then(|last| last.file_name()?.to_str()?.parse().ok()).unwrap_or(0);
        let path = parent.join((last + 1).to_string());
        fs::create_dir(&path).map_err(|e| StoreError::writing(&path, e))?;
        Ok(path)
    }

    /// Removes the directories of the jobs for a key. A copy of a job that still runs there ends itself.
    pub fn remove_job_directories(&self, key: StageKey) {
        // What is left, for example because a network file system keeps open files, is removed by garbage collection.
        let _ = remove_tree(&self.layout.jobs(key));
    }

    /// Returns the directory with the checkpoints of a key, whether or not it exists.
    pub fn checkpoints_of(&self, key: StageKey) -> PathBuf {
        self.layout.checkpoints(key)
    }

    /// Returns whether there is a manifest for a key, which may be damaged.
    pub fn has_manifest(&self, key: StageKey) -> bool {
        self.layout.action(key).exists()
    }
}

/// Returns the paths in a directory; none if it does not exist.
fn list(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let reading = |e| StoreError::reading(directory, e);
    match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(reading(error)),
        Ok(entries) => entries.map(|entry| Ok(entry.map_err(reading)?.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::GcRequest;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_directories_of_jobs_are_numbered_and_are_garbage_once_there_is_a_result() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        for number in ["1", "2"] {
            let made = store.new_job_directory(key("a")).unwrap();
            assert!(made.ends_with(number), "{}", made.display());
        }
        store.new_job_directory(key("b")).unwrap();
        assert_eq!(store.job_directories(key("a")).unwrap().len(), 2);
        assert_eq!(store.job_directories(key("c")).unwrap(), [""; 0].map(PathBuf::from));
        commit_text(&store, "a", "result");
        let request = GcRequest { dry_run: false, min_age: Duration::ZERO, ..GcRequest::default() };
        store.collect_garbage(&request).unwrap();
        assert_eq!(store.keys_with_jobs().unwrap(), [key("b")], "it may still run");
        store.remove_job_directories(key("b"));
        assert!(store.keys_with_jobs().unwrap().is_empty());
    }
}
