//! Where a remote keeps its files: the little that a directory, a web server and a bucket have in common.

use std::io::Read;
use std::time::SystemTime;

use super::outgoing::Outgoing;

/// Files under relative paths such as `blobs/ab/<id>`.
///
/// Nothing here is trusted: whoever reads a file checks its digest or its signature.
pub(super) trait Backend: Send + Sync {
    /// Opens a file, or returns `None` if there is none.
    fn get(&self, path: &str) -> Result<Option<Box<dyn Read + Send>>, BackendError>;

    /// Writes a file as a whole or, if its content cannot be read to the end, not at all. Returns the length of the file.
    fn put(&self, path: &str, content: &dyn Outgoing) -> Result<u64, BackendError>;

    /// Returns whether there is a file.
    fn exists(&self, path: &str) -> Result<bool, BackendError>;

    /// Returns every file below a folder.
    fn list(&self, folder: &str) -> Result<Vec<Listed>, BackendError>;

    /// Removes a file, if there is one.
    fn remove(&self, path: &str) -> Result<(), BackendError>;

    /// Returns whether files can only be fetched by name: nothing can be listed, written or removed.
    fn only_gets(&self) -> bool {
        false
    }
}

/// A file of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// When it was written, if that is known.
    pub(super) modified: Option<SystemTime>,
}

/// Why a request failed, as a sentence. A file that does not exist is not such an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct BackendError(pub(super) String);
