//! Lists the content of the store and measures how much space it takes.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Store;
use super::error::StoreError;
use super::layout;
use super::manifest::Manifest;
use super::sealed::Unsealed;
use pipe_core::digest::BlobId;

/// A number of things and their size together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub items: u64,
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.items += other.items;
        self.bytes += other.bytes;
    }
}

/// The space that the store takes, by purpose; `items` are files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoreUsage {
    pub results: Count,
    pub blobs: Count,
    pub checkpoints: Count,
    /// Installed packages of commands.
    pub packages: Count,
    pub runs: Count,
    pub temporary: Count,
    pub trash: Count,
    /// Pipeline states, the stat cache, locks.
    pub other: Count,
}

impl StoreUsage {
    /// Returns the space of everything together.
    pub fn total(&self) -> Count {
        let mut total = self.other;
        let Self { results, blobs, checkpoints, packages, runs, temporary, trash, .. } = *self;
        for part in [results, blobs, checkpoints, packages, runs, temporary, trash] {
            total += part;
        }
        total
    }
}

/// One result in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub manifest: Manifest,
    /// The size of its outputs and logs. Content that several results share is counted in each.
    pub bytes: u64,
}

impl Store {
    /// Measures the space that the store takes.
    pub fn usage(&self) -> Result<StoreUsage, StoreError> {
        let layout = &self.layout;
        let mut usage = StoreUsage {
            results: count(&layout.actions())?,
            blobs: count(&layout.blobs())?,
            checkpoints: count(&layout.all_checkpoints())?,
            packages: count(&layout.all_packages())?,
            runs: count(&layout.runs())?,
            temporary: count(&layout.tmp())?,
            trash: count(&layout.trash())?,
            other: Count::default(),
        };
        for directory in [layout.pipelines(), layout.locks()] {
            usage.other += count(&directory)?;
        }
        for file in [layout.tag(), layout.git_ignore(), layout.stat_cache(), layout.summaries()] {
            if let Ok(metadata) = file.metadata() {
                usage.other.add(metadata.len());
            }
        }
        Ok(usage)
    }

    /// Returns every readable result, newest first. The outputs are not checked.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut listed = Vec::new();
        for (path, _) in files(&self.layout.actions())? {
            match layout::key_of_action(&path).map(|key| self.read_manifest(key)) {
                Some(Ok(manifest)) => {
                    let bytes = manifest.stored().map(|stored| stored.bytes).sum();
                    listed.push(Listed { manifest: *manifest, bytes });
                }
                Some(Err(Unsealed::Damaged(flaw))) => {
                    self.warn(format!("manifest `{}` is damaged: {flaw}", path.display()));
                }
                Some(Err(Unsealed::Foreign(flaw))) => {
                    let path = path.display();
                    self.warn(format!("manifest `{path}` was written by another version of `pipe`: {flaw}"));
                }
                Some(Err(Unsealed::Unreadable(error))) => return Err(StoreError::reading(&path, error)),
                Some(Err(Unsealed::Missing)) | None => {}
            }
        }
        listed.sort_by(|a, b| {
            let order = |x: &Listed| (x.manifest.finished.clone(), x.manifest.instance.clone());
            order(b).cmp(&order(a))
        });
        Ok(listed)
    }

    /// Returns the content of every output that a readable result names, whether or not it is still there.
    pub fn all_outputs(&self) -> Result<BTreeSet<BlobId>, StoreError> {
        let outputs = |listed: Listed| listed.manifest.computed.outputs.into_values();
        Ok(self.list()?.into_iter().flat_map(outputs).map(|stored| stored.blob).collect())
    }

    /// Returns whether the store has a blob with this name. Its content is not read: also what takes the place of a damaged blob says
    /// that there was one.
    pub fn contains(&self, blob: BlobId) -> Result<bool, StoreError> {
        let path = self.layout.blob(blob);
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::reading(&path, error)),
        }
    }
}

/// Returns all files below a directory, which does not have to exist. Files that disappear meanwhile are left out.
pub(super) fn files(directory: &Path) -> Result<Vec<(PathBuf, Metadata)>, StoreError> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.map_err(|e| StoreError::reading(&directory, e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::reading(&directory, e))?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => waiting.push(entry.path()),
                Ok(metadata) => found.push((entry.path(), metadata)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::reading(&entry.path(), error)),
            }
        }
    }
    Ok(found)
}

/// Counts the files below a directory.
pub(super) fn count(directory: &Path) -> Result<Count, StoreError> {
    let mut count = Count::default();
    for (_, metadata) in files(directory)? {
        count.add(metadata.len());
    }
    Ok(count)
}
