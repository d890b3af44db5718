//! Files of the user as inputs: they are hashed where they are and never copied.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Store;
use super::error::{StoreError, read_twice};
use super::hash::{self, GiveUp};
use super::stamp::{self, Stamp};
use super::threads::in_parallel;
use super::trail::Trail;
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
    /// Whether it is a file that may be executed.
    pub executable: bool,
    /// A digest of the stamps of every file, link and directory: it differs if one was changed and changed back.
    stamps: Digest,
    trail: Trail,
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
        let reading = |e| StoreError::reading(path, e);
        let mut trail = Trail::default();
        trail.follow(path).map_err(reading)?;
        let metadata = path.metadata().map_err(reading)?;
        let mut stamps = blake3::Hasher::new();
        let directory = metadata.is_dir();
        let (digest, bytes) = if directory {
            let tree = self.digest_tree(path, &mut stamps, &mut trail, give_up)?;
            (Digest::of(&tree.encode()), tree.bytes())
        } else if metadata.is_file() {
            let (digest, stamp) = self.digest_file_unless(path, Stamp::of(&metadata), give_up)?;
            stamp.add_to(&mut stamps);
            (digest, stamp.size)
        } else {
            return Err(StoreError::unusable(path, "it is neither a file nor a directory"));
        };
        Ok(UserFile {
            path: path.to_owned(),
            blob: BlobId::new(digest),
            bytes,
            directory,
            executable: !directory && metadata.permissions().mode() & 0o111 != 0,
            stamps: stamps.finalize().into(),
            trail,
        })
    }

    /// Returns whether nothing was changed since, not even for a moment. Called after a stage has run: if something was,
    /// the stage may have read something else than its key says.
    pub fn still_the_same(&self, source: &UserFile) -> bool {
        self.digest_user_file(&source.path).is_ok_and(|now| {
            now.blob == source.blob && now.stamps == source.stamps && source.trail.is_same(&now.trail)
        })
    }

    /// Returns the listing of a directory outside of the store.
    pub(super) fn list_user_directory(&self, path: &Path) -> Result<Tree, StoreError> {
        self.digest_tree(path, &mut blake3::Hasher::new(), &mut Trail::default(), &|| false)
    }

    fn digest_tree(
        &self,
        root: &Path,
        stamps: &mut blake3::Hasher,
        trail: &mut Trail,
        give_up: GiveUp,
    ) -> Result<Tree, StoreError> {
        let walked = walk(root, OutsideLinks::Follow)?;
        for link in walked.followed {
            trail.follow(&link).map_err(|e| StoreError::reading(&link, e))?;
        }
        let mut directories = walked.directories;
        directories.sort_by(|a, b| a.0.cmp(&b.0));
        for (path, stamp) in &directories {
            note(stamps, path, stamp);
        }
        let mut found = walked.entries;
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
        let one_by_one = || found.iter().zip(&known).map(digest).collect();
        let digests: Result<Vec<Option<(Digest, Stamp)>>, StoreError> = if unknown < MANY {
            one_by_one()
        } else {
            in_parallel(|| found.par_iter().zip(&known).map(digest).collect(), one_by_one)
        };
        let digests = digests?;
        let entries = found.into_iter().zip(digests).map(|(WalkEntry { path, what }, digest)| {
            let node = match (what, digest) {
                (WalkKind::File { executable, .. }, Some((digest, stamp))) => {
                    note(stamps, &path, &stamp);
                    TreeNode::File { executable, bytes: stamp.size, blob: BlobId::new(digest) }
                }
                (WalkKind::Link { stamp, target }, _) => {
                    note(stamps, &path, &stamp);
                    TreeNode::Link { target }
                }
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
            match read_twice(|| read_and_hash_unless(path, give_up)) {
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

fn note(stamps: &mut blake3::Hasher, path: &Path, stamp: &Stamp) {
    let path = path.as_os_str().as_bytes();
    stamps.update(&(path.len() as u64).to_le_bytes());
    stamps.update(path);
    stamp.add_to(stamps);
}

#[cfg(test)]
mod tests {
    use super::super::stamp::two_minutes_later;
    use super::super::testing::*;
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

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
    fn a_change_that_restores_content_and_times_is_noticed() {
        let (dir, store, path) = setting();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("data")).unwrap();
        for (name, text) in [("data/file", "right"), ("other", "wrong")] {
            fs::write(at(name), text).unwrap();
        }
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/file"), "wrong").unwrap();
        symlink("data", at("link")).unwrap();
        symlink("link/file", &path).unwrap();
        let rename = |from: &str, to: &str| fs::rename(at(from), at(to)).unwrap();
        let relink = |target: &str| {
            fs::remove_file(at("link")).unwrap();
            symlink(target, at("link")).unwrap();
        };
        let changes: [(&str, &dyn Fn()); 4] = [
            ("another file was there for a moment", &|| {
                rename("data/file", "kept");
                rename("other", "data/file");
                rename("data/file", "other");
                rename("kept", "data/file");
            }),
            ("the content was restored with its time", &|| {
                let modified = at("data/file").metadata().unwrap().modified().unwrap();
                fs::write(at("data/file"), "wrong").unwrap();
                fs::write(at("data/file"), "right").unwrap();
                fs::File::options()
                    .write(true)
                    .open(at("data/file"))
                    .unwrap()
                    .set_modified(modified)
                    .unwrap();
            }),
            ("a link on the way led elsewhere for a moment", &|| {
                relink("elsewhere");
                relink("data");
            }),
            ("another directory was there for a moment", &|| {
                rename("data", "kept");
                rename("elsewhere", "data");
                rename("data", "elsewhere");
                rename("kept", "data");
            }),
        ];
        for input in [path.clone(), at("link/file"), at("link")] {
            for (what, change) in changes {
                let source = store.digest_user_file(&input).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                assert!(store.still_the_same(&source), "{what}");
                change();
                assert!(!store.still_the_same(&source), "{what}: {}", input.display());
            }
        }
        let source = store.digest_user_file(&path).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::write(at("data/beside"), "").unwrap();
        fs::write(at("beside"), "").unwrap();
        assert!(store.still_the_same(&source), "other files may come and go");
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
        two_minutes_later(|| store.digest_user_file(&path)).unwrap();
        drop(store);
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        assert_eq!(store.stats.get(&stamp), Some(Digest::of(b"content")));
    }

    #[test]
    fn a_young_file_is_read_each_time() {
        let (_dir, store, path) = setting();
        fs::write(&path, "content").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        store.digest_user_file(&path).unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        assert_eq!(store.stats.get(&stamp), None, "a write through a mapping would not change the stamp");
    }

    #[test]
    fn parallel_hashing_gives_the_same_digest() {
        let (dir, store, path) = setting();
        fs::create_dir(&path).unwrap();
        for i in 0..3 * MANY {
            fs::write(path.join(format!("{i}")), format!("{i}")).unwrap();
        }
        let many = store.digest_user_file(&path).unwrap();
        two_minutes_later(|| assert_eq!(store.digest_user_file(&path).unwrap().blob, many.blob));
        assert_eq!(store.digest_user_file(&path).unwrap().blob, many.blob, "from the stat cache");
        let placed = dir.path().join("placed");
        let stored = commit(&store, "a", |out| fs::rename(&path, out).unwrap()).outputs["out"];
        store.place(&stored, &placed).unwrap();
        assert_eq!(store.digest_user_file(&placed).unwrap().blob, many.blob);
    }
}
