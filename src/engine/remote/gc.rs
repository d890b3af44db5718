//! Removes old results from a remote.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::backend::{BackendError, Listed};
use super::upload::key_of_path;
use super::{Remote, blob_path, threads};
use crate::store::manifest::{Manifest, Stored};
use crate::store::{Count, Store};
use pipe_core::digest::BlobId;

/// What to remove.
#[derive(Debug, Clone)]
pub struct RemoteGcRequest {
    /// Only report what would be removed.
    pub dry_run: bool,
    /// Results that were uploaded longer ago than this are removed.
    pub max_age: Duration,
    /// A blob that no result needs is removed only if it is older than this: a blob is uploaded before its result.
    pub grace: Duration,
}

/// What was removed from a remote, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RemoteGcReport {
    pub dry_run: bool,
    /// Results and blobs that stay.
    pub kept: Count,
    pub results: Count,
    pub blobs: Count,
}

impl Remote {
    /// Removes old results, and the blobs that no other result needs. The error is a sentence; what was removed until
    /// then stays removed.
    ///
    /// Results go first: a process that is killed in between leaves blobs that the next collection removes.
    pub fn collect_garbage(&self, request: &RemoteGcRequest) -> Result<RemoteGcReport, String> {
        self.try_collect(request).map_err(|error| error.to_string())
    }

    fn try_collect(&self, request: &RemoteGcRequest) -> Result<RemoteGcReport, BackendError> {
        let now = SystemTime::now();
        // What has no time, or one in the future, is kept.
        let is_older = |file: &Listed, age: Duration| {
            file.modified.and_then(|time| now.duration_since(time).ok()).is_some_and(|found| found > age)
        };
        let mut report = RemoteGcReport { dry_run: request.dry_run, ..RemoteGcReport::default() };
        let mut garbage = Vec::new();
        let mut needed = BTreeSet::new();
        for file in self.backend.list("actions")? {
            if key_of_path(&file.path).is_none() {
                continue;
            }
            if is_older(&file, request.max_age) {
                report.results.add(file.bytes);
                garbage.push(file.path);
            } else {
                report.kept.add(file.bytes);
                self.mark(&file.path, &mut needed)?;
            }
        }
        for file in self.backend.list("blobs")? {
            let id: Option<BlobId> = file.path.rsplit('/').next().and_then(|name| name.parse().ok());
            let Some(id) = id else { continue };
            if is_older(&file, request.grace) && !needed.contains(&id) {
                report.blobs.add(file.bytes);
                garbage.push(file.path);
            } else {
                report.kept.add(file.bytes);
            }
        }
        if !request.dry_run {
            let (results, blobs) = garbage.into_iter().partition(|path| path.starts_with("actions/"));
            for paths in [results, blobs] {
                threads::for_each::<String, _>(paths, |path| self.backend.remove(&path))?;
            }
        }
        Ok(report)
    }

    /// Marks the blobs that a result needs. Whoever signed it may want to use it, so its signature does not matter.
    fn mark(&self, path: &str, needed: &mut BTreeSet<BlobId>) -> Result<(), BackendError> {
        let Some(text) = self.read_manifest(path)? else { return Ok(()) };
        let sealed = text.iter().position(|&byte| byte == b'\n').map_or(&text[..], |end| &text[end + 1..]);
        let Ok(manifest) = Store::read_record(sealed) else { return Ok(()) };
        for stored in Manifest::stored(&manifest) {
            if needed.insert(stored.blob) && stored.directory {
                needed.extend(self.files_of(stored)?);
            }
        }
        Ok(())
    }

    /// Returns the blobs of the files in a directory, or none if its listing is missing or damaged: nobody can use it
    /// then.
    fn files_of(&self, directory: &Stored) -> Result<Vec<BlobId>, BackendError> {
        let Some(content) = self.backend.get(&blob_path(directory.blob))? else { return Ok(Vec::new()) };
        let mut text = Vec::new();
        let read = zstd::Decoder::new(content).and_then(|plain| plain.take(1 << 30).read_to_end(&mut text));
        Ok(read.ok().and_then(|_| Store::listed_blobs(directory.blob, &text)).unwrap_or_default())
    }
}
