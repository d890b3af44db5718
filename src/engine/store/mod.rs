//! Everything under `cache/`. This is the only module that opens files there. It never prints: problems that it
//! could repair are collected in [`Store::warnings`].
//!
//! Guarantees:
//! - **One commit point.** Blobs are in place before the manifest that names them is renamed into place, and only
//!   manifests are looked up. A process that is killed at any moment leaves a store that the next process can use as
//!   it is.
//! - **Nothing is trusted that does not match its digest.** A blob is named by its content; manifests and pipeline
//!   states carry a checksum. A file that does not match is moved to the trash, and the caller sees a miss.
//! - **Only results that took long are flushed.** Results of stages that took a second or more are flushed (fsync)
//!   before they count. A power loss may tear the results of shorter stages; the checksums notice, and the stages run
//!   again. Flushing each small result would take three times the CPU and at least five times the wall time
//!   (0.35 -> 1.2 ms and 2 -> 15 ms per commit, measured on ext4). `stat_cache` explains why a remembered digest
//!   cannot hide a torn file.

mod blob;
mod checkout;
mod checksums;
mod claim;
mod error;
mod fsck;
mod gc;
mod hash;
mod job_directories;
mod kept_log;
mod layout;
mod lock;
pub mod manifest;
mod outside;
mod package_directory;
mod pipeline_state;
mod placed_mark;
mod run_log;
mod sealed;
mod session;
mod stamp;
mod stat_cache;
mod summary;
mod threads;
mod trail;
mod transfer;
mod tree;
mod usage;
mod user_file;
mod walk;

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

pub use checkout::Seen;
pub use checksums::{B3SUMS, Confirmation};
pub use claim::{Claim, Lookup, WriteRight};
pub use error::StoreError;
pub use fsck::{FsckReport, FsckRequest, StoreProblem, Subset};
pub use gc::{GcReport, GcRequest};
pub use manifest::Draft;
pub use outside::{TemporaryDirectory, remove_leftovers, write_atomically};
pub use package_directory::{Installation, PackageDirectory};
pub use pipeline_state::{FailedAttempt, Origin, PipelineState, StateSighting};
pub use placed_mark::is_marked;
pub use run_log::{RunLog, RunRecord};
pub use summary::ResultSummary;
pub use transfer::Condition;
pub use usage::{Count, Listed, StoreUsage};
pub use user_file::UserFile;

use layout::Layout;
use pipe_core::digest::Digest;
pub use session::Scratch;
use session::{Session, Temp};
use stat_cache::StatCache;

/// An open store. Threads share it by reference.
pub struct Store {
    layout: Layout,
    stats: StatCache<Digest>,
    summaries: StatCache<ResultSummary>,
    warnings: Mutex<Warnings>,
    /// None if the store was opened for reading only.
    session: Option<Session>,
    /// The store whose packages are used, if it is another one.
    packages_of: Option<Layout>,
    /// The directory of the store, opened when the first stamp is asked for.
    base_directory: OnceLock<Option<File>>,
}

#[derive(Default)]
struct Warnings {
    given: Vec<String>,
    waiting: Vec<String>,
}

impl Store {
    /// Opens the store in `root` for reading and writing, and creates it if there is none.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(root).map_err(|e| match StoreError::writing(root, e) {
            StoreError::Io { path, source, .. } => StoreError::NotWritable { path, source },
            other => other,
        })?;
        let root = root.canonicalize().map_err(|e| StoreError::reading(root, e))?;
        let layout = Layout::new(root);
        let session = Some(Session::begin(&layout)?);
        Ok(Self::new(layout, session))
    }

    /// Opens the store in `root` without writing anything. A store that does not exist looks empty.
    pub fn open_read_only(root: &Path) -> Result<Self, StoreError> {
        let absolute = std::path::absolute(root).map_err(|e| StoreError::reading(root, e))?;
        Ok(Self::new(Layout::new(absolute.canonicalize().unwrap_or(absolute)), None))
    }

    /// Opens a store that exists, from a job on a cluster. Nothing is locked: the process that submitted the job holds the
    /// key. Temporary files are made below `temporary`.
    pub fn open_in_job(root: &Path, temporary: &Path) -> Result<Self, StoreError> {
        let root = root.canonicalize().map_err(|e| StoreError::reading(root, e))?;
        Ok(Self::new(Layout::new(root), Some(Session::without_locks(temporary)?)))
    }

    fn new(layout: Layout, session: Option<Session>) -> Self {
        let stats = StatCache::new(layout.stat_cache());
        let summaries = StatCache::new(layout.summaries());
        let (warnings, base_directory) = (Mutex::default(), OnceLock::new());
        Self { layout, stats, summaries, warnings, session, packages_of: None, base_directory }
    }

    /// Returns whether there is a store. One that was opened for reading may not exist.
    pub fn exists(&self) -> bool {
        self.layout.base().is_dir()
    }

    /// Returns the directory that the store was opened with.
    pub fn root(&self) -> &Path {
        self.layout.root()
    }

    /// Returns the damage that was noticed since the last call. Each warning is returned once.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut warnings.waiting);
        warnings.given.extend_from_slice(&waiting);
        waiting
    }

    fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.given.contains(&text) && !warnings.waiting.contains(&text) {
            warnings.waiting.push(text);
        }
    }

    fn session(&self) -> Result<&Session, StoreError> {
        self.session.as_ref().ok_or_else(|| StoreError::ReadOnly { root: self.root().to_owned() })
    }

    /// Creates an empty directory on the file system of the store. It is removed when it is dropped, or when the next
    /// process opens the store.
    pub fn scratch(&self) -> Result<Scratch, StoreError> {
        let path = self.session()?.temp(&self.layout)?;
        std::fs::create_dir(&path).map_err(|e| StoreError::writing(&path, e))?;
        Ok(Scratch(path))
    }

    fn temp(&self) -> Result<Temp, StoreError> {
        self.session()?.temp(&self.layout).map(Temp)
    }

    /// Moves a damaged file to the trash, if the store may be written to, so that it is not found again. Returns whether it
    /// did.
    fn discard(&self, path: &Path) -> bool {
        let Some(session) = &self.session else { return false };
        let discarded = session.discard(&self.layout, path);
        if let Err(error) = &discarded {
            self.warn(error.to_string());
        }
        discarded.is_ok()
    }

    /// Writes a small file atomically.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        let temp = self.temp()?;
        let written = std::fs::write(&temp, content).and_then(|()| std::fs::rename(&temp, path));
        written.map_err(|e| StoreError::writing(path, e))
    }
}

impl Drop for Store {
    /// Saves what was learned about files. A failure only costs time, so it is ignored.
    fn drop(&mut self) {
        if self.session.is_none() {
            return;
        }
        if self.stats.has_news()
            && let Ok(temp) = self.temp()
        {
            let _ = self.stats.save(&temp);
        }
        if self.summaries.has_news()
            && let Ok(temp) = self.temp()
        {
            let _ = self.summaries.save(&temp);
        }
    }
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use std::fs;

    #[test]
    fn a_store_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Store>();
        shared::<WriteRight<'_>>();
    }

    #[test]
    fn files_beside_the_store_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("README.md"), "mine").unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        commit_text(&store, "a", "text");
        store.check(true).unwrap();
        store.collect_garbage(&GcRequest { dry_run: false, ..GcRequest::default() }).unwrap();
        drop(store);
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["README.md", "v2"]);
        assert_eq!(fs::read_to_string(dir.path().join("README.md")).unwrap(), "mine");
    }

    #[test]
    fn a_store_opened_for_reading_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = Store::open_read_only(&dir.path().join("none")).unwrap();
        assert!(matches!(nowhere.lookup(&key("a")), Lookup::Miss));
        assert_eq!(nowhere.list().unwrap(), []);
        assert!(nowhere.runs().unwrap().is_empty());
        assert_eq!(nowhere.usage().unwrap(), StoreUsage::default());
        drop(nowhere);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_read_only_disk_can_be_read_and_says_why_it_cannot_be_written() {
        let Some(disk) = SmallDisk::mount("1m") else { return };
        let written = commit_text(&Store::open(disk.path()).unwrap(), "a", "text");
        disk.make_read_only();

        let error = Store::open(disk.path()).err().expect("nothing can be written").to_string();
        for part in ["cannot write to", "Read-only file system", "--cache-dir", "PIPE_CACHE"] {
            assert!(error.contains(part), "{error}");
        }
        let store = Store::open_read_only(disk.path()).unwrap();
        assert_eq!(hit(&store, "a"), Some(written.clone()));
        assert_eq!(store.read(&written.outputs["out"]).unwrap(), b"text");
        assert!(matches!(store.try_claim(&key("b")), Err(StoreError::ReadOnly { .. })));
        assert!(matches!(store.new_run(), Err(StoreError::ReadOnly { .. })));
        let error = Store::open(&disk.path().join("new")).err().expect("nothing can be made").to_string();
        assert!(error.contains("PIPE_CACHE"), "{error}");
    }

    #[test]
    fn a_full_disk_is_reported_and_the_store_stays_usable() {
        let Some(disk) = SmallDisk::mount("512k") else { return };
        let store = Store::open(disk.path()).unwrap();
        let kept = commit_text(&store, "kept", "text");

        let right = claim(&store, "large");
        let scratch = store.scratch().unwrap();
        let [out, other] = ["out", "other"].map(|name| scratch.join(name));
        fs::write(&out, vec![7; 100_000]).unwrap();
        fs::hard_link(&out, &other).unwrap();
        let _ = fs::write(scratch.join("filler"), vec![0; 400_000]);
        let outputs = [("out".to_owned(), out)].into();
        let error = right.commit(Draft { outputs, ..draft("large") }).unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&disk.path().display().to_string()) && text.contains("free"), "{text}");

        assert_eq!(hit(&store, "kept"), Some(kept.clone()));
        assert!(hit(&store, "large").is_none());
        drop(scratch);
        assert_eq!(store.usage().unwrap().temporary.items, 1, "only the owner's lock is left");
        commit_text(&store, "large", "smaller");
        drop(store);
        let mut store = Store::open(disk.path()).unwrap();
        assert_eq!(hit(&store, "kept"), Some(kept));
        assert!(hit(&store, "large").is_some());
        assert_eq!(store.check(false).unwrap().problems, []);
    }

    #[test]
    fn a_file_where_the_cache_should_be_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = Store::open(&dir.path().join("file")).err().expect("it is a file").to_string();
        assert!(error.contains("file`"), "{error}");
    }

    #[test]
    fn each_warning_is_returned_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let manifest = commit_text(&store, "a", "text");
        flip_bit(&store.layout.blob(manifest.outputs["out"].blob), 0);
        assert!(matches!(store.lookup(&key("a")), Lookup::Damaged(_)));
        assert_eq!(store.warnings().len(), 1);
        assert!(matches!(store.lookup(&key("a")), Lookup::Damaged(_)), "now the blob is missing");
        assert!(matches!(store.lookup(&key("a")), Lookup::Damaged(_)));
        assert_eq!(store.warnings().len(), 1);
        assert_eq!(store.warnings(), [""; 0]);
    }
}
