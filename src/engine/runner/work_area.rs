//! The directories in which stages run, one after another: a working directory and a temporary directory.
//!
//! A work area is emptied and used again instead of creating one for each stage, because creating and deleting directories is
//! expensive: on some file systems more than starting a small program. A work area in which a stage failed, or that cannot be
//! emptied, is replaced.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::store::{Scratch, Store};

/// The work areas that are free at the moment.
pub(super) struct WorkAreas<'a> {
    store: &'a Store,
    free: Mutex<Vec<WorkArea>>,
}

/// The directories of one running stage.
#[derive(Debug)]
pub(super) struct WorkArea {
    scratch: Scratch,
    mode: u32,
}

/// The directories of a work area. `work/in` is created for the first stage that has inputs.
const KEPT: [&str; 2] = ["work", "tmp"];
const INPUTS: &str = "in";

impl<'a> WorkAreas<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { store, free: Mutex::default() }
    }

    /// Returns an empty work area, or a sentence if none can be created.
    pub(super) fn take(&self) -> Result<WorkArea, String> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(area) => Ok(area),
            None => WorkArea::new(self.store),
        }
    }

    /// Takes back a work area whose stage succeeded.
    pub(super) fn put_back(&self, area: WorkArea) {
        if area.empty().unwrap_or(false) {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(area);
        }
    }
}

impl WorkArea {
    fn new(store: &Store) -> Result<Self, String> {
        let scratch = store.scratch().map_err(|error| error.to_string())?;
        let make = || {
            KEPT.iter().try_for_each(|name| fs::create_dir(scratch.join(name)))?;
            mode(&scratch.join(KEPT[0]))
        };
        match make() {
            Ok(mode) => Ok(Self { scratch, mode }),
            Err(error) => Err(format!("could not make directories in `{}`: {error}", scratch.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.scratch
    }

    /// Returns the working directory: empty, or with an empty `in`.
    pub(super) fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// Empties the work area; returns false if it is not as it was when new.
    fn empty(&self) -> io::Result<bool> {
        let kept: Vec<PathBuf> = KEPT.iter().map(|name| self.scratch.join(name)).collect();
        let inputs = kept[0].join(INPUTS);
        empty(&self.scratch, &kept)?;
        empty(&kept[0], std::slice::from_ref(&inputs))?;
        empty(&kept[1], &[])?;
        match mode(&inputs) {
            Ok(mode) if mode == self.mode => empty(&inputs, &[])?,
            Ok(_) => return Ok(false),
            Err(_) => {}
        }
        Ok(kept.iter().all(|path| mode(path).is_ok_and(|mode| mode == self.mode)))
    }
}

/// Returns the permissions and the type of a file.
fn mode(path: &Path) -> io::Result<u32> {
    Ok(path.symlink_metadata()?.permissions().mode())
}

/// Removes everything in the directory except what is to be kept.
fn empty(directory: &Path, kept: &[PathBuf]) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if kept.contains(&path) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        (directory, store)
    }

    #[test]
    fn a_work_area_comes_back_empty() {
        let (_directory, store) = bench();
        let areas = WorkAreas::new(&store);
        let area = areas.take().unwrap();
        let path = area.path().to_owned();
        fs::create_dir_all(path.join("work/in/folds")).unwrap();
        fs::create_dir_all(path.join("work/deep/er")).unwrap();
        fs::create_dir_all(path.join("out")).unwrap();
        for file in ["work/in/folds/a", "work/deep/er/b", "work/c", "tmp/.cache", "stdout", "out/model"] {
            fs::write(path.join(file), "x").unwrap();
        }
        areas.put_back(area);
        let again = areas.take().unwrap();
        assert_eq!(again.path(), path);
        let names = |directory: &str| -> Vec<String> {
            let entries = fs::read_dir(path.join(directory)).unwrap();
            let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(""), ["tmp", "work"]);
        assert_eq!(names("work"), ["in"]);
        assert_eq!((names("work/in").len(), names("tmp").len()), (0, 0));
    }

    #[test]
    fn a_work_area_that_a_stage_changed_is_replaced() {
        let (_directory, store) = bench();
        let areas = WorkAreas::new(&store);
        let changes: [fn(&Path); 3] = [
            |path| fs::set_permissions(path.join("work"), fs::Permissions::from_mode(0o700)).unwrap(),
            |path| fs::write(path.join("work/in"), "a file").unwrap(),
            |path| fs::remove_dir(path.join("tmp")).unwrap(),
        ];
        for change in changes {
            let area = areas.take().unwrap();
            let path = area.path().to_owned();
            change(&path);
            areas.put_back(area);
            assert!(!path.exists());
            assert_ne!(areas.take().unwrap().path(), path);
        }
    }
}
