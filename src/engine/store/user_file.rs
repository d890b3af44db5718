//! Files of the user as inputs: they are hashed where they are and never copied.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Store;
use super::error::StoreError;
use super::hash::{self, GiveUp};
use super::stamp::{self, Stamp};
use super::tree::{Tree, TreeEntry, TreeNode};
use super::walk::{OutsideLinks, WalkEntry, WalkKind, walk};
use pipe_core::digest::{BlobId, Digest};

/// A file or directory of the user as it was when it was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFile {
    pub path: PathBuf,
    pub blob: BlobId,
    /// The size of the file, or of all files in the directory together.
    pub bytes: u64,
    pub directory: bool,
    /// A digest of sizes and modification times: it differs for a file that was changed and changed back.
    writes: Digest,
}

/// Fewer files than this are hashed on the calling thread.
const MANY: usize = 32;

/// How often a file that is being written is read before giving up.
const ATTEMPTS: usize = 3;

impl Store {
    /// Returns the digest of the content of a file or of the listing of a directory, which equals the blob id of the
    /// same file or directory as an output. Symbolic links that lead out of a directory are followed.
    pub fn digest_user_file(&self, path: &Path) -> Result<UserFile, StoreError> {
        self.digest_user_file_unless(path, &|| false)
    }

    /// Like [`Store::digest_user_file`], but fails soon after `give_up` returns true.
    pub fn digest_user_file_unless(
        &self,
        path: &Path,
        give_up: &(dyn Fn() -> bool + Sync),
    ) -> Result<UserFile, StoreError> {
        let metadata = path.metadata().map_err(|e| StoreError::reading(path, e))?;
        let mut writes = blake3::Hasher::new();
        if metadata.is_dir() {
            let tree = self.digest_tree(path, &mut writes, give_up)?;
            let blob = BlobId::new(Digest::of(&tree.encode()));
            let (bytes, writes) = (tree.bytes(), writes.finalize().into());
            return Ok(UserFile { path: path.to_owned(), blob, bytes, directory: true, writes });
        }
        if !metadata.is_file() {
            return Err(StoreError::unusable(path, "it is neither a file nor a directory"));
        }
        let (digest, stamp) = self.digest_file_unless(path, Stamp::of(&metadata), give_up)?;
        note_write(&mut writes, Path::new(""), &stamp);
        let (blob, bytes, writes) = (BlobId::new(digest), stamp.size, writes.finalize().into());
        Ok(UserFile { path: path.to_owned(), blob, bytes, directory: false, writes })
    }

    /// Returns whether the file was not written to since. Called after a stage has run: if it was, the stage may have
    /// read something else than its key says.
    pub fn still_the_same(&self, source: &UserFile) -> bool {
        self.digest_user_file(&source.path).is_ok_and(|now| now == *source)
    }

    fn digest_tree(
        &self,
        root: &Path,
        writes: &mut blake3::Hasher,
        give_up: GiveUp,
    ) -> Result<Tree, StoreError> {
        let mut found = walk(root, OutsideLinks::Follow)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let known: Vec<Option<Digest>> = found
            .iter()
            .map(|found| match &found.what {
                WalkKind::File { stamp, .. } => self.stats.get(stamp),
                _ => None,
            })
            .collect();
        let digest = |(found, known): (&WalkEntry, &Option<Digest>)| match (&found.what, known) {
            (WalkKind::File { stamp, .. }, Some(digest)) => Ok(Some((*digest, *stamp))),
            (WalkKind::File { stamp, .. }, None) => {
                self.digest_file_unless(&root.join(&found.path), *stamp, give_up).map(Some)
            }
            _ => Ok(None),
        };
        let unknown = known.iter().filter(|digest| digest.is_none()).count();
        let digests: Vec<Option<(Digest, Stamp)>> = if unknown < MANY {
            found.iter().zip(&known).map(digest).collect::<Result<_, _>>()?
        } else {
            found.par_iter().zip(&known).map(digest).collect::<Result<_, _>>()?
        };
        let entries = found.into_iter().zip(digests).map(|(WalkEntry { path, what }, digest)| {
            let node = match (what, digest) {
                (WalkKind::File { executable, .. }, Some((digest, stamp))) => {
                    note_write(writes, &path, &stamp);
                    TreeNode::File { executable, bytes: stamp.size, blob: BlobId::new(digest) }
                }
                (WalkKind::Link { target }, _) => TreeNode::Link { target },
                _ => TreeNode::EmptyDirectory,
            };
            TreeEntry { path, node }
        });
        Ok(Tree::new(entries.collect()))
    }

    /// Returns the digest of a file and the stamp that it belongs to. `stamp` is a recent one.
    pub(super) fn digest_file(&self, path: &Path, stamp: Stamp) -> Result<(Digest, Stamp), StoreError> {
        self.digest_file_unless(path, stamp, &|| false)
    }

    fn digest_file_unless(
        &self,
        path: &Path,
        stamp: Stamp,
        give_up: GiveUp,
    ) -> Result<(Digest, Stamp), StoreError> {
        if let Some(digest) = self.stats.get(&stamp) {
            return Ok((digest, stamp));
        }
        for _ in 0..ATTEMPTS {
            let read_at = stamp::now();
            if give_up() {
                return Err(StoreError::reading(path, ErrorKind::Interrupted.into()));
            }
            match read_and_hash_unless(path, give_up) {
                Ok(Some((digest, stamp))) => {
                    self.stats.insert(stamp, digest, read_at);
                    return Ok((digest, stamp));
                }
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(StoreError::reading(path, error)),
            }
        }
        Err(StoreError::Changing { path: path.to_owned() })
    }
}

/// Hashes a file; `None` if it changed meanwhile.
pub(super) fn read_and_hash(path: &Path) -> io::Result<Option<(Digest, Stamp)>> {
    read_and_hash_unless(path, &|| false)
}

fn read_and_hash_unless(path: &Path, give_up: GiveUp) -> io::Result<Option<(Digest, Stamp)>> {
    let file = File::open(path)?;
    let before = Stamp::of(&file.metadata()?);
    let digest = hash::file_unless(&file, before.size, give_up)?;
    Ok((Stamp::of(&file.metadata()?) == before).then_some((digest, before)))
}

fn note_write(writes: &mut blake3::Hasher, path: &Path, stamp: &Stamp) {
    let path = path.as_os_str().as_bytes();
    writes.update(&(path.len() as u64).to_le_bytes());
    writes.update(path);
    writes.update(&stamp.size.to_le_bytes());
    writes.update(&stamp.modified.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    /// A store, and a path for a file of the user.
    fn setting() -> (tempfile::TempDir, Store, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let source = dir.path().join("source");
        (dir, store, source)
    }

    #[test]
    fn a_source_has_the_digest_of_its_content() {
        let (_dir, store, path) = setting();
        fs::write(&path, "content").unwrap();
        let source = store.digest_user_file(&path).unwrap();
        assert_eq!(source.blob.digest(), Digest::of(b"content"));
        assert_eq!((source.bytes, source.directory), (7, false));
        assert_eq!(commit_text(&store, "a", "content").outputs["out"].blob, source.blob);
        assert!(store.digest_user_file(&path.with_extension("none")).is_err());
    }

    #[test]
    fn every_change_of_a_directory_changes_its_digest() {
        let (_dir, store, path) = setting();
        make_tree(&path);
        let mut seen = vec![store.digest_user_file(&path).unwrap().blob];
        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(path.join("plain"), "PLAIN").unwrap(),
            &|| fs::rename(path.join("plain"), path.join("renamed")).unwrap(),
            &|| fs::remove_dir(path.join("empty/inside")).unwrap(),
            &|| fs::copy(path.join("run.sh"), path.join("twin")).map(drop).unwrap(),
            &|| fs::write(path.join("new"), "").unwrap(),
        ];
        fs::remove_file(path.join("deep/link")).unwrap();
        for change in changes {
            change();
            let blob = store.digest_user_file(&path).unwrap().blob;
            assert!(!seen.contains(&blob));
            seen.push(blob);
        }
    }

    #[test]
    fn an_edit_is_noticed_even_if_it_was_undone() {
        let (_dir, store, path) = setting();
        make_tree(&path);
        for edited in [path.clone(), path.join("plain")] {
            let source = store.digest_user_file(&edited).unwrap();
            assert!(store.still_the_same(&source));
            std::thread::sleep(Duration::from_millis(20));
            fs::write(path.join("plain"), "edited").unwrap();
            assert!(!store.still_the_same(&source));
            fs::write(path.join("plain"), "plain").unwrap();
            assert!(!store.still_the_same(&source), "a stage may have read the edit");
        }
        let source = store.digest_user_file(&path).unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert!(!store.still_the_same(&source));
    }

    #[test]
    fn a_file_written_twice_in_one_tick_of_the_clock_is_read_twice() {
        let (_dir, store, path) = setting();
        for round in 0..300_u32 {
            let content = format!("{round:08}");
            fs::write(&path, &content).unwrap();
            assert_eq!(store.digest_user_file(&path).unwrap().blob.digest(), Digest::of(content.as_bytes()));
        }
    }

    #[test]
    fn a_settled_file_is_remembered_by_the_next_process() {
        let (dir, store, path) = setting();
        fs::write(&path, "content").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        store.digest_user_file(&path).unwrap();
        drop(store);
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        assert_eq!(store.stats.get(&stamp), Some(Digest::of(b"content")));
    }

    #[test]
    fn parallel_hashing_gives_the_same_digest() {
        let (dir, store, path) = setting();
        fs::create_dir(&path).unwrap();
        for i in 0..3 * MANY {
            fs::write(path.join(format!("{i}")), format!("{i}")).unwrap();
        }
        let many = store.digest_user_file(&path).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(store.digest_user_file(&path).unwrap(), many);
        assert_eq!(store.digest_user_file(&path).unwrap(), many, "from the stat cache");
        let placed = dir.path().join("placed");
        let stored = commit(&store, "a", |out| fs::rename(&path, out).unwrap()).outputs["out"];
        store.place(&stored, &placed).unwrap();
        assert_eq!(store.digest_user_file(&placed).unwrap().blob, many.blob);
    }
}
