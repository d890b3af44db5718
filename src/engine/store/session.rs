//! What a process holds while it may write to a store: a share of the store-wide lock, a directory for temporary
//! files, and a directory in the trash.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::blob::sync_directory_of;
use super::error::StoreError;
use super::layout::Layout;
use super::lock::{self, FileLock};
use super::stamp;
use pipe_core::digest::Digest;

/// How long to wait for a garbage collection in another process, which holds the lock only while it renames files.
const PATIENCE: Duration = Duration::from_secs(30);

/// The resources of one process in one store.
pub(super) struct Session {
    owner: Mutex<Option<Owner>>,
    trash: Mutex<Option<PathBuf>>,
    /// Released last. `None` in a job on a cluster.
    gc_lock: Option<GcLock>,
}

struct GcLock(File);

impl Drop for GcLock {
    /// Unlocks explicitly: closing is not enough while a child that is being started has a copy of the descriptor.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Session {
    /// Creates what is missing and removes what dead processes left behind.
    pub(super) fn begin(layout: &Layout) -> Result<Self, StoreError> {
        let mut is_new = false;
        for directory in layout.directories() {
            is_new |= !directory.exists();
            fs::create_dir_all(&directory).map_err(|e| StoreError::writing(&directory, e))?;
        }
        if is_new {
            for path in layout.tag().ancestors().take(3) {
                // A directory that may not be read cannot be flushed.
                let _ = sync_directory_of(path);
            }
        }
        let path = layout.gc_lock();
        let gc_lock = lock::open(&path).map_err(|e| StoreError::writing(&path, e))?;
        for (path, text) in layout.fixed_files() {
            write_fixed(&path, text).map_err(|e| StoreError::writing(&path, e))?;
        }
        let session =
            Self { owner: Mutex::default(), trash: Mutex::default(), gc_lock: Some(GcLock(gc_lock)) };
        session.share(layout)?;
        sweep(&layout.tmp());
        Ok(session)
    }

    /// Begins a session that holds no locks and removes nothing of others, for a job on another machine: not every network
    /// file system shows the locks of one machine to another. Temporary files are made in a new directory in `parent`.
    pub(super) fn without_locks(parent: &Path) -> Result<Self, StoreError> {
        let directory = fs::create_dir_all(parent).and_then(|()| new_directory(parent));
        let directory = directory.map_err(|e| StoreError::writing(parent, e))?;
        let owner = Mutex::new(Some(Owner { directory, given: 0, lock: None }));
        Ok(Self { owner, trash: Mutex::default(), gc_lock: None })
    }

    fn share(&self, layout: &Layout) -> Result<(), StoreError> {
        let start = Instant::now();
        let Some(gc_lock) = &self.gc_lock else { return Ok(()) };
        loop {
            match gc_lock.0.try_lock_shared() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy { root: layout.root().to_owned() });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::writing(&layout.gc_lock(), error));
                }
            }
        }
    }

    /// Runs `work` while no other process has the store open for writing.
    pub(super) fn alone<T>(
        &self,
        layout: &Layout,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(gc_lock) = &self.gc_lock else {
            return Err(StoreError::Busy { root: layout.root().to_owned() });
        };
        let result = match gc_lock.0.try_lock() {
            Ok(()) => work(),
            Err(TryLockError::WouldBlock) => Err(StoreError::Busy { root: layout.root().to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::writing(&layout.gc_lock(), error)),
        };
        // In both cases the shared lock was given up for the exclusive one.
        self.share(layout)?;
        result
    }

    /// Returns a new path for a temporary file or directory on the file system of the store.
    pub(super) fn temp(&self, layout: &Layout) -> Result<PathBuf, StoreError> {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = match &mut *owner {
            Some(owner) => owner,
            none => {
                let new = Owner::new(&layout.tmp()).map_err(|e| StoreError::writing(&layout.tmp(), e))?;
                none.insert(new)
            }
        };
        owner.given += 1;
        Ok(owner.directory.join(owner.given.to_string()))
    }

    /// Moves a file of the store to the trash, under its old name.
    pub(super) fn discard(&self, layout: &Layout, path: &Path) -> Result<(), StoreError> {
        let relative = path.strip_prefix(layout.base()).unwrap_or(path);
        let moved = self.move_to_trash(layout, path, relative).or_else(|error| match error.kind() {
            // Something else with this name was discarded before.
            ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::DirectoryNotEmpty => {
                self.trash.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.move_to_trash(layout, path, relative)
            }
            _ => Err(error),
        });
        moved.map_err(|e| StoreError::writing(path, e))
    }

    fn move_to_trash(&self, layout: &Layout, path: &Path, relative: &Path) -> io::Result<()> {
        let to = self.trash(layout)?.join(relative);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        match fs::rename(path, &to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn trash(&self, layout: &Layout) -> io::Result<PathBuf> {
        let mut trash = self.trash.lock().unwrap_or_else(PoisonError::into_inner);
        match &*trash {
            Some(path) => Ok(path.clone()),
            None => Ok(trash.insert(new_directory(&layout.trash())?).clone()),
        }
    }
}

/// Writes a file that always has the same text if something else, or nothing, is there. A link is replaced, not followed.
fn write_fixed(path: &Path, text: &str) -> io::Result<()> {
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file && fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    let removed = if path.is_dir() && !path.is_symlink() { remove_tree(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::write(path, text),
    }
}

/// A temporary file that is removed when this is dropped, unless it was renamed before.
pub(super) struct Temp(pub(super) PathBuf);

impl Deref for Temp {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Temp {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A temporary directory, which is removed with its content when this is dropped.
#[derive(Debug)]
pub struct Scratch(pub(super) PathBuf);

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.0);
    }
}

/// `tmp/<owner>/`, or a directory outside of the store: removed when its process ends, or by the next process if it was
/// killed.
pub(super) struct Owner {
    pub(super) directory: PathBuf,
    given: u64,
    lock: Option<FileLock>,
}

/// The name of the lock in the directory of an owner.
pub(super) const LOCK: &str = "lock";

impl Owner {
    fn new(tmp: &Path) -> io::Result<Self> {
        Self::in_new(|| new_directory(tmp))
    }

    /// Takes over the directory that `create` creates.
    pub(super) fn in_new(create: impl Fn() -> io::Result<PathBuf>) -> io::Result<Self> {
        loop {
            let directory = create()?;
            // Another process may remove the directory as a dead one before we hold its lock; then try again.
            match FileLock::try_acquire(&directory.join(LOCK)) {
                Ok(Some(lock)) => return Ok(Self { directory, given: 0, lock: Some(lock) }),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    // These open nothing, so that they work even without a free file descriptor.
                    let _ = fs::remove_file(directory.join(LOCK));
                    let _ = fs::remove_dir(&directory);
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = remove_tree(&self.directory);
        drop(self.lock.take());
    }
}

impl Owner {
    /// Gives the directory away: nobody removes it any more. Returns its path.
    pub(super) fn give_away(mut self) -> PathBuf {
        drop(self.lock.take());
        std::mem::take(&mut ManuallyDrop::new(self).directory)
    }
}

/// Removes the temporary directories of dead processes.
fn sweep(tmp: &Path) {
    for entry in fs::read_dir(tmp).into_iter().flatten().flatten() {
        let directory = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(Some(_dead)) = FileLock::try_acquire(&directory.join(LOCK))
        {
            let _ = remove_tree(&directory);
        }
    }
}

/// Deletes a file, or a directory with its content, for good.
pub(super) fn delete(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) if path.is_dir() => remove_tree(path),
        result => result,
    }
}

/// Removes a directory with its content, even if a stage left directories without write permission in it.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            make_writable(path)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn make_writable(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

/// Creates a directory that is named by the time, so that names sort by age.
pub(super) fn new_directory(parent: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let salt = Digest::of(format!("{} {} {count}", stamp::now(), std::process::id()).as_bytes());
        let time = jiff::Timestamp::now().strftime(TIME_FORMAT);
        let path = parent.join(format!("{time}-{}", &salt.to_hex()[..8]));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => return result.map(|()| path),
        }
    }
}

const TIME_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// Returns when [`new_directory`] created a directory, according to its name.
pub(super) fn time_of(directory: &Path) -> Option<jiff::Timestamp> {
    let (time, _) = directory.file_name()?.to_str()?.split_once('-')?;
    let time = jiff::civil::DateTime::strptime(TIME_FORMAT, time).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_processes_are_removed_and_those_of_living_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let living = Owner::new(dir.path()).unwrap();
        fs::write(living.directory.join("1"), "at work").unwrap();
        let dead = dir.path().join("20200101T000000Z-dead");
        fs::create_dir_all(dead.join("7/deep")).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let killed_at_once = dir.path().join("20200101T000000Z-killed");
        fs::create_dir(&killed_at_once).unwrap();
        sweep(dir.path());
        assert!(living.directory.join("1").exists());
        assert!(!dead.exists() && !killed_at_once.exists());
        let directory = living.directory.clone();
        drop(living);
        assert!(!directory.exists());
    }

    #[test]
    fn a_tag_that_is_torn_or_a_link_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let tag = dir.path().join("CACHEDIR.TAG");
        let states: [&dyn Fn(); 4] = [
            &|| {},
            &|| fs::write(&tag, "Signature: 8a477f").unwrap(),
            &|| std::os::unix::fs::symlink("nothing", &tag).unwrap(),
            &|| fs::create_dir(&tag).unwrap(),
        ];
        for make in states {
            make();
            write_fixed(&tag, "the text").unwrap();
            assert!(tag.symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read_to_string(&tag).unwrap(), "the text");
            fs::remove_file(&tag).unwrap();
        }
    }

    #[test]
    fn two_things_with_one_name_can_be_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        let session = Session::begin(&layout).unwrap();
        let path = layout.blobs().join("ab");
        for _ in 0..2 {
            fs::write(&path, "a file").unwrap();
            session.discard(&layout, &path).unwrap();
            fs::create_dir(&path).unwrap();
            fs::write(path.join("in it"), "").unwrap();
            session.discard(&layout, &path).unwrap();
        }
        assert!(!path.exists());
    }

    #[test]
    fn directories_carry_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let made = new_directory(dir.path()).unwrap();
        let age = jiff::Timestamp::now().duration_since(time_of(&made).unwrap());
        assert!(age.as_secs() < 5, "{age:?}");
        assert_eq!(time_of(Path::new("something-else")), None);
    }
}
