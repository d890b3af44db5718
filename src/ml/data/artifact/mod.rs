//! Matrices and data sets on disk. The layout is drawn in [`header`] and `docs/data.md`; equal
//! content gives equal bytes.

pub mod csr_file;
pub mod dataset;
pub mod dense_file;
mod header;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

pub use csr_file::{CsrWriter, Rows, open_csr, write_csr};
pub use dataset::{DataSet, DataSetDir, Part, Summary};
pub use dense_file::{DenseWriter, open_dense};

use super::error::DataError;

/// How much of an artifact is checked when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The header and the lengths: enough where the store has verified the content.
    Header,
    /// Every index and every value, on all cores.
    Deep,
}

fn map(path: &Path) -> Result<Arc<Mmap>, DataError> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    // SAFETY: artifacts are written once, under a name that nobody reads yet, and never changed in
    // place afterwards, by any process of ours.
    let map = unsafe { Mmap::map(&file) }.map_err(DataError::io("map", path))?;
    Ok(Arc::new(map))
}
