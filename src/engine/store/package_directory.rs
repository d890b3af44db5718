//! Directories with installed packages: `packages/<digest>/`.
//!
//! Installed packages name their own path, so an installation cannot be moved into place when it is complete. Instead, the file
//! `ready` names it, and is written last. Two machines may not see each other's locks; then both install, and the last one
//! counts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Store;
use super::error::StoreError;
use super::lock::FileLock;
use super::session::{new_directory, remove_tree};
use pipe_core::digest::Digest;

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
        let all = self.layout.all_packages();
        // A store that was moved needs new installations.
        let digest = Digest::of(format!("{}\n{identity}", all.display()).as_bytes()).to_hex();
        let path = all.join(&digest);
        fs::create_dir_all(&path).map_err(|e| StoreError::writing(&path, e))?;
        Ok(PackageDirectory { path, lock: self.layout.locks().join(digest) })
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

    /// Begins an installation; `None` while another process or thread is doing the same.
    pub fn try_begin(&self) -> Result<Option<Installation>, StoreError> {
        let writing = |error| StoreError::writing(&self.path, error);
        let Some(lock) = FileLock::try_acquire(&self.lock).map_err(writing)? else { return Ok(None) };
        let path = new_directory(&self.path).map_err(writing)?;
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
        }
    }
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
