//! Blobs: read-only files whose name is the blake3 of their bytes.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Store;
use super::error::{Flaw, StoreError, read_twice};
use super::hash::{self, GiveUp};
use super::manifest::Stored;
use super::stamp::{self, Stamp};
use super::threads::in_parallel;
use super::tree::{Tree, TreeEntry, TreeNode};
use super::walk::{OutsideLinks, WalkEntry, WalkKind, walk};
use pipe_core::digest::{BlobId, Digest};

/// Whether to wait until the content is on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Eventually,
    Now,
}

pub(super) const OTHER_CONTENT: &str = "does not have the content that its name says";

impl Store {
    /// Checks a file, or a directory with all its members, and returns the stamps of the blobs. Bad blobs are moved to the
    /// trash.
    pub(super) fn check_stored(&self, stored: &Stored) -> Result<Vec<Stamp>, Flaw> {
        if !stored.directory {
            return Ok(vec![self.check_blob(stored.blob, Some(stored.bytes))?]);
        }
        let tree = self.read_tree(stored.blob)?;
        tree.files().map(|(_, blob, bytes)| self.check_blob(blob, Some(bytes))).collect()
    }

    /// Checks one blob, with one `stat` if its content is known to be undamaged, otherwise by reading it. Returns its stamp.
    pub(super) fn check_blob(&self, id: BlobId, bytes: Option<u64>) -> Result<Stamp, Flaw> {
        self.inspect_blob(id, bytes).map_err(|flaw| self.put_aside(flaw))
    }

    fn inspect_blob(&self, id: BlobId, bytes: Option<u64>) -> Result<Stamp, Flaw> {
        let path = self.layout.blob(id);
        let metadata = read_twice(|| path.symlink_metadata()).map_err(|e| Flaw::reading(&path, e))?;
        if !metadata.is_file() {
            return Err(Flaw::bad(&path, "is not a file"));
        }
        if bytes.is_some_and(|bytes| bytes != metadata.len()) {
            return Err(Flaw::bad(&path, "has the wrong size"));
        }
        match self.digest_file(&path, Stamp::of(&metadata)) {
            Ok((digest, stamp)) if digest == id.digest() => Ok(stamp),
            Ok(_) => Err(Flaw::bad(&path, OTHER_CONTENT)),
            Err(StoreError::Io { source, .. }) => Err(Flaw::reading(&path, source)),
            Err(error) => Err(Flaw::Unreadable(error)),
        }
    }

    /// Moves a bad blob to the trash, if the store may be written to, and says so.
    pub(super) fn put_aside(&self, flaw: Flaw) -> Flaw {
        match flaw {
            Flaw::Bad(path, flaw) if self.discard(&path) => {
                Flaw::Bad(path, format!("{flaw}; it was moved to the trash"))
            }
            flaw => flaw,
        }
    }

    /// Reads a blob that fits into memory and checks it. A bad one is moved to the trash.
    pub(super) fn read_blob(&self, id: BlobId) -> Result<Vec<u8>, Flaw> {
        self.peek_blob(id).map_err(|flaw| self.put_aside(flaw))
    }

    pub(super) fn read_tree(&self, id: BlobId) -> Result<Tree, Flaw> {
        self.peek_tree(id).map_err(|flaw| self.put_aside(flaw))
    }

    /// Like [`Store::read_tree`], but moves nothing to the trash.
    pub(super) fn peek_tree(&self, id: BlobId) -> Result<Tree, Flaw> {
        let no_listing = |flaw| Flaw::Missing(format!("blob {} is not a listing: {flaw}", id.short()));
        Tree::decode(&self.peek_blob(id)?).map_err(no_listing)
    }

    /// Reads a blob and checks it, but does not move a bad one.
    fn peek_blob(&self, id: BlobId) -> Result<Vec<u8>, Flaw> {
        let path = self.layout.blob(id);
        let bytes = read_twice(|| fs::read(&path)).map_err(|e| Flaw::reading(&path, e))?;
        if Digest::of(&bytes) == id.digest() { Ok(bytes) } else { Err(Flaw::bad(&path, OTHER_CONTENT)) }
    }

    /// Moves a file or directory that a stage wrote into the store. Fails soon after `give_up` returns true.
    pub(super) fn keep(
        &self,
        path: &Path,
        durability: Durability,
        give_up: GiveUp,
    ) -> Result<Stored, StoreError> {
        let metadata = path.symlink_metadata().map_err(|e| StoreError::reading(path, e))?;
        if metadata.is_dir() {
            self.keep_directory(path, durability, give_up)
        } else if metadata.is_file() {
            self.keep_file(path, durability, give_up)
        } else if metadata.is_symlink() {
            Err(StoreError::unusable(path, "an output must not be a symbolic link; write a copy instead"))
        } else {
            Err(StoreError::unusable(path, "an output must be a file or a directory"))
        }
    }

    fn keep_directory(
        &self,
        root: &Path,
        durability: Durability,
        give_up: GiveUp,
    ) -> Result<Stored, StoreError> {
        let keep = |WalkEntry { path, what }: &WalkEntry| {
            let node = match what {
                WalkKind::File { executable, .. } => {
                    let Stored { blob, bytes, .. } = self.keep_file(&root.join(path), durability, give_up)?;
                    TreeNode::File { executable: *executable, bytes, blob }
                }
                WalkKind::Link { target, .. } => TreeNode::Link { target: target.clone() },
                WalkKind::EmptyDirectory => TreeNode::EmptyDirectory,
            };
            Ok(TreeEntry { path: path.clone(), node })
        };
        let found = walk(root, OutsideLinks::Refuse)?.entries;
        let entries = in_parallel(
            || found.par_iter().map(keep).collect::<Result<_, StoreError>>(),
            || found.iter().map(keep).collect(),
        )?;
        let tree = Tree::new(entries);
        let listing = self.temp()?;
        fs::write(&listing, tree.encode()).map_err(|e| StoreError::writing(&listing, e))?;
        let Stored { blob, .. } = self.keep_file(&listing, durability, give_up)?;
        Ok(Stored { blob, bytes: tree.bytes(), directory: true })
    }

    fn keep_file(&self, path: &Path, durability: Durability, give_up: GiveUp) -> Result<Stored, StoreError> {
        if give_up() {
            return Err(StoreError::reading(
                path,
                io::Error::new(ErrorKind::Interrupted, "the run was stopped"),
            ));
        }
        self.keep_hashed(path, durability, |file, length| hash::file_unless(file, length, give_up))
    }

    /// Moves a file into the store. `hash` returns the digest of its content, given its size.
    pub(super) fn keep_hashed(
        &self,
        path: &Path,
        durability: Durability,
        hash: impl Fn(&File, u64) -> io::Result<Digest>,
    ) -> Result<Stored, StoreError> {
        let reading = |e| StoreError::reading(path, e);
        let metadata = path.symlink_metadata().map_err(reading)?;
        if metadata.nlink() > 1 {
            // Another program could write to it under its other name.
            let copy = self.temp()?;
            fs::copy(path, &copy).map_err(|e| StoreError::writing(&copy, e))?;
            return self.keep_hashed(&copy, durability, hash);
        }
        fs::set_permissions(path, Permissions::from_mode(0o444)).map_err(reading)?;
        let file = File::open(path).map_err(reading)?;
        file.set_modified(stamp::blob_time()).map_err(reading)?;
        let before = Stamp::of(&file.metadata().map_err(reading)?);
        let read_at = stamp::now();
        let digest = hash(&file, before.size).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => StoreError::Changing { path: path.to_owned() },
            _ => reading(error),
        })?;
        let stored = Stored { blob: BlobId::new(digest), bytes: before.size, directory: false };

        let there = self.layout.blob(stored.blob);
        let is_new = self.enter(path, &stored, &there)?;
        if durability == Durability::Now {
            // A blob that existed before is flushed, too: the short stage that wrote it may not have flushed it.
            File::open(&there)
                .and_then(|blob| blob.sync_all())
                .map_err(|e| StoreError::writing(&there, e))?;
            flush_name(&there)?;
        }
        let after = Stamp::of(&file.metadata().map_err(reading)?);
        if !before.same_writes(&after) {
            if is_new {
                self.discard(&there);
            }
            return Err(StoreError::Changing { path: path.to_owned() });
        }
        if is_new {
            self.stats.insert(after, digest, read_at);
        } else {
            let _ = fs::remove_file(path);
        }
        Ok(stored)
    }

    /// Moves a file to the path of its blob, unless an undamaged blob is there. Returns whether it did. It never
    /// replaces a blob: the stat cache may know it, and the next file could get the same inode in the same tick.
    fn enter(&self, path: &Path, stored: &Stored, there: &Path) -> Result<bool, StoreError> {
        let mut attempts = 3;
        loop {
            if there.symlink_metadata().is_ok() {
                match self.check_blob(stored.blob, Some(stored.bytes)) {
                    Ok(_) => return Ok(false),
                    Err(flaw) => {
                        self.warn(flaw.to_string());
                        // Our file has the right content, so that one that could not be read can go, too.
                        if matches!(flaw, Flaw::Unreadable(_)) {
                            self.discard(there);
                        }
                    }
                }
            }
            attempts -= 1;
            match move_into_place(path, there, RenameFlags::NOREPLACE) {
                // Another thread or process was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts > 0 => {}
                result => return result.map(|()| true).map_err(|e| StoreError::writing(there, e)),
            }
        }
    }
}

/// Renames, and creates the parent directory (the first digits of the name) if it does not exist.
pub(super) fn move_into_place(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    let rename = || match renameat_with(CWD, from, CWD, to, flags) {
        // Not every file system supports a rename that does not replace.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        result => Ok(result?),
    };
    match rename() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(to.parent().unwrap_or(to))?;
            rename()
        }
        result => result,
    }
}

/// Makes the name of a blob or manifest survive a power loss, also if its directory (the first digits) is new and nobody has
/// flushed it yet.
pub(super) fn flush_name(path: &Path) -> Result<(), StoreError> {
    sync_directory_of(path)?;
    sync_directory_of(path.parent().unwrap_or(path))
}

/// Makes a rename survive a power loss.
pub(super) fn sync_directory_of(path: &Path) -> Result<(), StoreError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let synced = File::open(&directory).and_then(|directory| directory.sync_all());
    synced.map_err(|e| StoreError::writing(&directory, e))
}
