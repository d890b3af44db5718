//! Temporary files outside of the store, which a killed process does not leave behind for ever.

use std::fs::{self, DirBuilder, DirEntry, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::lock::FileLock;
use super::session::{LOCK, Owner, remove_tree};

/// The start of the names of temporary directories outside of the store. Sixteen random hexadecimal digits follow, so that no
/// other user can guess a name.
const PREFIX: &str = ".pipe-tmp-";

/// A temporary directory beside files of the user. It is removed when this is dropped or, if its process was killed, when the
/// next one is created in the same place.
pub struct TemporaryDirectory(Owner);

impl TemporaryDirectory {
    /// Creates one in a directory, and removes those that dead processes left there.
    pub fn new_in(parent: &Path) -> io::Result<Self> {
        remove_dead(parent);
        Owner::in_new(|| {
            loop {
                let random = RandomState::new().build_hasher().finish();
                let directory = parent.join(format!("{PREFIX}{random:016x}"));
                match DirBuilder::new().mode(0o700).create(&directory) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    created => return created.map(|()| directory),
                }
            }
        })
        .map(Self)
    }

    /// Creates one in the system's directory for temporary files.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    /// Keeps the directory for the user. Returns its path.
    pub fn keep(self) -> PathBuf {
        self.0.give_away()
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
    remove_dead(directory_of(path));
}

/// Removes the temporary directories that dead processes of this user left. One without a lock is removed only if it is empty: it
/// was kept, or its process was killed before it could do anything.
fn remove_dead(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_ours) {
        let directory = entry.path();
        match FileLock::try_acquire_existing(&directory.join(LOCK)) {
            Ok(Some(_dead)) => drop(remove_tree(&directory)),
            Err(error) if error.kind() == ErrorKind::NotFound => drop(fs::remove_dir(&directory)),
            _ => {}
        }
    }
}

fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let is_name =
        random.is_some_and(|random| random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit()));
    let own = rustix::process::geteuid().as_raw();
    is_name && entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own)
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
        let dead =
            [".pipe-tmp-0123456789abcdef", ".pipe-tmp-fedcba9876543210"].map(|name| place.path().join(name));
        fs::create_dir(&dead[0]).unwrap();
        fs::create_dir_all(dead[1].join("deep")).unwrap();
        fs::write(dead[1].join(LOCK), "").unwrap();
        let alive = TemporaryDirectory::new_in(place.path()).unwrap();
        assert!(!dead[0].exists() && !dead[1].exists());
        let other = TemporaryDirectory::new_in(place.path()).unwrap();
        assert!(alive.exists(), "its process lives");
        drop((alive, other));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_kept_survives_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let kept = TemporaryDirectory::new_in(place.path()).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        let kept = kept.keep();
        drop(TemporaryDirectory::new_in(place.path()).unwrap());
        assert!(kept.join("file").exists());
    }

    #[test]
    fn directories_of_the_user_and_links_of_others_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (outside, link) = (place.path().join("outside"), place.path().join(".pipe-tmp-0123456789abcdef"));
        for name in [".pipe-settings", ".pipe-tmp-mine", ".pipe-tmp-0123456789abcde"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::create_dir(&link).unwrap();
        std::os::unix::fs::symlink(&outside, link.join(LOCK)).unwrap();
        drop(TemporaryDirectory::new_in(place.path()).unwrap());
        assert!(!outside.exists(), "nothing is created where a link leads");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
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
