//! Dense matrices on disk: written as a stream, read through a memory map.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::ArtifactCheck;
use super::header::{LENGTH, MatrixHeader, MatrixKind};
use crate::data::csr::{DenseMatrix, Numbers, bytes_of};
use crate::data::error::DataError;

/// Writes a dense matrix row by row. The number of rows need not be known in advance.
pub struct DenseWriter {
    path: PathBuf,
    file: BufWriter<File>,
    cols: usize,
    numbers: u64,
}

impl DenseWriter {
    /// Creates the file.
    pub fn create(path: &Path, cols: usize) -> Result<Self, DataError> {
        let mut file = File::create(path).map_err(DataError::io("create", path))?;
        file.write_all(&[0; LENGTH]).map_err(DataError::io("write", path))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file), cols, numbers: 0 })
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Appends values, which need not be whole rows.
    pub fn append(&mut self, values: &[f32]) -> Result<(), DataError> {
        self.numbers += values.len() as u64;
        self.file.write_all(bytes_of(values)).map_err(DataError::io("write", &self.path))
    }

    /// Completes the file and opens it, checked in full.
    pub fn finish(self) -> Result<DenseMatrix, DataError> {
        let path = self.path.clone();
        let cols = self.cols as u64;
        if self.numbers.checked_rem(cols).unwrap_or(self.numbers) != 0 {
            return Err(DataError::artifact(&path, format!("its last row has fewer than {cols} values")));
        }
        let rows = self.numbers.checked_div(cols).unwrap_or(0);
        let header =
            MatrixHeader { kind: MatrixKind::Dense, valued: true, rows, cols, entries: self.numbers };
        let complete = || {
            let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header.to_bytes())
        };
        complete().map_err(DataError::io("write", &path))?;
        open_dense(&path, ArtifactCheck::Deep)
    }
}

/// Opens a dense matrix through a memory map.
pub fn open_dense(path: &Path, check: ArtifactCheck) -> Result<DenseMatrix, DataError> {
    let map = super::map(path)?;
    let (header, sections) = MatrixHeader::read(&map, MatrixKind::Dense, path)?;
    let invalid = |reason: &str| DataError::artifact(path, reason);
    if header.rows.checked_mul(header.cols) != Some(header.entries) || !header.valued {
        return Err(invalid("its header contains impossible sizes"));
    }
    let values = Numbers::mapped(&map, sections.values as usize, header.entries as usize)
        .ok_or_else(|| invalid("its sections are outside the file"))?;
    let dense = DenseMatrix { rows: header.rows as usize, cols: header.cols as usize, values };
    if let ArtifactCheck::Deep = check
        && let Some(at) = dense.values.iter().position(|v| !v.is_finite())
    {
        return Err(invalid(&format!("row {} has a value that is not finite", at / dense.cols)));
    }
    Ok(dense)
}
