//! Checks the store by reading files again, without trusting anything that is remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use super::Store;
use super::error::{StoreError, is_passing};
use super::layout::{id_of_blob, key_of_action};
use super::manifest::{Manifest, Stored};
use super::pipeline_state::PipelineState;
use super::run_log::{EVENTS, SUMMARY, flaw_of_run};
use super::sealed::{self, Unsealed};
use super::stamp;
use super::stat_cache::StatCache;
use super::threads::in_parallel;
use super::usage::{Count, files};
use super::user_file::read_and_hash;
use pipe_core::digest::BlobId;

/// What to check.
#[derive(Debug, Clone, Default)]
pub struct FsckRequest {
    /// Move damaged files to the trash.
    pub repair: bool,
    /// Read only the blobs of this part.
    pub subset: Option<Subset>,
    /// Begin to read no further blob after this time.
    pub budget: Option<Duration>,
}

/// One of `of` parts of about equal size, counted from 1. A blob always belongs to the same part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subset {
    pub part: u64,
    pub of: u64,
}

impl Subset {
    fn contains(self, id: BlobId) -> bool {
        let digest = id.digest();
        let number = digest.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        number % self.of == self.part - 1
    }
}

/// What a check of the store found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FsckReport {
    /// Whether damaged files were moved to the trash, so that the next run computes them again.
    pub repaired: bool,
    pub results: Count,
    pub blobs: Count,
    pub pipelines: Count,
    pub runs: Count,
    /// The blobs that were not read, because they are not in the subset or the time was over. They exist and have the right
    /// size, if a result refers to them.
    pub unread: Count,
    /// Blobs that had another content, or could not be read, only when they were read for the first time: a sign of a failing
    /// disk or memory.
    pub unsteady: Count,
    /// Undamaged blobs that no result refers to. Not a problem; garbage collection removes them.
    pub orphans: Count,
    /// How many of the problems are results that are sound themselves but refer to a damaged blob, which is a problem of its own.
    pub affected: usize,
    pub problems: Vec<StoreProblem>,
}

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreProblem {
    pub path: PathBuf,
    pub flaw: String,
}

impl Store {
    /// Hashes every blob again and checks everything that refers to one. With `repair`, damaged files are moved to the
    /// trash, which requires that no other process has the store open.
    pub fn check(&mut self, repair: bool) -> Result<FsckReport, StoreError> {
        self.check_some(&FsckRequest { repair, ..FsckRequest::default() })
    }

    /// Like [`Store::check`], but reads only as many blobs as requested.
    pub fn check_some(&mut self, request: &FsckRequest) -> Result<FsckReport, StoreError> {
        if !request.repair {
            return self.inspect(request);
        }
        let session = self.session()?;
        session.alone(&self.layout, || {
            let mut report = self.inspect(request)?;
            for problem in &report.problems {
                session.discard(&self.layout, &problem.path)?;
            }
            report.repaired = true;
            Ok(report)
        })
    }

    /// Replaces damaged and missing blobs that results need by what `fetch` gets for their ids and sizes; the size of
    /// a listing is not known. Returns how many. A check afterwards finds what is still damaged.
    pub fn replace_damaged(
        &self,
        report: &FsckReport,
        fetch: &mut dyn FnMut(BlobId, Option<u64>) -> bool,
    ) -> Result<usize, StoreError> {
        let session = self.session()?;
        let paths = || report.problems.iter().map(|problem| &problem.path);
        for path in paths().filter(|path| id_of_blob(path).is_some()) {
            session.discard(&self.layout, path)?;
        }
        let mut replaced = 0;
        let mut fetch_missing = |id: BlobId, bytes: Option<u64>| {
            replaced += usize::from(!self.has_blob(id) && fetch(id, bytes));
        };
        for manifest in paths().filter_map(|path| self.record(key_of_action(path)?)) {
            for stored in manifest.stored() {
                fetch_missing(stored.blob, (!stored.directory).then_some(stored.bytes));
                let listed = if stored.directory { self.files_of(stored).ok() } else { None };
                for (id, bytes) in listed.unwrap_or_default() {
                    fetch_missing(id, Some(bytes));
                }
            }
        }
        Ok(replaced)
    }

    fn inspect(&self, request: &FsckRequest) -> Result<FsckReport, StoreError> {
        let mut report = FsckReport::default();
        // Results first: the blobs that they refer to were there before them.
        let manifests = self.inspect_manifests(&mut report)?;
        let sound = self.inspect_blobs(request, &mut report)?;
        let bad: BTreeSet<BlobId> =
            report.problems.iter().filter_map(|problem| id_of_blob(&problem.path)).collect();
        let mut needed = BTreeSet::new();
        for (path, manifest) in manifests {
            for stored in manifest.stored() {
                if let Err((blob, flaw)) = self.inspect_stored(stored, &sound, &mut needed) {
                    report.affected += usize::from(bad.contains(&blob));
                    report.problem(&path, format!("the result of {}: {flaw}", manifest.instance));
                    break;
                }
            }
        }
        for (_, bytes) in sound.iter().filter(|(blob, _)| !needed.contains(blob)) {
            report.orphans.add(*bytes);
        }
        self.inspect_the_rest(&mut report)?;
        Ok(report)
    }

    fn inspect_manifests(
        &self,
        report: &mut FsckReport,
    ) -> Result<Vec<(PathBuf, Box<Manifest>)>, StoreError> {
        let mut manifests = Vec::new();
        for (path, metadata) in files(&self.layout.actions())? {
            report.results.add(metadata.len());
            match key_of_action(&path).filter(|key| self.layout.action(*key) == path) {
                None => report.problem(&path, "it is not a file of the store"),
                Some(key) => match self.read_manifest(key) {
                    Ok(manifest) => manifests.push((path, manifest)),
                    Err(Unsealed::Missing | Unsealed::Foreign(_)) => {}
                    Err(Unsealed::Damaged(flaw)) => report.problem(&path, flaw),
                    Err(Unsealed::Unreadable(error)) => return Err(StoreError::reading(&path, error)),
                },
            }
        }
        Ok(manifests)
    }

    /// Checks the blobs and returns the undamaged ones, and those that were not read, with their sizes.
    fn inspect_blobs(
        &self,
        request: &FsckRequest,
        report: &mut FsckReport,
    ) -> Result<BTreeMap<BlobId, u64>, StoreError> {
        let mut blobs = files(&self.layout.blobs())?;
        // Checks with a budget start at different places, so that together they read everything.
        let middle = stamp::now().unsigned_abs() as usize % blobs.len().max(1);
        blobs.rotate_left(middle);
        let deadline = request.budget.map(|budget| Instant::now() + budget);
        let inspect = |(path, metadata): &(PathBuf, Metadata)| {
            let Some(id) = id_of_blob(path).filter(|id| self.layout.blob(*id) == *path) else {
                return Ok(BlobState::Bad(path.clone(), "it is not a file of the store".into()));
            };
            if request.subset.is_some_and(|subset| !subset.contains(id))
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(BlobState::Unread(id, metadata.len()));
            }
            inspect_blob(id, path)
        };
        let inspected: Result<Vec<BlobState>, StoreError> =
            in_parallel(|| blobs.par_iter().map(inspect).collect(), || blobs.iter().map(inspect).collect());
        let mut present = BTreeMap::new();
        for state in inspected? {
            match state {
                BlobState::Sound(id, bytes) | BlobState::Unsteady(id, bytes) => {
                    report.blobs.add(bytes);
                    present.insert(id, bytes);
                    if matches!(state, BlobState::Unsteady(..)) {
                        report.unsteady.add(bytes);
                    }
                }
                BlobState::Unread(id, bytes) => {
                    report.unread.add(bytes);
                    present.insert(id, bytes);
                }
                BlobState::Bad(path, flaw) => {
                    report.blobs.items += 1;
                    report.problem(&path, flaw);
                }
            }
        }
        Ok(present)
    }

    fn inspect_stored(
        &self,
        stored: &Stored,
        sound: &BTreeMap<BlobId, u64>,
        needed: &mut BTreeSet<BlobId>,
    ) -> Result<(), (BlobId, String)> {
        let mut look = |blob: BlobId, bytes: Option<u64>| {
            needed.insert(blob);
            match sound.get(&blob) {
                None => Err((blob, format!("blob {} is missing or bad", blob.short()))),
                Some(size) if bytes.is_some_and(|bytes| bytes != *size) => {
                    Err((blob, format!("blob {} has another size", blob.short())))
                }
                Some(_) => Ok(()),
            }
        };
        if !stored.directory {
            return look(stored.blob, Some(stored.bytes));
        }
        look(stored.blob, None)?;
        let tree = self.peek_tree(stored.blob).map_err(|flaw| (stored.blob, flaw.to_string()))?;
        tree.files().try_for_each(|(_, blob, bytes)| look(blob, Some(bytes)))
    }

    fn inspect_the_rest(&self, report: &mut FsckReport) -> Result<(), StoreError> {
        for (path, metadata) in files(&self.layout.pipelines())? {
            report.pipelines.add(metadata.len());
            match sealed::read::<PipelineState>(&path) {
                Ok(state) if self.pipeline_path(&state.file) == path => {}
                Ok(_) => report.problem(&path, "it is the record of another pipeline"),
                Err(Unsealed::Missing) => {}
                Err(Unsealed::Damaged(flaw) | Unsealed::Foreign(flaw)) => report.problem(&path, flaw),
                Err(Unsealed::Unreadable(error)) => return Err(StoreError::reading(&path, error)),
            }
        }
        for run in self.runs()? {
            report.runs.add(run.bytes);
            let directory = self.layout.runs().join(&run.id);
            let flaw = match fs::read(directory.join(EVENTS)) {
                Ok(events) => flaw_of_run(&directory, &events),
                // A run that was killed before it wrote anything.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && !directory.join(SUMMARY).exists() =>
                {
                    None
                }
                Err(error) => Some(format!("its events cannot be read: {error}")),
            };
            if let Some(flaw) = flaw {
                report.problem(&directory, flaw);
            }
        }
        if !StatCache::is_sound(&self.layout.stat_cache()) {
            report.problem(&self.layout.stat_cache(), "its content does not match its checksum");
        }
        for (path, text) in self.layout.fixed_files() {
            if fs::read(&path).is_ok_and(|there| there != text.as_bytes()) {
                report.problem(&path, "it is not the text that belongs there");
            }
        }
        Ok(())
    }
}

enum BlobState {
    Sound(BlobId, u64),
    /// Sound when it was read for the second time.
    Unsteady(BlobId, u64),
    Unread(BlobId, u64),
    Bad(PathBuf, String),
}

/// Reads a blob, and again from the disk if it is not what it should be, before it is called bad.
fn inspect_blob(id: BlobId, path: &Path) -> Result<BlobState, StoreError> {
    let read = || match read_and_hash(path) {
        Ok(Some((digest, stamp))) if digest == id.digest() => Ok(Ok(stamp.size)),
        Ok(_) => Ok(Err("its content is not what its name says".to_owned())),
        Err(error) if is_passing(path, &error) => Err(StoreError::reading(path, error)),
        Err(error) => Ok(Err(format!("it cannot be read: {error}"))),
    };
    if let Ok(bytes) = read()? {
        return Ok(BlobState::Sound(id, bytes));
    }
    if let Ok(file) = File::open(path) {
        // Only a hint. Without it, memory would return the same wrong bytes again.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
    Ok(match read()? {
        Ok(bytes) => BlobState::Unsteady(id, bytes),
        Err(flaw) => BlobState::Bad(path.to_owned(), flaw),
    })
}

impl FsckReport {
    fn problem(&mut self, path: &Path, flaw: impl Into<String>) {
        self.problems.push(StoreProblem { path: path.to_owned(), flaw: flaw.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Claim, Draft};
    use super::*;

    /// A store with one of everything: a file, a directory, logs, a pipeline state, a finished run, a stat cache.
    fn make_store(root: &Path) {
        let store = Store::open(root).unwrap();
        make_results(&store);
        let mut state = store.pipeline_state(&root.join("pipeline.yaml"));
        state.last.extend(["file", "tree"].map(|name| (name.into(), key(name))));
        store.save_pipeline_state(&state).unwrap();
        let mut log = store.new_run().unwrap();
        log.append(&"an event").unwrap();
        log.finish(&"the end").unwrap();
    }

    /// Computes the results that are missing; they are always the same.
    fn make_results(store: &Store) {
        for name in ["file", "tree"] {
            if let Some(Claim::Miss(right)) = store.try_claim(&key(name)).unwrap() {
                let scratch = store.scratch().unwrap();
                let [out, stdout] = ["out", "stdout"].map(|file| scratch.join(file));
                if name == "tree" {
                    make_tree(&out);
                } else {
                    fs::write(&out, "some content").unwrap();
                }
                fs::write(&stdout, format!("{name} was made")).unwrap();
                let outputs = [("out".to_owned(), out)].into();
                right.commit(Draft { outputs, stdout: Some(stdout), ..draft(name) }).unwrap();
            }
        }
    }

    fn assert_right_bytes(store: &Store, name: &str, dir: &Path) {
        let Some(manifest) = hit(store, name) else { return };
        let stdout = store.read(&manifest.stdout.unwrap()).unwrap();
        assert_eq!(String::from_utf8(stdout).unwrap(), format!("{name} was made"));
        let out = store.artifact(&manifest.outputs["out"], dir).unwrap();
        if name == "file" {
            assert_eq!(fs::read_to_string(out).unwrap(), "some content");
        } else {
            assert_eq!(fs::read_to_string(out.join("plain")).unwrap(), "plain");
            assert_eq!(fs::read_to_string(out.join("twin")).unwrap(), "plain");
            assert_eq!(fs::read_to_string(out.join("run.sh")).unwrap(), "#!/bin/sh\necho ran\n");
        }
    }

    fn copy(from: &Path, to: &Path) {
        for (path, _) in files(from).unwrap() {
            let to = to.join(path.strip_prefix(from).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(path, to).unwrap();
        }
    }

    #[test]
    fn an_undamaged_store_has_no_problems() {
        let dir = tempfile::tempdir().unwrap();
        make_store(dir.path());
        let report = Store::open_read_only(dir.path()).unwrap().check(false).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.results.items, report.pipelines.items, report.runs.items), (2, 1, 1));
        assert_eq!(report.blobs.items, 7, "four contents, one listing, two logs");
        assert_eq!(report.orphans, Count::default());
    }

    #[test]
    fn a_flipped_bit_in_any_file_is_noticed_and_repaired() {
        let dir = fast_directory();
        let original = dir.path().join("original");
        make_store(&original);
        let mut flipped = 0;
        for (path, metadata) in files(&original).unwrap() {
            let path = path.strip_prefix(&original).unwrap();
            let length = metadata.len() as usize;
            for offset in BTreeSet::from([0, length / 2, length.saturating_sub(1)]) {
                if offset >= length {
                    continue;
                }
                let case = format!("{} at {offset}", path.display());
                flipped += 1;

                // A run never reads wrong bytes, and repairs the store.
                let root = dir.path().join(format!("run {flipped}"));
                copy(&original, &root);
                flip_bit(&root.join(path), offset);
                let store = Store::open(&root).unwrap();
                for name in ["file", "tree"] {
                    assert_right_bytes(&store, name, &root.join("views"));
                }
                make_results(&store);
                for name in ["file", "tree"] {
                    assert!(hit(&store, name).is_some(), "{case}: {name}");
                    assert_right_bytes(&store, name, &root.join("views"));
                }
                drop(store);

                // fsck notices the flipped bit, and repairs the store.
                let root = dir.path().join(format!("fsck {flipped}"));
                copy(&original, &root);
                flip_bit(&root.join(path), offset);
                let found = Store::open_read_only(&root).unwrap().check(false).unwrap();
                assert!(!found.problems.is_empty(), "{case}");
                let mut store = Store::open(&root).unwrap();
                assert!(store.check(true).unwrap().repaired);
                make_results(&store);
                assert_eq!(store.check(false).unwrap().problems, [], "{case}");
            }
        }
        assert!(flipped > 30, "{flipped} bits");
    }

    #[test]
    fn a_damaged_blob_and_the_results_that_need_it_are_counted_apart() {
        let dir = tempfile::tempdir().unwrap();
        make_store(dir.path());
        let mut store = Store::open(dir.path()).unwrap();
        let blob = store.layout.blob(hit(&store, "file").unwrap().outputs["out"].blob);
        flip_bit(&blob, 0);
        let report = store.check(false).unwrap();
        assert_eq!(report.problems.len() - report.affected, 1);
        assert!(report.affected >= 1);
        fs::remove_file(&blob).unwrap();
        let report = store.check(false).unwrap();
        assert_eq!(report.affected, 0, "a missing blob is not listed, only the results that need it");
        assert!(!report.problems.is_empty());
    }

    #[test]
    fn subsets_together_read_every_blob_once() {
        let dir = tempfile::tempdir().unwrap();
        make_store(dir.path());
        let mut store = Store::open(dir.path()).unwrap();
        let blob = hit(&store, "file").unwrap().outputs["out"].blob;
        flip_bit(&store.layout.blob(blob), 0);
        let (mut read, mut bad) = (0, 0);
        for part in 1..=3 {
            let request = FsckRequest { subset: Some(Subset { part, of: 3 }), ..FsckRequest::default() };
            let report = store.check_some(&request).unwrap();
            assert_eq!(report.blobs.items + report.unread.items, 7);
            read += report.blobs.items;
            bad += usize::from(report.problems.iter().any(|problem| problem.path == store.layout.blob(blob)));
        }
        assert_eq!((read, bad), (7, 1));
    }

    #[test]
    fn without_time_no_blob_is_read_and_none_is_called_bad() {
        let dir = tempfile::tempdir().unwrap();
        make_store(dir.path());
        let mut store = Store::open(dir.path()).unwrap();
        let request = FsckRequest { budget: Some(Duration::ZERO), ..FsckRequest::default() };
        let report = store.check_some(&request).unwrap();
        assert_eq!((report.blobs.items, report.unread.items), (0, 7));
        assert_eq!(report.problems, []);
        assert_eq!(report.orphans, Count::default());
    }

    #[test]
    fn a_run_that_was_killed_at_its_start_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        fs::create_dir(store.layout.runs().join("20260131T101500Z-1a2b3c4d")).unwrap();
        assert_eq!(store.check(false).unwrap().problems, []);
    }

    #[test]
    fn a_result_that_refers_to_a_missing_blob_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        make_store(dir.path());
        let mut store = Store::open(dir.path()).unwrap();
        let blob = hit(&store, "file").unwrap().outputs["out"].blob;
        fs::remove_file(store.layout.blob(blob)).unwrap();
        fs::write(store.layout.blobs().join("stray"), "").unwrap();
        let report = store.check(true).unwrap();
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
        assert!(matches!(store.lookup(&key("file")), crate::store::Lookup::Miss));
        assert!(hit(&store, "tree").is_some());
        assert_eq!(store.check(false).unwrap().problems, []);
    }
}
