//! The user's own files as inputs: hashed where they are, never copied.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Store;
use super::error::StoreError;
use super::hash;
use super::stamp::{self, Stamp};
use super::tree::{Entry, Node, Tree};
use super::walk::{Found, OutsideLinks, What, walk};
use crate::digest::{BlobId, Digest};

/// A file or directory of the user's as it was when it was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    pub blob: BlobId,
    /// Of the file, or of all files in the directory together.
    pub bytes: u64,
    pub directory: bool,
    /// Over sizes and modification times: a file that was changed and changed back shows here.
    writes: Digest,
}

/// Fewer files than this are hashed where we are, without waking other threads.
const MANY: usize = 32;

/// How often a file that is being written is read before we give up.
const ATTEMPTS: usize = 3;

impl Store {
    /// The digest of a file's content or a directory's listing, equal to what the store gives to
    /// the same file or directory as an output. Symbolic links that lead out of a directory are
    /// followed.
    pub fn digest_source(&self, path: &Path) -> Result<Source, StoreError> {
        let metadata = path.metadata().map_err(|e| StoreError::reading(path, e))?;
        let mut writes = blake3::Hasher::new();
        if metadata.is_dir() {
            let tree = self.digest_tree(path, &mut writes)?;
            let blob = BlobId::new(Digest::of(&tree.encode()));
            let (bytes, writes) = (tree.bytes(), writes.finalize().into());
            return Ok(Source { path: path.to_owned(), blob, bytes, directory: true, writes });
        }
        if !metadata.is_file() {
            return Err(StoreError::unusable(path, "it is neither a file nor a directory"));
        }
        let (digest, stamp) = self.digest_file(path, Stamp::of(&metadata))?;
        note_write(&mut writes, Path::new(""), &stamp);
        let (blob, bytes, writes) = (BlobId::new(digest), stamp.size, writes.finalize().into());
        Ok(Source { path: path.to_owned(), blob, bytes, directory: false, writes })
    }

    /// Whether nobody has written to the source since. Asked after a stage ran: if not, the stage
    /// may have read something else than what its key says.
    pub fn still_the_same(&self, source: &Source) -> bool {
        self.digest_source(&source.path).is_ok_and(|now| now == *source)
    }

    fn digest_tree(&self, root: &Path, writes: &mut blake3::Hasher) -> Result<Tree, StoreError> {
        let mut found = walk(root, OutsideLinks::Follow)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let known: Vec<Option<Digest>> = found
            .iter()
            .map(|found| match &found.what {
                What::File { stamp, .. } => self.stats.get(stamp),
                _ => None,
            })
            .collect();
        let digest = |(found, known): (&Found, &Option<Digest>)| match (&found.what, known) {
            (What::File { stamp, .. }, Some(digest)) => Ok(Some((*digest, *stamp))),
            (What::File { stamp, .. }, None) => self.digest_file(&root.join(&found.path), *stamp).map(Some),
            _ => Ok(None),
        };
        let unknown = known.iter().filter(|digest| digest.is_none()).count();
        let digests: Vec<Option<(Digest, Stamp)>> = if unknown < MANY {
            found.iter().zip(&known).map(digest).collect::<Result<_, _>>()?
        } else {
            found.par_iter().zip(&known).map(digest).collect::<Result<_, _>>()?
        };
        let entries = found.into_iter().zip(digests).map(|(Found { path, what }, digest)| {
            let node = match (what, digest) {
                (What::File { executable, .. }, Some((digest, stamp))) => {
                    note_write(writes, &path, &stamp);
                    Node::File { executable, bytes: stamp.size, blob: BlobId::new(digest) }
                }
                (What::Link { target }, _) => Node::Link { target },
                _ => Node::EmptyDirectory,
            };
            Entry { path, node }
        });
        Ok(Tree::new(entries.collect()))
    }

    /// The digest of a file and the stamp that it belongs to. `stamp` is a recent one.
    pub(super) fn digest_file(&self, path: &Path, stamp: Stamp) -> Result<(Digest, Stamp), StoreError> {
        if let Some(digest) = self.stats.get(&stamp) {
            return Ok((digest, stamp));
        }
        for _ in 0..ATTEMPTS {
            let read_at = stamp::now();
            match read_and_hash(path) {
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

/// Nothing if the file changed meanwhile.
fn read_and_hash(path: &Path) -> io::Result<Option<(Digest, Stamp)>> {
    let file = File::open(path)?;
    let before = Stamp::of(&file.metadata()?);
    let digest = hash::file(&file, before.size)?;
    Ok((Stamp::of(&file.metadata()?) == before).then_some((digest, before)))
}

fn note_write(writes: &mut blake3::Hasher, path: &Path, stamp: &Stamp) {
    let path = path.as_os_str().as_bytes();
    writes.update(&(path.len() as u64).to_le_bytes());
    writes.update(path);
    writes.update(&stamp.size.to_le_bytes());
    writes.update(&stamp.modified.to_le_bytes());
}
