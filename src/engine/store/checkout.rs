//! Gives content of the store to others: as a path for a stage to read, as bytes, or as a copy for a person.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::Store;
use super::blob::{OTHER_CONTENT, sync_directory_of};
use super::error::{Flaw, StoreError, read_twice};
use super::hash;
use super::manifest::Stored;
use super::outside::TemporaryDirectory;
use super::placed_mark::mark;
use super::session::{delete, new_directory, remove_tree};
use super::stamp::Stamp;
use super::tree::{Tree, TreeNode};
use pipe_core::copy_rest::copy_rest;
use pipe_core::digest::BlobId;

/// The stamps of the blobs of an artifact when it was checked.
#[derive(Debug)]
pub struct Seen(Vec<Stamp>);

impl Seen {
    /// Returns whether no blob was written to or replaced in between, not even for a moment.
    pub fn is_same(&self, later: &Self) -> bool {
        self.0 == later.0
    }
}

impl Store {
    /// Checks an artifact and returns what it looks like.
    pub fn inspect_artifact(&self, stored: &Stored) -> Result<Seen, StoreError> {
        self.check_stored(stored).map(Seen).map_err(|flaw| self.lost(flaw))
    }

    /// Returns a path where a stage can read the artifact. For a file it is the blob itself; for a directory a tree of
    /// symbolic links below `view`, which the caller has to remove.
    pub fn artifact(&self, stored: &Stored, view: &Path) -> Result<PathBuf, StoreError> {
        self.inspect_artifact(stored)?;
        self.checked_artifact(stored, view)
    }

    /// Like [`Store::artifact`], for an artifact that has just been checked.
    pub fn checked_artifact(&self, stored: &Stored, view: &Path) -> Result<PathBuf, StoreError> {
        if !stored.directory {
            return Ok(self.layout.blob(stored.blob));
        }
        let directory = view.join(&stored.blob.digest().to_hex()[..16]);
        fs::create_dir_all(view).map_err(|e| StoreError::writing(view, e))?;
        match fs::create_dir(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(directory),
            Err(error) => return Err(StoreError::writing(&directory, error)),
        }
        let tree = self.read_tree(stored.blob).map_err(|flaw| self.lost(flaw))?;
        let made = self.build(&tree, &directory, |blob, executable, to| {
            if executable {
                // Blobs are not executable, so a link is not enough.
                self.copy(blob, to)?;
                fs::set_permissions(to, Permissions::from_mode(0o555)).map_err(|e| StoreError::writing(to, e))
            } else {
                symlink(self.layout.blob(blob), to).map_err(|e| StoreError::writing(to, e))
            }
        });
        made.inspect_err(|_| drop(remove_tree(&directory)))?;
        Ok(directory)
    }

    /// Reads a file that fits into memory and checks it.
    pub fn read(&self, stored: &Stored) -> Result<Vec<u8>, StoreError> {
        self.read_blob(stored.blob).map_err(|flaw| self.lost(flaw))
    }

    /// Copies the artifact to `to`, replacing what is there, atomically. The copy is hashed, so that it
    /// matches the manifest even if the disk is damaged.
    pub fn place(&self, stored: &Stored, to: &Path) -> Result<(), StoreError> {
        if self.owns(to) {
            return Err(StoreError::unusable(to, "it is inside the cache, so nothing may be placed there"));
        }
        let writing = |e| StoreError::writing(to, e);
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(writing)?;
        // Through a temporary file in the store, where leftovers of a killed process are removed, if a rename can
        // leave the store.
        let temp = self.session()?.temp(&self.layout)?;
        if self.place_by_way_of(&temp, &self.layout.trash(), stored, to)? == Placed::OnAnotherFileSystem {
            let beside = TemporaryDirectory::new_in(parent).map_err(writing)?;
            let placed = self.place_by_way_of(&beside.join("new"), &beside, stored, to)?;
            if placed == Placed::OnAnotherFileSystem {
                return Err(writing(ErrorKind::CrossesDevices.into()));
            }
        }
        Ok(())
    }

    /// Copies and flushes: a power loss must not leave half a table in the results directory.
    fn copy_and_flush(&self, blob: BlobId, executable: bool, to: &Path) -> Result<(), StoreError> {
        let copy = self.copy(blob, to)?;
        if executable {
            add_executable(to)?;
        }
        copy.sync_all().map_err(|e| StoreError::writing(to, e))
    }

    /// Makes the copy at `temp` and moves it to `to`. `replaced` is the directory for what is there, if it cannot be exchanged.
    fn place_by_way_of(
        &self,
        temp: &Path,
        replaced: &Path,
        stored: &Stored,
        to: &Path,
    ) -> Result<Placed, StoreError> {
        let made = if stored.directory {
            let tree = self.read_tree(stored.blob).map_err(|flaw| self.lost(flaw))?;
            fs::create_dir(temp)
                .map_err(|e| StoreError::writing(temp, e))
                .and_then(|()| {
                    self.build(&tree, temp, |blob, executable, to| self.copy_and_flush(blob, executable, to))
                })
                .and_then(|()| flush_directories(temp))
        } else {
            self.copy_and_flush(stored.blob, false, temp)
        };
        let swapped = made.and_then(|()| {
            mark(temp, stored.blob);
            match swap(temp, to, replaced) {
                // Before the replaced directory is removed: names may reach the disk in any order.
                Ok(()) => sync_directory_of(to).map(|()| Placed::Done),
                Err(error) if error.kind() == ErrorKind::CrossesDevices => Ok(Placed::OnAnotherFileSystem),
                Err(error) => Err(StoreError::writing(to, error)),
            }
        });
        // What is here now is either our unfinished copy or the replaced file.
        if temp.is_dir() {
            let _ = remove_tree(temp);
        } else {
            let _ = fs::remove_file(temp);
        }
        swapped
    }

    /// Makes a verified copy, which shares blocks with the blob where the file system supports it.
    fn copy(&self, blob: BlobId, to: &Path) -> Result<File, StoreError> {
        let writing = |e| StoreError::writing(to, e);
        let from = self.layout.blob(blob);
        let opened = read_twice(|| File::open(&from));
        let mut source = opened.map_err(|e| self.lost(self.put_aside(Flaw::reading(&from, e))))?;
        let mut copy =
            OpenOptions::new().read(true).write(true).create_new(true).open(to).map_err(writing)?;
        let length = copy_rest(&mut source, &mut copy).map_err(writing)?;
        if hash::file(&copy, length).map_err(writing)? != blob.digest() {
            return Err(self.lost(self.put_aside(Flaw::bad(&from, OTHER_CONTENT))));
        }
        Ok(copy)
    }

    fn build(
        &self,
        tree: &Tree,
        root: &Path,
        mut file: impl FnMut(BlobId, bool, &Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for entry in tree.entries() {
            let to = root.join(&entry.path);
            let writing = |e| StoreError::writing(&to, e);
            if let Some(parent) = to.parent().filter(|parent| *parent != root) {
                fs::create_dir_all(parent).map_err(writing)?;
            }
            match &entry.node {
                TreeNode::File { executable, blob, .. } => file(*blob, *executable, &to)?,
                TreeNode::Link { target } => symlink(target, &to).map_err(writing)?,
                TreeNode::EmptyDirectory => fs::create_dir(&to).map_err(writing)?,
            }
        }
        Ok(())
    }

    fn lost(&self, flaw: Flaw) -> StoreError {
        let error = flaw.into_error();
        if let StoreError::Damaged { what } = &error {
            self.warn(what.clone());
        }
        error
    }
}

#[derive(PartialEq)]
enum Placed {
    Done,
    OnAnotherFileSystem,
}

/// Moves `new` to `to`. A directory that is already there is exchanged with it or, if the file system cannot do that, moved
/// into `replaced` first. Tries again if another runner, perhaps on another machine, places something at the same path meanwhile.
fn swap(new: &Path, to: &Path, replaced: &Path) -> io::Result<()> {
    const TRIES: usize = 5;
    let mut result = fs::rename(new, to);
    for _ in 0..TRIES {
        match &result {
            Err(error) if is_in_the_way(error) => {}
            _ => break,
        }
        match renameat_with(CWD, new, CWD, to, RenameFlags::EXCHANGE) {
            Err(Errno::NOENT) => {}
            // Not every file system can: an overlay says that the two are on different ones.
            Err(Errno::INVAL | Errno::NOSYS | Errno::XDEV) => move_aside(to, replaced)?,
            exchanged => return Ok(exchanged?),
        }
        result = fs::rename(new, to);
    }
    result
}

/// Moves a file or directory as a whole to a new directory in `replaced`. It is not deleted: file systems that cannot exchange
/// two directories are mostly network file systems, and there another machine may still see it at its old path for a while.
/// That machine has to see all of it, or it would take it for edited by hand.
fn move_aside(path: &Path, replaced: &Path) -> io::Result<()> {
    match fs::rename(path, new_directory(replaced)?.join("replaced")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // An overlay does not move directories of a lower layer.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => delete(path),
        moved => moved,
    }
}

/// Returns whether something could not be moved because of what is at its new path: one of the two is a directory.
fn is_in_the_way(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DirectoryNotEmpty
            | ErrorKind::AlreadyExists
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
    )
}

/// Flushes the names in a directory and in those below it, which POSIX does not promise for a flush of the files.
fn flush_directories(directory: &Path) -> Result<(), StoreError> {
    let flush = |directory: &Path| {
        let mut below = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                below.push(entry.path());
            }
        }
        File::open(directory)?.sync_all()?;
        Ok(below)
    };
    for below in flush(directory).map_err(|e| StoreError::writing(directory, e))? {
        flush_directories(&below)?;
    }
    Ok(())
}

/// Makes a file executable for everyone who may read it.
fn add_executable(path: &Path) -> Result<(), StoreError> {
    let add = |path: &Path| {
        let mode = path.metadata()?.permissions().mode();
        fs::set_permissions(path, Permissions::from_mode(mode | (mode & 0o444) >> 2))
    };
    add(path).map_err(|e| StoreError::writing(path, e))
}

#[cfg(test)]
mod tests {
    use super::super::is_marked;
    use super::super::testing::*;
    use super::*;
    use std::process::Command;

    fn store_with(make: impl FnOnce(&Path)) -> (tempfile::TempDir, Store, Stored) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let stored = commit(&store, "a", make).outputs["out"];
        (dir, store, stored)
    }

    #[test]
    fn a_directory_comes_back_as_it_was() {
        let (dir, store, stored) = store_with(make_tree);
        let original = dir.path().join("original");
        make_tree(&original);
        assert!(stored.directory);
        assert_eq!(store.digest_user_file(&original).unwrap().blob, stored.blob);

        let placed = dir.path().join("results/placed");
        store.place(&stored, &placed).unwrap();
        let source = store.digest_user_file(&placed).unwrap();
        assert_eq!((source.blob, source.bytes), (stored.blob, stored.bytes));
        assert!(placed.join("empty/inside").is_dir());
        let mode = placed.join("plain").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o200, 0o200, "a person may write to it");
        assert!(!is_marked(&original, stored.blob));
        mark(&original, stored.blob);
        let can_be_marked = is_marked(&original, stored.blob);
        assert_eq!(is_marked(&placed, stored.blob), can_be_marked);
    }

    #[test]
    fn a_view_of_a_directory_reads_like_it() {
        let (dir, store, stored) = store_with(make_tree);
        let view = store.artifact(&stored, &dir.path().join("views")).unwrap();
        assert_eq!(fs::read_to_string(view.join("deep/link")).unwrap(), "plain");
        assert_eq!(fs::read_to_string(view.join("deep/er/a file\nwith \\ odd names")).unwrap(), "odd");
        assert!(view.join("empty/inside").is_dir());
        let output = Command::new(view.join("run.sh")).output().unwrap();
        assert_eq!(output.stdout, b"ran\n");
        assert!(fs::symlink_metadata(view.join("plain")).unwrap().is_symlink(), "nothing is copied");
        assert_eq!(store.artifact(&stored, &dir.path().join("views")).unwrap(), view);
    }

    #[test]
    fn placing_replaces_files_and_directories() {
        let (dir, store, tree) = store_with(make_tree);
        let text = commit_text(&store, "text", "new").outputs["out"];
        let (file, directory) = (dir.path().join("file"), dir.path().join("directory"));
        fs::write(&file, "old and longer").unwrap();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("stale"), "").unwrap();
        store.place(&text, &directory).unwrap();
        assert_eq!(fs::read_to_string(&directory).unwrap(), "new", "in place of a directory");
        store.place(&text, &file).unwrap();
        store.place(&tree, &directory).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(store.digest_user_file(&directory).unwrap().blob, tree.blob);
        assert_eq!(store.usage().unwrap().temporary.items, 1, "only the owner's lock is left");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "the store and what was placed");
    }

    #[test]
    fn a_directory_that_another_machine_still_sees_stays_complete_when_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (placed, trash) = (dir.path().join("placed"), dir.path().join("trash"));
        make_tree(&placed);
        fs::create_dir(&trash).unwrap();
        let store = Store::open(&dir.path().join("cache")).unwrap();
        let before = store.digest_user_file(&placed).unwrap().blob;
        let seen = File::open(&placed).unwrap();
        move_aside(&placed, &trash).unwrap();
        move_aside(&placed, &trash).unwrap();
        assert!(!placed.exists(), "the new one can be moved there");
        let seen = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&seen)));
        assert_eq!(store.digest_user_file(&seen).unwrap().blob, before);
    }

    #[test]
    fn an_artifact_can_be_placed_on_another_disk() {
        let Some(disk) = SmallDisk::mount("1m") else { return };
        let (_dir, store, tree) = store_with(make_tree);
        let text = commit_text(&store, "text", "new").outputs["out"];
        for _ in 0..2 {
            store.place(&text, &disk.path().join("file")).unwrap();
            store.place(&tree, &disk.path().join("directory")).unwrap();
        }
        let left_by_a_killed_process = disk.path().join(".pipe-tmp-0123456789abcdef");
        fs::create_dir(&left_by_a_killed_process).unwrap();
        store.place(&text, &disk.path().join("file")).unwrap();
        assert!(!left_by_a_killed_process.exists());
        assert_eq!(fs::read_to_string(disk.path().join("file")).unwrap(), "new");
        assert_eq!(store.digest_user_file(&disk.path().join("directory")).unwrap().blob, tree.blob);
        assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 2);
    }

    #[test]
    fn damaged_content_is_never_placed() {
        let (dir, store, stored) = store_with(|out| fs::write(out, "good").unwrap());
        let to = dir.path().join("file");
        fs::write(&to, "what was there").unwrap();
        flip_bit(&store.layout.blob(stored.blob), 1);
        assert!(matches!(store.place(&stored, &to), Err(StoreError::Damaged { .. })));
        assert_eq!(fs::read_to_string(&to).unwrap(), "what was there");
        assert!(matches!(store.artifact(&stored, dir.path()), Err(StoreError::Damaged { .. })));
        assert!(matches!(store.read(&stored), Err(StoreError::Damaged { .. })));
        assert!(!store.warnings().is_empty());
    }
}
