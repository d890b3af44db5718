//! Directories with installed packages: `packages/<digest>/`.
//!
//! Installed packages name their own path, so an installation cannot be moved into place when it is complete. Instead, the file
//! `ready` names it, and is written last. Two machines may not see each other's locks; then both install, and the last one
//! counts.
//!
//! ```text
//! packages/<digest>/
//!     ready               the name of the installation to use
//!     <name>/             an installation
//!     <name>.files        its files and their sizes, once it is complete: a damaged one is noticed
//!     <name>.machine      the machine that made it, which removes what its killed processes left
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Store;
use super::error::StoreError;
use super::lock::FileLock;
use super::session::{new_directory, remove_tree, time_of};
use pipe_core::digest::Digest;

/// The ending of the list of files of an installation.
const FILES: &str = "files";
/// The ending of the file with the name of the machine that installs.
const MACHINE: &str = "machine";
/// What another machine has not completed after this time was left by a killed process.
const LONGEST_INSTALLATION: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// The file that names the installation to use.
pub(super) const READY: &str = "ready";

/// The directory of all installations of the same packages.
#[derive(Debug)]
pub struct PackageDirectory {
    path: PathBuf,
    lock: PathBuf,
}

/// An installation that is not complete. It is removed when this is dropped.
pub struct Installation {
    path: PathBuf,
    ready: PathBuf,
    is_complete: bool,
    /// Lets other processes on this machine wait instead of doing the same.
    _lock: FileLock,
}

impl Store {
    /// Returns the directory for packages with this identity: everything that they are installed from.
    pub fn package_directory(&self, identity: &str) -> Result<PackageDirectory, StoreError> {
        self.session()?;
        let layout = self.packages_of.as_ref().unwrap_or(&self.layout);
        let all = layout.all_packages();
        // A store that was moved needs new installations.
        let digest = Digest::of(format!("{}\n{identity}", all.display()).as_bytes()).to_hex();
        let path = all.join(&digest);
        fs::create_dir_all(&path).map_err(|e| StoreError::writing(&path, e))?;
        let locks = layout.locks();
        fs::create_dir_all(&locks).map_err(|e| StoreError::writing(&locks, e))?;
        Ok(PackageDirectory { path, lock: locks.join(digest) })
    }

    /// Uses the packages of another store, and installs missing ones there.
    pub fn share_packages_of(&mut self, other: &Self) {
        self.packages_of = Some(other.layout.clone());
    }
}

impl PackageDirectory {
    /// Returns the installation to use, and notes that it is in use: garbage collection removes what was not used for long.
    pub fn installed(&self) -> Option<PathBuf> {
        let ready = self.path.join(READY);
        let name = fs::read_to_string(&ready).ok()?;
        let _ =
            File::options().write(true).open(&ready).and_then(|file| file.set_modified(SystemTime::now()));
        Some(self.path.join(name)).filter(|path| path.is_dir())
    }

    /// Forgets an installation that cannot be used any more. Other processes may still be using it.
    pub fn forget(&self) {
        let _ = fs::remove_file(self.path.join(READY));
    }

    /// Returns a file that a complete installation has lost, or whose size has changed.
    pub fn damaged_file(&self, installation: &Path) -> Option<String> {
        // Installations of older versions have no list.
        let list = fs::read_to_string(installation.with_extension(FILES)).ok()?;
        let is_damaged = |line: &&str| {
            line.split_once(' ').is_none_or(|(bytes, file)| {
                let metadata = installation.join(file).symlink_metadata();
                metadata.map_or(true, |metadata| metadata.len().to_string() != bytes)
            })
        };
        let damaged = list.lines().find(is_damaged)?;
        Some(damaged.split_once(' ').map_or(damaged, |(_, file)| file).to_owned())
    }

    /// Removes what killed installations left behind. Nobody else on this machine is installing, because the caller holds the
    /// lock.
    fn sweep(&self) {
        let ready = fs::read_to_string(self.path.join(READY)).unwrap_or_default();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_complete = entry.file_name() == *ready || path.with_extension(FILES).exists();
            if is_complete || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let marker = path.with_extension(MACHINE);
            let is_ours = fs::read_to_string(&marker).is_ok_and(|name| name == machine());
            let is_old = time_of(&path)
                .is_some_and(|time| jiff::Timestamp::now().duration_since(time) > LONGEST_INSTALLATION);
            if is_ours || is_old {
                let _ = remove_tree(&path);
                let _ = fs::remove_file(marker);
            }
        }
    }

    /// Begins an installation; `None` while another process or thread is doing the same.
    pub fn try_begin(&self) -> Result<Option<Installation>, StoreError> {
        let writing = |error| StoreError::writing(&self.path, error);
        let Some(lock) = FileLock::try_acquire(&self.lock).map_err(writing)? else { return Ok(None) };
        self.sweep();
        let path = new_directory(&self.path).map_err(writing)?;
        fs::write(path.with_extension(MACHINE), machine()).map_err(writing)?;
        Ok(Some(Installation { path, ready: self.path.join(READY), is_complete: false, _lock: lock }))
    }
}

impl Installation {
    /// Returns the directory to install into, which is empty.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes this the installation to use.
    pub fn commit(mut self) -> Result<PathBuf, StoreError> {
        self.publish().map_err(|error| StoreError::writing(&self.ready, error))?;
        self.is_complete = true;
        Ok(self.path.clone())
    }

    fn publish(&self) -> io::Result<()> {
        // Thousands of files, none of which has a checksum: a power loss must not leave them torn behind `ready`.
        fs::write(self.path.with_extension(FILES), list_of_files(&self.path)?)?;
        rustix::fs::syncfs(File::open(&self.path)?)?;
        let name = self.path.file_name().unwrap_or_default();
        let temporary = self.path.with_extension(READY);
        fs::write(&temporary, name.as_encoded_bytes())?;
        fs::rename(&temporary, &self.ready)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = remove_tree(&self.path);
            let _ = fs::remove_file(self.path.with_extension(MACHINE));
        }
    }
}

/// Returns the files of an installation, one per line with its size. Python writes and replaces `__pycache__` itself.
fn list_of_files(installation: &Path) -> io::Result<String> {
    let mut list = String::new();
    let mut directories = vec![installation.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "__pycache__" {
                    directories.push(entry.path());
                }
            } else if let Some(file) = entry.path().strip_prefix(installation).ok().and_then(Path::to_str)
                && !file.contains('\n')
            {
                list.push_str(&format!("{} {file}\n", entry.metadata()?.len()));
            }
        }
    }
    Ok(list)
}

/// Returns the name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::GcRequest;

    #[test]
    fn packages_count_as_installed_only_when_the_installation_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let directory = store.package_directory("numpy").unwrap();
        assert_eq!(directory.installed(), None);
        let failed = directory.try_begin().unwrap().unwrap();
        assert!(directory.try_begin().unwrap().is_none(), "one at a time");
        let left_over = failed.path().to_owned();
        fs::write(left_over.join("half"), "").unwrap();
        assert_eq!(directory.installed(), None);
        drop(failed);
        assert!(!left_over.exists());
        let path = directory.try_begin().unwrap().unwrap().commit().unwrap();
        assert_eq!(directory.installed(), Some(path));
        assert_eq!(store.package_directory("scipy").unwrap().installed(), None);
        directory.forget();
        assert_eq!(directory.installed(), None);
    }

    #[test]
    fn an_installation_that_lost_a_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Store::open(dir.path()).unwrap().package_directory("numpy").unwrap();
        let installation = directory.try_begin().unwrap().unwrap();
        fs::create_dir_all(installation.path().join("lib/__pycache__")).unwrap();
        for file in ["lib/a b.py", "lib/__pycache__/a.pyc"] {
            fs::write(installation.path().join(file), "text").unwrap();
        }
        std::os::unix::fs::symlink("/bin/sh", installation.path().join("python")).unwrap();
        let path = installation.commit().unwrap();
        assert_eq!(directory.damaged_file(&path), None);
        fs::remove_file(path.join("lib/__pycache__/a.pyc")).unwrap();
        fs::write(path.join("lib/new.py"), "").unwrap();
        assert_eq!(directory.damaged_file(&path), None);
        fs::write(path.join("lib/a b.py"), "te").unwrap();
        assert_eq!(directory.damaged_file(&path).as_deref(), Some("lib/a b.py"));
        fs::write(path.join("lib/a b.py"), "text").unwrap();
        fs::remove_file(path.join("python")).unwrap();
        assert_eq!(directory.damaged_file(&path).as_deref(), Some("python"));
    }

    #[test]
    fn the_next_installation_removes_what_a_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Store::open(dir.path()).unwrap().package_directory("numpy").unwrap();
        let used = directory.try_begin().unwrap().unwrap().commit().unwrap();
        let left = |name: &str, machine: &str| {
            let path = directory.path.join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("half"), "").unwrap();
            fs::write(path.with_extension(MACHINE), machine).unwrap();
            path
        };
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let killed = left(&format!("{now}-killed"), &machine());
        let elsewhere = left(&format!("{now}-elsewhere"), "another-machine");
        let old = left("20200101T000000Z-old", "another-machine");
        drop(directory.try_begin().unwrap());
        assert!(used.exists() && elsewhere.exists(), "another machine may still be installing");
        assert!(!killed.exists() && !killed.with_extension(MACHINE).exists() && !old.exists());
    }

    #[test]
    fn a_store_can_use_the_packages_of_another_one() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = Store::open(dir.path()).unwrap();
        let path = store.package_directory("numpy").unwrap().try_begin().unwrap().unwrap().commit().unwrap();
        let mut sandbox = Store::open(other.path()).unwrap();
        assert_eq!(sandbox.package_directory("numpy").unwrap().installed(), None);
        sandbox.share_packages_of(&store);
        assert_eq!(sandbox.package_directory("numpy").unwrap().installed(), Some(path));
    }

    #[test]
    fn garbage_collection_removes_packages_that_were_not_used_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let directory = store.package_directory("numpy").unwrap();
        let installation = directory.try_begin().unwrap().unwrap();
        fs::write(installation.path().join("module.py"), "text").unwrap();
        installation.commit().unwrap();
        let keep = GcRequest { dry_run: false, min_age: Duration::ZERO, ..GcRequest::default() };
        assert_eq!(store.collect_garbage(&keep).unwrap().packages.items, 0);
        assert!(directory.installed().is_some());
        std::thread::sleep(Duration::from_millis(20));
        let report = store.collect_garbage(&GcRequest { grace: Duration::ZERO, ..keep }).unwrap();
        assert_eq!((report.packages.items, directory.installed()), (1, None));
        assert!(report.packages.bytes >= 4);
    }
}
