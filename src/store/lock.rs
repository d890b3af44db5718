//! Locks between processes: `flock` on a file, which the kernel releases when its holder dies.
//! No pid is ever compared, so nothing goes stale.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An exclusive lock on a file that exists as long as somebody holds it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Nothing if somebody else holds it.
    pub(super) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last holder may have removed the file between our opening and locking it: then
            // we hold a lock that nobody else can see.
            if is_at(&file, path)? {
                return Ok(Some(Self { path: path.to_owned(), _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    /// Removed while still held; whoever waits on the removed file looks again.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a lock file, making it if need be.
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
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        drop(held);
        assert!(!path.exists());
        assert!(Lock::try_acquire(&path).unwrap().is_some());
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
                        if let Some(_held) = Lock::try_acquire(&path).unwrap() {
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
