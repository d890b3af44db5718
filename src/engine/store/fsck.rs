//! Checks the whole store by reading every file again, without trusting anything that is remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use super::Store;
use super::error::StoreError;
use super::layout::{CACHEDIR_TAG, id_of_blob, key_of_action};
use super::manifest::{Manifest, Stored};
use super::pipeline_state::PipelineState;
use super::run_log::{EVENTS, flaw_of_run};
use super::sealed::{self, Unsealed};
use super::stat_cache::StatCache;
use super::usage::{Count, files};
use super::user_file::read_and_hash;
use pipe_core::digest::BlobId;

/// What a check of the store found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FsckReport {
    /// Whether damaged files were moved to the trash, so that the next run computes them again.
    pub repaired: bool,
    pub results: Count,
    pub blobs: Count,
    pub pipelines: Count,
    pub runs: Count,
    /// Undamaged blobs that no result refers to. Not a problem; garbage collection removes them.
    pub orphans: Count,
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
        if !repair {
            return self.inspect();
        }
        let session = self.session()?;
        session.alone(&self.layout, || {
            let mut report = self.inspect()?;
            for problem in &report.problems {
                session.discard(&self.layout, &problem.path)?;
            }
            report.repaired = true;
            Ok(report)
        })
    }

    fn inspect(&self) -> Result<FsckReport, StoreError> {
        let mut report = FsckReport::default();
        // Results first: the blobs that they refer to were there before them.
        let manifests = self.inspect_manifests(&mut report)?;
        let sound = self.inspect_blobs(&mut report)?;
        let mut needed = BTreeSet::new();
        for (path, manifest) in manifests {
            for stored in manifest.stored() {
                if let Err(flaw) = self.inspect_stored(stored, &sound, &mut needed) {
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
                    Err(Unsealed::Missing) => {}
                    Err(Unsealed::Damaged(flaw)) => report.problem(&path, flaw),
                },
            }
        }
        Ok(manifests)
    }

    /// Checks the blobs and returns the undamaged ones with their sizes.
    fn inspect_blobs(&self, report: &mut FsckReport) -> Result<BTreeMap<BlobId, u64>, StoreError> {
        let blobs = files(&self.layout.blobs())?;
        let inspected: Vec<Result<(BlobId, u64), StoreProblem>> = blobs
            .into_par_iter()
            .map(|(path, _)| match id_of_blob(&path).filter(|id| self.layout.blob(*id) == path) {
                None => Err(StoreProblem { path, flaw: "it is not a file of the store".into() }),
                Some(id) => match read_and_hash(&path) {
                    Ok(Some((digest, stamp))) if digest == id.digest() => Ok((id, stamp.size)),
                    Ok(_) => Err(StoreProblem { path, flaw: "its content is not what its name says".into() }),
                    Err(error) => Err(StoreProblem { path, flaw: format!("it cannot be read: {error}") }),
                },
            })
            .collect();
        let mut sound = BTreeMap::new();
        for inspected in inspected {
            match inspected {
                Ok((id, bytes)) => {
                    report.blobs.add(bytes);
                    sound.insert(id, bytes);
                }
                Err(problem) => {
                    report.blobs.items += 1;
                    report.problems.push(problem);
                }
            }
        }
        Ok(sound)
    }

    fn inspect_stored(
        &self,
        stored: &Stored,
        sound: &BTreeMap<BlobId, u64>,
        needed: &mut BTreeSet<BlobId>,
    ) -> Result<(), String> {
        let mut look = |blob: BlobId, bytes: Option<u64>| {
            needed.insert(blob);
            match sound.get(&blob) {
                None => Err(format!("blob {} is missing or bad", blob.short())),
                Some(size) if bytes.is_some_and(|bytes| bytes != *size) => {
                    Err(format!("blob {} has another size", blob.short()))
                }
                Some(_) => Ok(()),
            }
        };
        if !stored.directory {
            return look(stored.blob, Some(stored.bytes));
        }
        look(stored.blob, None)?;
        let tree = self.peek_tree(stored.blob)?;
        tree.files().try_for_each(|(_, blob, bytes)| look(blob, Some(bytes)))
    }

    fn inspect_the_rest(&self, report: &mut FsckReport) -> Result<(), StoreError> {
        for (path, metadata) in files(&self.layout.pipelines())? {
            report.pipelines.add(metadata.len());
            match sealed::read::<PipelineState>(&path) {
                Ok(state) if self.pipeline_path(&state.file) == path => {}
                Ok(_) => report.problem(&path, "it is the record of another pipeline"),
                Err(Unsealed::Missing) => {}
                Err(Unsealed::Damaged(flaw)) => report.problem(&path, flaw),
            }
        }
        for run in self.runs()? {
            report.runs.add(run.bytes);
            let directory = self.layout.runs().join(&run.id);
            let flaw = match fs::read(directory.join(EVENTS)) {
                Ok(events) => flaw_of_run(&directory, &events),
                Err(error) => Some(format!("its events cannot be read: {error}")),
            };
            if let Some(flaw) = flaw {
                report.problem(&directory, flaw);
            }
        }
        if !StatCache::is_sound(&self.layout.stat_cache()) {
            report.problem(&self.layout.stat_cache(), "its content does not match its checksum");
        }
        if fs::read(self.layout.tag()).is_ok_and(|text| text != CACHEDIR_TAG.as_bytes()) {
            report.problem(&self.layout.tag(), "it is not the text that belongs there");
        }
        Ok(())
    }
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
                let mut store = Store::open(&root).unwrap();
                assert!(!store.check(false).unwrap().problems.is_empty(), "{case}");
                assert!(store.check(true).unwrap().repaired);
                make_results(&store);
                assert_eq!(store.check(false).unwrap().problems, [], "{case}");
            }
        }
        assert!(flipped > 30, "{flipped} bits");
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
