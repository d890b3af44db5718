//! Blobs: read-only files whose name is the blake3 of their bytes.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Store;
use super::error::StoreError;
use super::hash;
use super::manifest::Stored;
use super::stamp::{self, Stamp};
use super::tree::{Tree, TreeEntry, TreeNode};
use super::walk::{OutsideLinks, WalkEntry, WalkKind, walk};
use pipe_core::digest::{BlobId, Digest};

/// Whether to wait until the content is on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Eventually,
    Now,
}

impl Store {
    /// Checks a file, or a directory with all its members. Returns what is wrong as a sentence. Damaged blobs are
    /// moved to the trash.
    pub(super) fn check_stored(&self, stored: &Stored) -> Result<(), String> {
        if !stored.directory {
            return self.check_blob(stored.blob, Some(stored.bytes));
        }
        let tree = self.read_tree(stored.blob)?;
        tree.files().try_for_each(|(_, blob, bytes)| self.check_blob(blob, Some(bytes)))
    }

    /// Checks one blob: with one `stat` if its content is known to be undamaged, otherwise by reading it.
    pub(super) fn check_blob(&self, id: BlobId, bytes: Option<u64>) -> Result<(), String> {
        let path = self.layout.blob(id);
        let stamp = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_file() => Stamp::of(&metadata),
            Ok(_) => return Err(self.bad_blob(&path, "is not a file")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(format!("blob {} is missing", id.short()));
            }
            Err(error) => return Err(format!("blob {} cannot be read: {error}", id.short())),
        };
        if bytes.is_some_and(|bytes| bytes != stamp.size) {
            return Err(self.bad_blob(&path, "has the wrong size"));
        }
        match self.digest_file(&path, stamp) {
            Ok((digest, _)) if digest == id.digest() => Ok(()),
            Ok(_) => Err(self.bad_blob(&path, "does not have the content that its name says")),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn bad_blob(&self, path: &Path, flaw: &str) -> String {
        self.discard(path);
        format!("blob `{}` {flaw}", path.display())
    }

    /// Reads a blob that fits into memory and checks it. A damaged one is moved to the trash.
    pub(super) fn read_blob(&self, id: BlobId) -> Result<Vec<u8>, String> {
        match self.peek_blob(id)? {
            Some(bytes) => Ok(bytes),
            None => Err(self.bad_blob(&self.layout.blob(id), "does not have the content that its name says")),
        }
    }

    pub(super) fn read_tree(&self, id: BlobId) -> Result<Tree, String> {
        Tree::decode(&self.read_blob(id)?)
    }

    /// Like [`Store::read_tree`], but moves nothing to the trash.
    pub(super) fn peek_tree(&self, id: BlobId) -> Result<Tree, String> {
        let bytes = self.peek_blob(id)?.ok_or_else(|| format!("blob {} is bad", id.short()))?;
        Tree::decode(&bytes)
    }

    /// Reads a blob; `None` if the content does not match the name.
    fn peek_blob(&self, id: BlobId) -> Result<Option<Vec<u8>>, String> {
        match fs::read(self.layout.blob(id)) {
            Ok(bytes) => Ok((Digest::of(&bytes) == id.digest()).then_some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(format!("blob {} is missing", id.short()))
            }
            Err(error) => Err(format!("blob {} cannot be read: {error}", id.short())),
        }
    }

    /// Moves a file or directory that a stage wrote into the store.
    pub(super) fn keep(&self, path: &Path, durability: Durability) -> Result<Stored, StoreError> {
        let metadata = path.symlink_metadata().map_err(|e| StoreError::reading(path, e))?;
        if metadata.is_dir() {
            self.keep_directory(path, durability)
        } else if metadata.is_file() {
            self.keep_file(path, durability)
        } else if metadata.is_symlink() {
            Err(StoreError::unusable(path, "an output must not be a symbolic link; write a copy instead"))
        } else {
            Err(StoreError::unusable(path, "an output must be a file or a directory"))
        }
    }

    fn keep_directory(&self, root: &Path, durability: Durability) -> Result<Stored, StoreError> {
        let keep = |WalkEntry { path, what }| {
            let node = match what {
                WalkKind::File { executable, .. } => {
                    let Stored { blob, bytes, .. } = self.keep_file(&root.join(&path), durability)?;
                    TreeNode::File { executable, bytes, blob }
                }
                WalkKind::Link { target } => TreeNode::Link { target },
                WalkKind::EmptyDirectory => TreeNode::EmptyDirectory,
            };
            Ok(TreeEntry { path, node })
        };
        let found = walk(root, OutsideLinks::Refuse)?;
        let entries = found.into_par_iter().map(keep).collect::<Result<_, StoreError>>()?;
        let tree = Tree::new(entries);
        let listing = self.temp()?;
        fs::write(&listing, tree.encode()).map_err(|e| StoreError::writing(&listing, e))?;
        let Stored { blob, .. } = self.keep_file(&listing, durability)?;
        Ok(Stored { blob, bytes: tree.bytes(), directory: true })
    }

    fn keep_file(&self, path: &Path, durability: Durability) -> Result<Stored, StoreError> {
        let reading = |e| StoreError::reading(path, e);
        let metadata = path.symlink_metadata().map_err(reading)?;
        if metadata.nlink() > 1 {
            // Another program could write to it under its other name.
            let copy = self.temp()?;
            fs::copy(path, &copy).map_err(|e| StoreError::writing(&copy, e))?;
            return self.keep_file(&copy, durability);
        }
        fs::set_permissions(path, Permissions::from_mode(0o444)).map_err(reading)?;
        let file = File::open(path).map_err(reading)?;
        file.set_modified(stamp::blob_time()).map_err(reading)?;
        let before = Stamp::of(&file.metadata().map_err(reading)?);
        let read_at = stamp::now();
        let digest = hash::file(&file, before.size).map_err(|error| match error.kind() {
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
            sync_directory_of(&there)?;
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
            if there.exists() {
                match self.check_blob(stored.blob, Some(stored.bytes)) {
                    Ok(()) => return Ok(false),
                    Err(flaw) => self.warn(flaw),
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

/// Makes a rename survive a power loss.
pub(super) fn sync_directory_of(path: &Path) -> Result<(), StoreError> {
    let directory = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let synced = File::open(&directory).and_then(|directory| directory.sync_all());
    synced.map_err(|e| StoreError::writing(&directory, e))
}
