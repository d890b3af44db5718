//! Temporary files outside of the store, which a killed process does not leave behind for ever.

use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::session::{Owner, sweep};

/// The start of the names of temporary directories outside of the store.
const PREFIX: &str = ".pipe-";

/// A temporary directory beside files of the user. It is removed when this is dropped or, if its process was killed, when the
/// next one is created in the same place.
pub struct TemporaryDirectory(Owner);

impl TemporaryDirectory {
    /// Creates one in a directory, and removes those that dead processes left there.
    pub fn new_in(parent: &Path) -> io::Result<Self> {
        sweep(parent, PREFIX);
        Owner::named(parent, PREFIX).map(Self)
    }

    /// Creates one in the system's directory for temporary files.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Keeps the directory for the user, under a name without a leading dot. Returns its path.
    pub fn keep(self) -> io::Result<PathBuf> {
        let hidden = &self.0.directory;
        let name = hidden.file_name().unwrap_or_default().to_string_lossy().replacen(PREFIX, "", 1);
        let kept = hidden.with_file_name(format!("kept-{name}"));
        fs::rename(hidden, &kept)?;
        // The lock is given up when the process ends.
        let _ = ManuallyDrop::new(self.0);
        Ok(kept)
    }
}

impl Deref for TemporaryDirectory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0.directory
    }
}

impl AsRef<Path> for TemporaryDirectory {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// Writes a file so that, at any moment, it is complete or as it was before.
pub fn write_atomically<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = TemporaryDirectory::new_in(directory_of(path))?;
    let new = temporary.join("new");
    let mut file = File::create(&new)?;
    write(&mut file)?;
    file.sync_all()?;
    Ok(fs::rename(&new, path)?)
}

/// Removes what processes left behind that were killed while they wrote this file.
pub fn remove_leftovers(path: &Path) {
    sweep(directory_of(path), PREFIX);
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let dead = place.path().join(".pipe-20200101T000000Z-dead");
        fs::create_dir(&dead).unwrap();
        let alive = TemporaryDirectory::new_in(place.path()).unwrap();
        assert!(!dead.exists());
        let other = TemporaryDirectory::new_in(place.path()).unwrap();
        assert!(alive.exists(), "its process lives");
        drop((alive, other));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_kept_survives_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let kept = TemporaryDirectory::new_in(place.path()).unwrap().keep().unwrap();
        drop(TemporaryDirectory::new_in(place.path()).unwrap());
        assert!(kept.is_dir());
    }

    #[test]
    fn a_file_that_could_not_be_written_is_as_before() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        write_atomically(&path, |file| file.write_all(b"old")).unwrap();
        let failed = write_atomically(&path, |file| {
            file.write_all(b"ne")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
