//! Places generated files outside of the cache, and leaves files alone that the user edited.

use std::path::Path;

use super::event::PlaceOutcome;
use crate::store::manifest::Stored;
use crate::store::{Store, StoreError};
use pipe_core::digest::BlobId;

/// Copies the artifact to `path`. `placed` is what was placed there last: if something else is there now, the user edited
/// it, and it stays unless `overwrite`.
pub(super) fn place(
    store: &Store,
    stored: &Stored,
    path: &Path,
    placed: Option<BlobId>,
    overwrite: bool,
) -> Result<PlaceOutcome, StoreError> {
    if path.symlink_metadata().is_ok() {
        // A broken link or an unreadable file was not placed by us either.
        let present = store.digest_user_file(path).ok().map(|source| (source.blob, source.directory));
        if present == Some((stored.blob, stored.directory)) {
            return Ok(PlaceOutcome::Unchanged);
        }
        let ours = present.is_some_and(|(blob, _)| Some(blob) == placed);
        if !ours && !overwrite {
            return Ok(PlaceOutcome::KeptEdited);
        }
    }
    store.place(stored, path)?;
    Ok(PlaceOutcome::Written)
}
