//! Garbage collection: removes what no pipeline needs any more.
//!
//! It keeps the last results of registered pipelines, as long as the pipeline file exists; results that are younger
//! than a minimum age; and every blob that one of these refers to. The rest is moved to the trash, under its old name,
//! and deleted when the grace period is over.
//!
//! Every open store holds `locks/gc` shared. Moving files needs it exclusively, so no run can lose a result that it has
//! just found or is about to refer to.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use serde::Serialize;

use super::Store;
use super::error::{Flaw, StoreError};
use super::layout::{id_of_blob, key_of_action};
use super::lock::FileLock;
use super::package_directory::READY;
use super::pipeline_state::PipelineState;
use super::sealed::{self, Unsealed};
use super::session::{Session, delete, remove_tree, time_of};
use super::stamp::{self, Stamp};
use super::usage::{Count, count, files};
use pipe_core::digest::{BlobId, StageKey};

/// What to collect.
#[derive(Debug, Clone)]
pub struct GcRequest {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Younger results are kept whether or not a pipeline needs them.
    pub min_age: Duration,
    /// How long discarded files stay in the trash, and checkpoints of a key that no pipeline has and unused packages in the
    /// store.
    pub grace: Duration,
    /// How many run logs to keep.
    pub keep_runs: usize,
}

impl Default for GcRequest {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self { dry_run: true, min_age: HOUR, grace: 7 * 24 * HOUR, keep_runs: 100 }
    }
}

/// What was moved to the trash, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    pub dry_run: bool,
    /// Results and blobs that stay.
    pub kept: Count,
    pub results: Count,
    pub blobs: Count,
    pub checkpoints: Count,
    /// Installations of packages that no command has used during the grace period.
    pub packages: Count,
    pub runs: Count,
    /// Records of pipelines whose file is gone.
    pub pipelines: Count,
    /// Files that were deleted from the trash for good.
    pub purged: Count,
}

impl Store {
    /// Collects garbage. Takes the store mutably because no claim, and nothing else that borrows from it, may be open.
    pub fn collect_garbage(&mut self, request: &GcRequest) -> Result<GcReport, StoreError> {
        if request.dry_run {
            let mut report = GcReport { dry_run: true, ..self.garbage(request)?.report };
            report.purged = self.purge_trash(request)?;
            return Ok(report);
        }
        // First, because moving files to the trash needs room for directories.
        let purged = self.purge_trash(request)?;
        let session = self.session()?;
        session.alone(&self.layout, || {
            let garbage = self.garbage(request)?;
            for path in &garbage.paths {
                self.remove(session, path, request.grace)?;
            }
            self.remove_stale_locks();
            Ok(GcReport { purged, ..garbage.report })
        })
    }

    /// Moves a file to the trash, or deletes it if it may not stay there or if the disk has no room for that.
    fn remove(&self, session: &Session, path: &Path, grace: Duration) -> Result<(), StoreError> {
        if !grace.is_zero() {
            match session.discard(&self.layout, path) {
                Err(StoreError::Full { .. }) => {}
                result => return result,
            }
        }
        delete(path).map_err(|e| StoreError::writing(path, e))
    }

    fn garbage(&self, request: &GcRequest) -> Result<Garbage, StoreError> {
        let mut garbage = Garbage::default();
        let roots = self.roots(&mut garbage)?;
        let old = |metadata: &Metadata, age: Duration| {
            let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
            // The modification time of a blob is always the same; see `stamp`.
            Stamp::of(metadata).changed < stamp::now().saturating_sub(age)
        };

        let mut needed = BTreeSet::new();
        for (path, metadata) in files(&self.layout.actions())? {
            let Some(key) = key_of_action(&path) else { continue };
            if old(&metadata, request.min_age) && !roots.contains(&key) {
                garbage.report.results.add(metadata.len());
                garbage.paths.push(path);
            } else {
                garbage.report.kept.add(metadata.len());
                self.mark(key, &mut needed)?;
            }
        }
        for (path, metadata) in files(&self.layout.blobs())? {
            let Some(id) = id_of_blob(&path) else { continue };
            if old(&metadata, request.min_age) && !needed.contains(&id) {
                garbage.report.blobs.add(metadata.len());
                garbage.paths.push(path);
            } else {
                garbage.report.kept.add(metadata.len());
            }
        }
        for path in entries(&self.layout.all_checkpoints())? {
            let key = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(key) = key else { continue };
            let metadata = path.metadata().map_err(|e| StoreError::reading(&path, e))?;
            let unused = old(&metadata, request.grace.max(request.min_age)) && !roots.contains(&key);
            // A process that was killed just after its commit leaves a checkpoint that nobody continues from.
            if unused || self.layout.action(key).exists() {
                garbage.report.checkpoints += Count { items: 1, bytes: count(&path)?.bytes };
                garbage.paths.push(path);
            }
        }
        for key in self.keys_with_jobs()? {
            // Its heartbeat changes the directory of a job that runs.
            let last = self.job_directories(key)?.pop().and_then(|job| job.metadata().ok());
            let unused = last.is_none_or(|job| old(&job, request.grace.max(request.min_age)));
            if unused || self.has_manifest(key) {
                garbage.paths.push(self.layout.jobs(key));
            }
        }
        for path in entries(&self.layout.all_packages())? {
            let last_use = path.join(READY).metadata().or_else(|_| path.metadata());
            let last_use = last_use.map_err(|e| StoreError::reading(&path, e))?;
            if old(&last_use, request.grace.max(request.min_age)) {
                garbage.report.packages += Count { items: 1, bytes: count(&path)?.bytes };
                garbage.paths.push(path);
            }
        }
        for run in self.runs()?.into_iter().skip(request.keep_runs) {
            garbage.report.runs.add(run.bytes);
            garbage.paths.push(self.layout.runs().join(run.id));
        }
        Ok(garbage)
    }

    /// Returns the keys that registered pipelines need. The states of pipelines whose file is gone are garbage.
    fn roots(&self, garbage: &mut Garbage) -> Result<BTreeSet<StageKey>, StoreError> {
        let mut roots = BTreeSet::new();
        for (path, metadata) in files(&self.layout.pipelines())? {
            match sealed::read::<PipelineState>(&path) {
                Ok(state) if state.file.exists() => roots.extend(state.last.into_values()),
                Ok(_) => {
                    garbage.report.pipelines.add(metadata.len());
                    garbage.paths.push(path);
                }
                Err(_) => {
                    let problem = "it records what a pipeline needs, but it is damaged, so nothing can be \
                        removed safely; repair the cache (`pipe cache fsck`) first";
                    return Err(StoreError::unusable(&path, problem));
                }
            }
        }
        Ok(roots)
    }

    /// Adds the blobs of a result to those that are needed. A result that cannot be read at the moment is an error, because
    /// its blobs would be removed.
    fn mark(&self, key: StageKey, needed: &mut BTreeSet<BlobId>) -> Result<(), StoreError> {
        let manifest = match self.read_manifest(key) {
            Ok(manifest) => manifest,
            Err(Unsealed::Missing | Unsealed::Damaged(_)) => return Ok(()),
            Err(Unsealed::Foreign(flaw)) => {
                let problem = format!(
                    "it was written by another version of `pipe`, so this one does not know what it needs ({flaw}); \
                     collect garbage with that version"
                );
                return Err(StoreError::unusable(&self.layout.action(key), problem));
            }
            Err(Unsealed::Unreadable(error)) => {
                return Err(StoreError::reading(&self.layout.action(key), error));
            }
        };
        for stored in manifest.stored() {
            if needed.insert(stored.blob) && stored.directory {
                match self.peek_tree(stored.blob) {
                    Ok(tree) => needed.extend(tree.files().map(|(_, blob, _)| blob)),
                    Err(Flaw::Unreadable(error)) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Removes the lock files of processes that died. Their keys can be claimed in any case.
    fn remove_stale_locks(&self) {
        for path in entries(&self.layout.locks()).unwrap_or_default() {
            if path != self.layout.gc_lock() {
                drop(FileLock::try_acquire(&path));
            }
        }
    }

    fn purge_trash(&self, request: &GcRequest) -> Result<Count, StoreError> {
        let mut purged = Count::default();
        for path in entries(&self.layout.trash())? {
            // The clock may have been wrong: what was discarded in the future has just been discarded.
            let age = |time| jiff::Timestamp::now().duration_since(time).max(SignedDuration::ZERO);
            if time_of(&path).is_some_and(|time| age(time).unsigned_abs() >= request.grace) {
                purged += count(&path)?;
                if !request.dry_run {
                    remove_tree(&path).map_err(|e| StoreError::writing(&path, e))?;
                }
            }
        }
        Ok(purged)
    }
}

#[derive(Default)]
struct Garbage {
    report: GcReport,
    paths: Vec<PathBuf>,
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries.map_err(|e| StoreError::reading(directory, e))?;
            Ok(entries.flatten().map(|entry| entry.path()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// `used` is the last result of the pipeline, `unused` is not. Each has a file of its own, and they share the others.
    struct Setting {
        dir: tempfile::TempDir,
        store: Store,
        pipeline: PathBuf,
    }

    fn setting() -> Setting {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let pipeline = dir.path().join("pipeline.yaml");
        fs::write(&pipeline, "").unwrap();
        for name in ["used", "unused"] {
            commit(&store, name, |out| {
                make_tree(out);
                fs::write(out.join("own"), name).unwrap();
            });
        }
        let mut state = store.pipeline_state(&pipeline);
        state.last.insert("stage".into(), key("used"));
        store.save_pipeline_state(&state).unwrap();
        Setting { dir, store, pipeline }
    }

    fn now(request: GcRequest) -> GcRequest {
        std::thread::sleep(Duration::from_millis(20));
        GcRequest { dry_run: false, min_age: Duration::ZERO, ..request }
    }

    #[test]
    fn results_that_a_pipeline_needs_are_kept_and_the_rest_goes_to_the_trash() {
        let mut s = setting();
        let report = s.store.collect_garbage(&now(GcRequest::default())).unwrap();
        assert_eq!((report.results.items, report.blobs.items), (1, 2), "its manifest, listing and own file");
        assert!(hit(&s.store, "used").is_some());
        assert!(matches!(s.store.lookup(&key("unused")), crate::store::Lookup::Miss));
        assert_eq!(s.store.usage().unwrap().trash.items, 3);
        assert_eq!(s.store.check(false).unwrap().problems, []);
        assert_eq!(s.store.check(false).unwrap().orphans, Count::default());
        assert_eq!(s.store.warnings(), [""; 0]);
    }

    #[test]
    fn the_trash_can_be_put_back_until_the_grace_period_ends() {
        let mut s = setting();
        s.store.collect_garbage(&now(GcRequest::default())).unwrap();
        let base = s.dir.path().join("cache/v2");
        let trash = entries(&base.join("trash")).unwrap().remove(0);
        let copied = std::process::Command::new("cp").arg("-rT").arg(&trash).arg(&base).status().unwrap();
        assert!(copied.success());
        assert!(hit(&s.store, "unused").is_some());

        let purged =
            s.store.collect_garbage(&now(GcRequest { grace: Duration::ZERO, ..GcRequest::default() }));
        assert!(purged.unwrap().purged.items >= 3);
        assert_eq!(s.store.usage().unwrap().trash, Count::default());
        assert!(hit(&s.store, "used").is_some() && hit(&s.store, "unused").is_none());
    }

    #[test]
    fn a_wrong_clock_does_not_empty_the_trash() {
        let mut s = setting();
        let discarded = s.dir.path().join("cache/v2/trash/29990101T000000Z-1a2b3c4d");
        fs::create_dir(&discarded).unwrap();
        s.store.collect_garbage(&now(GcRequest::default())).unwrap();
        assert!(discarded.exists());
    }

    #[test]
    fn a_full_disk_can_be_cleaned() {
        for grace in [Duration::ZERO, Duration::from_secs(3600)] {
            let Some(disk) = SmallDisk::mount("4m,nr_inodes=200") else { return };
            let mut store = Store::open(&disk.path().join("cache")).unwrap();
            commit_text(&store, "a", "text");
            let old = disk.path().join("cache/v2/trash/20200101T000000Z-1a2b3c4d");
            fs::create_dir(&old).unwrap();
            // An inode less is as good as a block less: nothing can be created.
            let fill = || (0..).find(|i| fs::write(disk.path().join(format!("fill {i}")), "").is_err());
            fill();
            let report = store.collect_garbage(&now(GcRequest { grace, ..GcRequest::default() })).unwrap();
            assert_eq!((report.results.items, report.blobs.items), (1, 1));
            assert!(hit(&store, "a").is_none());
            assert!(!old.exists(), "the old trash goes first");
        }
    }

    #[test]
    fn a_dry_run_reports_the_same_and_changes_nothing() {
        let mut s = setting();
        let request = now(GcRequest::default());
        let dry = s.store.collect_garbage(&GcRequest { dry_run: true, ..request.clone() }).unwrap();
        assert!(hit(&s.store, "unused").is_some());
        assert_eq!(s.store.usage().unwrap().trash, Count::default());
        let wet = s.store.collect_garbage(&request).unwrap();
        assert_eq!(GcReport { dry_run: false, ..dry }, wet);
    }

    #[test]
    fn young_results_are_kept() {
        let mut s = setting();
        let request = GcRequest { dry_run: false, ..GcRequest::default() };
        let report = s.store.collect_garbage(&request).unwrap();
        assert_eq!((report.results, report.blobs), (Count::default(), Count::default()));
        assert!(hit(&s.store, "unused").is_some());
    }

    #[test]
    fn a_pipeline_whose_file_is_gone_needs_nothing() {
        let mut s = setting();
        fs::remove_file(&s.pipeline).unwrap();
        let report = s.store.collect_garbage(&now(GcRequest::default())).unwrap();
        assert_eq!((report.pipelines.items, report.results.items, report.kept.items), (1, 2, 0));
    }

    #[test]
    fn a_store_in_use_is_left_alone() {
        let mut s = setting();
        let other = Store::open(&s.dir.path().join("cache")).unwrap();
        let busy = s.store.collect_garbage(&now(GcRequest::default()));
        assert!(matches!(busy, Err(StoreError::Busy { .. })));
        assert!(hit(&other, "unused").is_some());
        drop(other);
        s.store.collect_garbage(&now(GcRequest::default())).unwrap();
        assert!(hit(&s.store, "unused").is_none());
        Store::open(&s.dir.path().join("cache")).expect("others may come in again");
    }

    #[test]
    fn nothing_is_removed_while_a_pipeline_state_is_unreadable() {
        let mut s = setting();
        let record = s.store.pipeline_path(&s.store.pipeline_state(&s.pipeline).file);
        flip_bit(&record, 80);
        assert!(s.store.collect_garbage(&now(GcRequest::default())).is_err());
        assert!(hit(&s.store, "used").is_some());
        s.store.check(true).unwrap();
        assert!(s.store.collect_garbage(&now(GcRequest::default())).is_ok());
    }

    #[test]
    fn old_runs_old_checkpoints_and_stale_locks_are_removed() {
        let mut s = setting();
        for _ in 0..3 {
            s.store.new_run().unwrap().finish(&"done").unwrap();
        }
        let mut state = s.store.pipeline_state(&s.pipeline);
        state.last.insert("unfinished".into(), key("unfinished"));
        s.store.save_pipeline_state(&state).unwrap();
        for name in ["used", "unused", "unfinished"] {
            let checkpoints = s.store.layout.checkpoints(key(name));
            fs::create_dir(&checkpoints).unwrap();
            fs::write(checkpoints.join("epoch-1"), "12345").unwrap();
        }
        fs::write(s.store.layout.key_lock(key("unused")), "").unwrap();
        let request = GcRequest { grace: Duration::ZERO, keep_runs: 1, ..GcRequest::default() };
        let report = s.store.collect_garbage(&now(request)).unwrap();
        assert_eq!((report.runs.items, s.store.runs().unwrap().len()), (2, 1));
        assert_eq!(report.checkpoints, Count { items: 2, bytes: 10 });
        assert!(s.store.layout.checkpoints(key("unfinished")).exists());
        assert!(!s.store.layout.checkpoints(key("used")).exists(), "it has a result");
        assert!(!s.store.layout.key_lock(key("unused")).exists());
    }
}
