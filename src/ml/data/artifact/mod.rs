//! Matrices and data sets on disk. Equal content gives equal bytes.
//!
//! The file format of matrices is described in [`header`] and `docs/data.md`.

mod csr_file;
pub(crate) mod dataset;
mod dense_file;
mod header;
pub(crate) mod layout;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

pub use csr_file::{CsrWriter, RowBatch, open_csr, write_csr};
pub use dataset::{DataSet, DataSetDir, DataSetPart, DataSetSummary};
pub use dense_file::{DenseWriter, open_dense};

use super::error::DataError;

/// How much of an artifact is checked when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactCheck {
    /// The header and the lengths. This is enough for content that the store has verified.
    Header,
    /// Every index and every value, on all cores.
    Deep,
}

/// Maps a file into memory.
fn map(path: &Path) -> Result<Arc<Mmap>, DataError> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    // SAFETY: artifacts are written once, under a name that no other process reads yet, and `pipe` never changes them in
    // place afterwards. For a directory that a user names, nobody can promise that: a file that is cut short while it is
    // read ends the process with SIGBUS. `docs/SECURITY.md` says so.
    let map = unsafe { Mmap::map(&file) }.map_err(DataError::io("map", path))?;
    Ok(Arc::new(map))
}
