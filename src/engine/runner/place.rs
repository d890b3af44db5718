//! Puts generated files where a person looks for them, and leaves alone what a person edited.

use std::path::Path;

use super::event::PlaceOutcome;
use crate::store::manifest::Stored;
use crate::store::{Store, StoreError};
use pipe_core::digest::BlobId;

/// Makes `path` hold the artifact. `placed` is what we put there last: if something else is there
/// now, it is the user's, and stays unless `overwrite`.
pub(super) fn place(
    store: &Store,
    stored: &Stored,
    path: &Path,
    placed: Option<BlobId>,
    overwrite: bool,
) -> Result<PlaceOutcome, StoreError> {
    if path.symlink_metadata().is_ok() {
        // A broken link, or what cannot be read, is not ours either.
        let present = store.digest_source(path).ok().map(|source| (source.blob, source.directory));
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
