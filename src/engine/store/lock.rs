//! Locks between processes: `flock` on a file, which the kernel releases when its holder dies. Process ids are never
//! compared, so a lock cannot become stale.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, RenameFlags, fallocate};
use rustix::io::Errno;

use super::blob::{Durability, move_into_place};

/// An exclusive lock on a file that exists while the lock is held.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    file: File,
    /// The file has been moved away; a file at its old path belongs to another holder.
    moved: bool,
}

impl FileLock {
    /// Acquires the lock, or returns `None` if another process or thread holds it.
    pub(super) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        Self::try_acquire_with(path, open)
    }

    /// Like [`FileLock::try_acquire`], but fails if there is no such file, or a link in its place: in a directory to which other
    /// users can write, a link could lead anywhere.
    pub(super) fn try_acquire_existing(path: &Path) -> io::Result<Option<Self>> {
        Self::try_acquire_with(path, |path| {
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
        })
    }

    fn try_acquire_with(path: &Path, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<Option<Self>> {
        loop {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last holder may have removed the file between our opening and locking it: then we hold a lock
            // that no other process can see.
            if is_at(&file, path)? {
                return Ok(Some(Self { path: path.to_owned(), file, moved: false }));
            }
        }
    }
}

impl FileLock {
    /// Fills the lock's own file and moves it to `to`, still locked: the lock file becomes the result. Saving one file
    /// creation and removal matters on ext4, which for five seconds searches past every inode that was just removed.
    pub(super) fn become_file(
        &mut self,
        to: &Path,
        content: &[u8],
        durability: Durability,
    ) -> io::Result<()> {
        self.file.write_all_at(content, 0)?;
        // Gives back what is left of the reserve, and cuts off what a killed process left.
        self.file.set_len(content.len() as u64)?;
        if durability == Durability::Now {
            self.file.sync_all()?;
        }
        move_into_place(&self.path, to, RenameFlags::empty())?;
        self.moved = true;
        Ok(())
    }

    /// Reserves room on the disk for the content of [`FileLock::become_file`].
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // Not every file system can.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Returns whether other processes are still excluded.
    pub(super) fn is_held(&self) -> bool {
        !self.moved
    }
}

impl Drop for FileLock {
    /// Removes the file while the lock is still held; a process that waits on the removed file tries again. Another file at
    /// the path belongs to another holder, who made it after ours was removed with its directory.
    fn drop(&mut self) {
        if !self.moved && is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a lock file, and creates it if it does not exist.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match path.metadata() {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn a_held_lock_is_busy_and_a_dropped_one_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        drop(held);
        assert!(!path.exists());
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_became_a_file_does_not_remove_the_next_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (path, to) = (dir.path().join("lock"), dir.path().join("new/file"));
        fs::write(&path, "longer leftovers of a killed process").unwrap();
        let mut held = FileLock::try_acquire(&path).unwrap().unwrap();
        held.become_file(&to, b"content", Durability::Now).unwrap();
        let next = FileLock::try_acquire(&path).unwrap().unwrap();
        drop(held);
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        drop(next);
        assert_eq!(fs::read_to_string(&to).unwrap(), "content");
    }

    #[test]
    fn a_lock_does_not_remove_the_file_of_another_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let swept = FileLock::try_acquire(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let owner = FileLock::try_acquire(&path).unwrap().unwrap();
        drop(swept);
        assert!(FileLock::try_acquire(&path).unwrap().is_none(), "the owner still holds it");
        drop(owner);
    }

    #[test]
    fn removing_lock_files_never_lets_two_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (inside, entered) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        if let Some(_held) = FileLock::try_acquire(&path).unwrap() {
                            assert!(!inside.swap(true, Ordering::SeqCst));
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.store(false, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(entered.into_inner() > 0);
    }
}
