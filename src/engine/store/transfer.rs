//! Transfers results from one store to another. Nothing is accepted that does not match its digest.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Store;
use super::blob::Durability;
use super::error::{Flaw, StoreError};
use super::lock::FileLock;
use super::manifest::{Manifest, Stored};
use super::sealed::{self, Unsealed};
use super::threads::in_parallel;
use super::tree::Tree;
use super::user_file::read_and_hash;
use pipe_core::digest::{BlobId, Digest, StageKey};

/// The condition of a result after everything that belongs to it was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Sound,
    /// Says what is missing, as a sentence.
    Missing(String),
    /// Says what is damaged, as a sentence.
    Damaged(String),
}

impl Store {
    /// Returns a manifest as it is stored, with its seal.
    pub fn sealed_record(&self, key: StageKey) -> Option<Vec<u8>> {
        let text = fs::read(self.layout.action(key)).ok()?;
        sealed::decode::<Manifest>(&text).is_ok_and(|manifest| manifest.key == key).then_some(text)
    }

    /// Returns whether a path is inside this store, whatever spelling or symbolic links lead there.
    pub fn owns(&self, path: &Path) -> bool {
        let (Ok(base), Ok(path)) = (self.layout.base().canonicalize(), std::path::absolute(path)) else {
            return false;
        };
        // The last parts of the path need not exist yet.
        let known = path.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
        known.is_some_and(|(known, real)| {
            path.strip_prefix(known).is_ok_and(|rest| real.join(rest).starts_with(&base))
        })
    }

    /// Returns every blob of the outputs and logs of a result, including listings of directories.
    pub fn blobs_of(&self, manifest: &Manifest) -> Result<BTreeSet<BlobId>, StoreError> {
        let mut blobs = BTreeSet::new();
        for stored in manifest.stored() {
            blobs.insert(stored.blob);
            if stored.directory {
                let tree = self.peek_tree(stored.blob).map_err(Flaw::into_error)?;
                blobs.extend(tree.files().map(|(_, blob, _)| blob));
            }
        }
        Ok(blobs)
    }

    /// Opens a blob and returns its size. The caller has to hash what it reads.
    pub fn open_blob(&self, id: BlobId) -> Result<(File, u64), StoreError> {
        let path = self.layout.blob(id);
        let open = || {
            let file = File::open(&path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        open().map_err(|error: io::Error| match error.kind() {
            ErrorKind::NotFound => StoreError::Damaged { what: format!("blob {} is missing", id.short()) },
            _ => StoreError::reading(&path, error),
        })
    }

    /// Returns where a blob is, if it is in the store.
    pub fn blob_path(&self, id: BlobId) -> PathBuf {
        self.layout.blob(id)
    }

    /// Imports a blob, whose content must match its name.
    pub fn adopt_blob(&self, id: BlobId, content: &mut dyn Read) -> Result<(), StoreError> {
        let temp = self.temp()?;
        let writing = |e| StoreError::writing(&temp, e);
        let mut file = File::create_new(&temp).map_err(writing)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 128 << 10];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    file.write_all(&buffer[..count]).map_err(writing)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(writing(error)),
            }
        }
        drop(file);
        let digest = Digest::from(hasher.finalize());
        if digest != id.digest() {
            let what = format!("what claims to be blob {} has another content", id.short());
            return Err(StoreError::Foreign { what });
        }
        self.keep_hashed(&temp, Durability::Eventually, |_, _| Ok(digest)).map(drop)
    }

    /// Returns whether there is a blob with this name. Its content is not checked.
    pub fn has_blob(&self, id: BlobId) -> bool {
        self.layout.blob(id).exists()
    }

    /// Returns the blobs and sizes of the files in a stored directory, whose listing has to be here.
    pub fn files_of(&self, directory: &Stored) -> Result<Vec<(BlobId, u64)>, StoreError> {
        let tree = self.peek_tree(directory.blob).map_err(Flaw::into_error)?;
        Ok(tree.files().map(|(_, blob, bytes)| (blob, bytes)).collect())
    }

    /// Returns the blobs that the content of a listing names, or `None` if it is not the listing with this id.
    pub fn listed_blobs(id: BlobId, content: &[u8]) -> Option<Vec<BlobId>> {
        let tree = Tree::decode(content).ok().filter(|_| Digest::of(content) == id.digest())?;
        Some(tree.files().map(|(_, blob, _)| blob).collect())
    }

    /// Reads a sealed manifest from elsewhere and checks that it belongs to its key.
    pub fn read_record(text: &[u8]) -> Result<Manifest, StoreError> {
        let foreign = |what: String| StoreError::Foreign { what };
        let manifest: Manifest =
            sealed::decode(text).map_err(|flaw| foreign(format!("a manifest cannot be used: {flaw}")))?;
        if manifest.parts.key() != manifest.key {
            let what =
                format!("the manifest of {} does not have the key that follows from it", manifest.instance);
            return Err(foreign(what));
        }
        Ok(manifest)
    }

    /// Checks a sealed manifest from elsewhere. Returns `None` if some of its blobs are not here.
    pub(super) fn check_record(&self, text: &[u8]) -> Result<Option<Manifest>, StoreError> {
        let manifest = Self::read_record(text)?;
        for stored in manifest.stored() {
            match self.check_stored(stored) {
                Ok(_) => {}
                Err(Flaw::Unreadable(error)) => return Err(error),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(manifest))
    }

    /// Imports a sealed manifest. Returns `None` if some of its blobs are not here.
    pub fn adopt_record(&self, text: &[u8]) -> Result<Option<Manifest>, StoreError> {
        let Some(manifest) = self.check_record(text)? else { return Ok(None) };
        let path = self.layout.action(manifest.key);
        if !path.exists() {
            let lock = self.layout.key_lock(manifest.key);
            let writing = |e| StoreError::writing(&path, e);
            // A process that holds the key is computing it, and its result is as good.
            if let Some(mut held) = FileLock::try_acquire(&lock).map_err(writing)? {
                held.become_file(&path, text, Durability::Eventually).map_err(writing)?;
            }
        }
        Ok(Some(manifest))
    }

    /// Imports a result from another store. Returns `None` if that one does not have all of it.
    pub fn adopt(&self, key: StageKey, from: &Self) -> Result<Option<Manifest>, StoreError> {
        let (Some(text), Some(manifest)) = (from.sealed_record(key), from.record(key)) else {
            return Ok(None);
        };
        let Ok(blobs) = from.blobs_of(&manifest) else { return Ok(None) };
        for id in blobs {
            if self.layout.blob(id).exists() {
                continue;
            }
            let Ok((mut file, _)) = from.open_blob(id) else { return Ok(None) };
            match self.adopt_blob(id, &mut file) {
                Err(StoreError::Foreign { .. }) => return Ok(None),
                other => other?,
            }
        }
        self.adopt_record(&text)
    }

    /// Reads and hashes everything that belongs to a result, without the stat cache.
    pub fn examine(&self, key: StageKey) -> (Condition, Option<Box<Manifest>>) {
        let manifest = match self.read_manifest(key) {
            Ok(manifest) => manifest,
            Err(Unsealed::Missing) => {
                return (Condition::Missing("its result is not in the cache".into()), None);
            }
            Err(Unsealed::Damaged(flaw)) => {
                return (Condition::Damaged(format!("its manifest is damaged: {flaw}")), None);
            }
            Err(Unsealed::Foreign(flaw)) => {
                let what = format!("its manifest was written by another version of `pipe`: {flaw}");
                return (Condition::Missing(what), None);
            }
            Err(Unsealed::Unreadable(error)) => {
                return (Condition::Missing(format!("its manifest cannot be read: {error}")), None);
            }
        };
        let stored: Vec<&Stored> = manifest.stored().collect();
        let mut conditions = stored.iter().map(|stored| self.examine_stored(stored));
        let worst = conditions.find(|condition| *condition != Condition::Sound).unwrap_or(Condition::Sound);
        (worst, Some(manifest))
    }

    fn examine_stored(&self, stored: &Stored) -> Condition {
        let mut blobs = vec![stored.blob];
        if stored.directory {
            match self.examine_blob(stored.blob) {
                Condition::Sound => {}
                bad => return bad,
            }
            match self.peek_tree(stored.blob) {
                Ok(tree) => blobs = tree.files().map(|(_, blob, _)| blob).collect(),
                Err(flaw) => return Condition::Damaged(flaw.to_string()),
            }
        }
        let is_bad = |condition: &Condition| *condition != Condition::Sound;
        let bad = in_parallel(
            || blobs.par_iter().map(|blob| self.examine_blob(*blob)).find_any(is_bad),
            || blobs.iter().map(|blob| self.examine_blob(*blob)).find(is_bad),
        );
        bad.unwrap_or(Condition::Sound)
    }

    fn examine_blob(&self, id: BlobId) -> Condition {
        let path = self.layout.blob(id);
        match read_and_hash(&path) {
            Ok(Some((digest, _))) if digest == id.digest() => Condition::Sound,
            Ok(_) => {
                let flaw = "does not have the content that its name says";
                Condition::Damaged(format!("blob `{}` {flaw}", path.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Condition::Missing(format!("blob {} is not in the cache", id.short()))
            }
            Err(error) => Condition::Damaged(format!("blob `{}` cannot be read: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn stores() -> (tempfile::TempDir, Store, Store) {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| Store::open(&dir.path().join(name)).unwrap());
        (dir, a, b)
    }

    #[test]
    fn a_result_can_be_imported_from_another_store() {
        let (_dir, a, b) = stores();
        let manifest = commit(&a, "tree", make_tree);
        assert_eq!(b.adopt(manifest.key, &a).unwrap(), Some(manifest.clone()));
        assert_eq!(hit(&b, "tree"), Some(manifest.clone()));
        assert_eq!(b.examine(manifest.key).0, Condition::Sound);
        assert_eq!(b.adopt(key("nothing"), &a).unwrap(), None);
    }

    #[test]
    fn content_that_does_not_match_its_digest_is_not_imported() {
        let (_dir, a, b) = stores();
        let manifest = commit_text(&a, "a", "text");
        let id = manifest.outputs["out"].blob;
        assert!(matches!(b.adopt_blob(id, &mut &b"other"[..]), Err(StoreError::Foreign { .. })));
        let sealed = a.sealed_record(manifest.key).unwrap();
        assert_eq!(b.adopt_record(&sealed).unwrap(), None, "its blob is not here");
        let mut torn = sealed.clone();
        *torn.last_mut().unwrap() = b'x';
        assert!(b.adopt_record(&torn).is_err());
        flip_bit(&a.layout.blob(id), 0);
        assert_eq!(b.adopt(manifest.key, &a).unwrap(), None);
        assert!(hit(&b, "a").is_none());
    }

    #[test]
    fn no_spelling_of_a_path_hides_that_it_is_inside_the_store() {
        let (dir, a, _) = stores();
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        for inside in ["a/v2/stat", "a/./v2/new/file", "b/../a/v2", "link/v2/stat"] {
            assert!(a.owns(&dir.path().join(inside)), "{inside}");
        }
        for outside in ["a/notes", "b/v2/stat", "a/v2-old/x", "c/d/e"] {
            assert!(!a.owns(&dir.path().join(outside)), "{outside}");
        }
        let stored = &commit_text(&a, "a", "text").outputs["out"];
        let refused = a.place(stored, &dir.path().join("link/v2/stat")).unwrap_err().to_string();
        assert!(refused.contains("inside the cache"), "{refused}");
    }

    #[test]
    fn an_examination_does_not_trust_the_stat_cache() {
        let (_dir, a, _) = stores();
        let manifest = commit_text(&a, "a", "text");
        let path = a.layout.blob(manifest.outputs["out"].blob);
        let modified = path.metadata().unwrap().modified().unwrap();
        flip_bit(&path, 0);
        File::open(&path).unwrap().set_modified(modified).unwrap();
        assert!(matches!(a.examine(manifest.key).0, Condition::Damaged(_)));
        fs::remove_file(&path).unwrap();
        assert!(matches!(a.examine(manifest.key).0, Condition::Missing(_)));
        assert!(matches!(a.examine(key("b")).0, Condition::Missing(_)));
    }
}
