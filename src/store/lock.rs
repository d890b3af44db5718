//! Locks between processes: `flock` on a file, which the kernel releases when its holder dies.
//! No pid is ever compared, so nothing goes stale.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::digest::StageKey;

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

/// The exclusive lock on one key: one byte of a file that all keys share, far beyond its end. No
/// file is made per key, which matters: making and deleting one costs more than all else that
/// a claim does.
#[derive(Debug)]
pub(super) struct KeyLock {
    file: File,
    byte: i64,
}

impl KeyLock {
    /// Nothing if another process, or another thread of ours, holds it.
    pub(super) fn try_acquire(path: &Path, key: StageKey) -> io::Result<Option<Self>> {
        let digest = key.digest();
        let (start, _) = digest.as_bytes().split_at(8);
        let byte = start.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte)) >> 2;
        let lock = Self { file: open(path)?, byte: byte as i64 };
        match lock.set(libc::F_WRLCK) {
            Ok(()) => Ok(Some(lock)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The lock belongs to the open file, so that threads exclude one another too, and the kernel
    /// releases it when the process dies.
    fn set(&self, kind: libc::c_int) -> io::Result<()> {
        // SAFETY: all bytes zero is a valid `flock`.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        range.l_start = self.byte;
        range.l_len = 1;
        // SAFETY: the descriptor is open, and the kernel only reads the range.
        match unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for KeyLock {
    /// Closing would do, but for a child that was forked just now and has not yet closed its copy.
    fn drop(&mut self) {
        let _ = self.set(libc::F_UNLCK);
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
    fn a_key_is_locked_by_one_and_other_keys_stay_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let key = |name: &str| StageKey::new(crate::digest::Digest::of(name.as_bytes()));
        let try_key = |name| KeyLock::try_acquire(&path, key(name)).unwrap();
        let held = try_key("a").unwrap();
        assert!(try_key("a").is_none());
        assert!(std::thread::scope(|scope| scope.spawn(|| try_key("a").is_none()).join().unwrap()));
        let other = try_key("b").unwrap();
        drop(held);
        assert!(try_key("a").is_some());
        assert!(try_key("b").is_none());
        drop(other);
        assert_eq!(path.metadata().unwrap().len(), 0);
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
