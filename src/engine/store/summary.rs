//! Summaries of manifests, so that a run that computes nothing reads no manifests: it only asks for the stat of each.
//!
//! A summary is never trusted over its manifest. It counts only if the manifest has the stamp that it had when it was read
//! and checked, and if all blobs have the stamps that they had when they were checked. In any other case the manifest is
//! read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, statat};

use super::Store;
use super::manifest::{Manifest, Stored};
use super::stamp::{self, Stamp};
use super::stat_cache::Remembered;
use pipe_core::digest::{BlobId, Digest, StageKey};

/// What a run needs to know of a result that it does not compute.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSummary {
    pub key: StageKey,
    pub seconds: f64,
    pub outputs: BTreeMap<String, Stored>,
    logs: Vec<Stored>,
}

/// The stamp of a manifest before it was read, and the time.
pub(super) struct ManifestSighting {
    stamp: Option<Stamp>,
    at: i64,
}

impl Store {
    /// Returns the summary of a result that is known to be undamaged, because neither its manifest nor its outputs have
    /// changed since they were checked. `None` says nothing about the result; [`Store::lookup`] does.
    pub fn unchanged_result(&self, key: StageKey) -> Option<ResultSummary> {
        let stamp = self.sight_manifest(key).stamp?;
        let summary = self.summaries.get(&stamp).filter(|summary| summary.key == key)?;
        let is_unchanged = |stored: &Stored| {
            if !stored.directory {
                return self.is_unchanged_blob(stored.blob, stored.bytes);
            }
            self.peek_tree(stored.blob)
                .is_ok_and(|tree| tree.files().all(|(_, blob, bytes)| self.is_unchanged_blob(blob, bytes)))
        };
        summary.outputs.values().chain(&summary.logs).all(is_unchanged).then_some(summary)
    }

    fn is_unchanged_blob(&self, id: BlobId, bytes: u64) -> bool {
        let stamp = self.stamp_of_file(&self.layout.blob(id));
        stamp.is_some_and(|stamp| stamp.size == bytes && self.stats.get(&stamp) == Some(id.digest()))
    }

    pub(super) fn sight_manifest(&self, key: StageKey) -> ManifestSighting {
        let at = stamp::now();
        ManifestSighting { stamp: self.stamp_of_file(&self.layout.action(key)), at }
    }

    /// Returns the stamp of a file of the store; `None` if there is no such file. The path is looked up from the directory of
    /// the store, because a run asks for thousands of stamps, and the kernel would go through all directories above each time.
    fn stamp_of_file(&self, path: &Path) -> Option<Stamp> {
        let open = || File::open(self.layout.base()).ok();
        let base = self.base_directory.get_or_init(open).as_ref()?;
        let inside = path.as_os_str().as_bytes().get(self.layout.base().as_os_str().len() + 1..)?;
        let stat = statat(base, inside, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        FileType::from_raw_mode(stat.st_mode).is_file().then(|| Stamp::of_stat(&stat))
    }

    /// Remembers a manifest that was read after it was sighted, and whose outputs were checked. One with warnings is read every
    /// time, so that every run can mention them.
    pub(super) fn remember_summary(&self, manifest: &Manifest, sighting: ManifestSighting) {
        if let Some(stamp) = sighting.stamp.filter(|_| manifest.warnings.is_empty()) {
            self.summaries.insert(stamp, ResultSummary::of(manifest), sighting.at);
        }
    }
}

impl ResultSummary {
    fn of(manifest: &Manifest) -> Self {
        Self {
            key: manifest.key,
            seconds: manifest.seconds,
            outputs: manifest.outputs.clone(),
            logs: manifest.stdout.iter().chain(&manifest.stderr).copied().collect(),
        }
    }
}

impl Remembered for ResultSummary {
    const MAGIC: &'static [u8; 16] = b"pipe summaries2\n";
    const LENGTH: Option<usize> = None;

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.key.digest().as_bytes());
        bytes.extend(self.seconds.to_le_bytes());
        let logs = self.logs.iter().map(|stored| ("", stored));
        let outputs = self.outputs.iter().map(|(name, stored)| (name.as_str(), stored));
        for (name, stored) in outputs.chain(logs) {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(stored.blob.digest().as_bytes());
            bytes.extend(stored.bytes.to_le_bytes());
            bytes.push(u8::from(stored.directory));
        }
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let key = StageKey::new(Digest::from_bytes(take(rest)?));
        let seconds = f64::from_le_bytes(take(rest)?);
        let (mut outputs, mut logs) = (BTreeMap::new(), Vec::new());
        while !rest.is_empty() {
            let length = u32::from_le_bytes(take(rest)?) as usize;
            let (name, after) = rest.split_at_checked(length)?;
            *rest = after;
            let blob = BlobId::new(Digest::from_bytes(take(rest)?));
            let bytes = u64::from_le_bytes(take(rest)?);
            let directory = u8::from_le_bytes(take(rest)?) == 1;
            let stored = Stored { blob, bytes, directory };
            // No output has an empty name.
            if name.is_empty() {
                logs.push(stored);
            } else {
                outputs.insert(String::from_utf8(name.to_vec()).ok()?, stored);
            }
        }
        Some(Self { key, seconds, outputs, logs })
    }

    /// Only the store writes manifests, each once and through a rename. So nothing but two writes in one tick of the
    /// clock could look the same, and the coarsest clock of a file system has ticks of two seconds.
    fn is_settled(stamp: &Stamp, read_at: i64) -> bool {
        const COARSEST_TICK: i64 = 2_000_000_000;
        stamp.modified.max(stamp.changed).saturating_add(COARSEST_TICK) < read_at
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use std::fs;

    /// A store that remembers the result of `a` as if its manifest had been read a while after it was written.
    fn remembering(store: &Store) -> Manifest {
        let manifest = commit(store, "a", make_tree);
        let mut sighting = store.sight_manifest(key("a"));
        sighting.at += 3_000_000_000;
        store.remember_summary(&manifest, sighting);
        assert!(hit(store, "a").is_some(), "the blobs are checked");
        manifest
    }

    #[test]
    fn an_unchanged_result_is_known_without_reading_its_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let manifest = remembering(&store);
        assert_eq!(store.unchanged_result(key("a")), Some(ResultSummary::of(&manifest)));
        assert_eq!(store.unchanged_result(key("b")), None);
        drop(store);
        let next = Store::open(dir.path()).unwrap();
        assert_eq!(next.unchanged_result(key("a")), Some(ResultSummary::of(&manifest)));
    }

    #[test]
    fn a_result_with_a_changed_manifest_or_blob_is_not_known() {
        type Damage<'a> = &'a dyn Fn(&Store, &Manifest);
        let changes: [Damage; 4] = [
            &|store, _| flip_bit(&store.layout.action(key("a")), 90),
            &|store, _| fs::remove_file(store.layout.action(key("a"))).unwrap(),
            &|store, manifest| flip_bit(&store.layout.blob(manifest.outputs["out"].blob), 0),
            &|store, manifest| {
                let tree = store.peek_tree(manifest.outputs["out"].blob).unwrap();
                let (_, member, _) = tree.files().next().unwrap();
                flip_bit(&store.layout.blob(member), 0);
            },
        ];
        for change in changes {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path()).unwrap();
            let manifest = remembering(&store);
            change(&store, &manifest);
            assert_eq!(store.unchanged_result(key("a")), None);
            drop(store);
            assert_eq!(Store::open(dir.path()).unwrap().unchanged_result(key("a")), None);
        }
    }

    #[test]
    fn a_manifest_that_was_just_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        commit_text(&store, "a", "text");
        assert!(hit(&store, "a").is_some());
        assert_eq!(store.unchanged_result(key("a")), None);
    }
}
