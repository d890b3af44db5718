//! Decides what happens to a file outside of the cache where a run places an output: a file that `pipe` placed is
//! replaced, and a file that the user edited is left alone.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::event::PlaceOutcome;
use crate::store::manifest::Stored;
use crate::store::{PipelineState, Store, StoreError, is_marked};
use pipe_core::digest::BlobId;

/// Knows which content `pipe` has placed, or could have placed. Only a file with other content was edited by hand.
///
/// One record is not enough: a file can come back from version control, the cache can be deleted or damaged, the project
/// moved, and a run killed. To replace a file that only one of them knows loses nothing but a result of `pipe`.
pub(super) struct Ownership<'a> {
    pub store: &'a Store,
    pub state: &'a PipelineState,
    /// The outputs that the lock recorded before the run.
    pub locked: &'a BTreeSet<BlobId>,
    /// The outputs of all results in the store, which are only read if nothing else knows the content.
    pub stored: OnceCell<BTreeSet<BlobId>>,
}

/// What a run does about the file at a path, and the content that is there now.
pub(super) struct PlaceDecision {
    pub outcome: PlaceOutcome,
    pub replaces: Option<BlobId>,
}

/// Returns which file or directory is at a path, or `None` if there is none. Another one, moved to the same path, differs.
fn identity(path: &Path) -> Result<Option<(u64, u64, i64, i64)>, StoreError> {
    match path.symlink_metadata() {
        Ok(there) => Ok(Some((there.dev(), there.ino(), there.ctime(), there.ctime_nsec()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Io { doing: "read", path: path.to_owned(), source }),
    }
}

impl Ownership<'_> {
    /// Decides what to do about the file at `target`, which is called `path` in the records.
    pub(super) fn decide(
        &self,
        output: &Stored,
        path: &str,
        target: &Path,
        overwrite: bool,
    ) -> Result<PlaceDecision, StoreError> {
        const LOOKS: usize = 10;
        for _ in 0..LOOKS {
            let before = identity(target)?;
            let decision = match before {
                None => Ok(PlaceDecision { outcome: PlaceOutcome::Written, replaces: None }),
                Some(_) => self.look(output, path, target, overwrite),
            };
            // Another run replaces a directory as a whole. If it did so just now, half of what was seen may be of the old
            // directory and half of the new one.
            if identity(target)? == before {
                return decision;
            }
        }
        Err(StoreError::Changing { path: target.to_owned() })
    }

    fn look(
        &self,
        output: &Stored,
        path: &str,
        target: &Path,
        overwrite: bool,
    ) -> Result<PlaceDecision, StoreError> {
        let decided = |outcome, replaces| Ok(PlaceDecision { outcome, replaces });
        let edited = if overwrite { PlaceOutcome::Written } else { PlaceOutcome::KeptEdited };
        let present = match self.store.digest_user_file(target) {
            Ok(present) => present,
            // Runs place neither broken links nor devices.
            Err(StoreError::Unusable { .. }) => return decided(edited, None),
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return decided(edited, None);
            }
            Err(_) if overwrite => return decided(PlaceOutcome::Written, None),
            Err(error) => return Err(error),
        };
        if (present.blob, present.directory) == (output.blob, output.directory) {
            decided(PlaceOutcome::Unchanged, None)
        } else if is_marked(target, present.blob) || self.owns(path, present.blob)? {
            decided(PlaceOutcome::Written, Some(present.blob))
        } else {
            decided(edited, None)
        }
    }

    fn owns(&self, path: &str, blob: BlobId) -> Result<bool, StoreError> {
        let PipelineState { placed, replaced, .. } = self.state;
        if [placed, replaced].iter().any(|record| record.get(path) == Some(&blob))
            || self.locked.contains(&blob)
            || self.store.contains(blob)?
        {
            return Ok(true);
        }
        let stored = match self.stored.get() {
            Some(stored) => stored,
            None => {
                let outputs = self.store.all_outputs()?;
                self.stored.get_or_init(|| outputs)
            }
        };
        Ok(stored.contains(&blob))
    }
}
