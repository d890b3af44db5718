//! Dense matrices on disk: written in a stream, read through a mapping.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Check;
use super::header::{Header, LENGTH, Layout};
use crate::data::csr::{Dense, Numbers, bytes_of};
use crate::data::error::DataError;

/// Writes a dense matrix row by row; the number of rows is known at the end.
pub struct DenseWriter {
    path: PathBuf,
    file: BufWriter<File>,
    cols: usize,
    numbers: u64,
}

impl DenseWriter {
    pub fn create(path: &Path, cols: usize) -> Result<Self, DataError> {
        let mut file = File::create(path).map_err(DataError::io("create", path))?;
        file.write_all(&[0; LENGTH]).map_err(DataError::io("write", path))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file), cols, numbers: 0 })
    }

    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Appends numbers; whole rows need not come together.
    pub fn append(&mut self, values: &[f32]) -> Result<(), DataError> {
        self.numbers += values.len() as u64;
        self.file.write_all(bytes_of(values)).map_err(DataError::io("write", &self.path))
    }

    pub fn finish(self) -> Result<Dense, DataError> {
        let path = self.path.clone();
        let cols = self.cols as u64;
        if self.numbers.checked_rem(cols).unwrap_or(self.numbers) != 0 {
            return Err(DataError::artifact(&path, format!("its last row has fewer than {cols} values")));
        }
        let rows = self.numbers.checked_div(cols).unwrap_or(0);
        let header = Header { layout: Layout::Dense, valued: true, rows, cols, entries: self.numbers };
        let complete = || {
            let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header.to_bytes())
        };
        complete().map_err(DataError::io("write", &path))?;
        open_dense(&path, Check::Deep)
    }
}

/// Maps a dense matrix.
pub fn open_dense(path: &Path, check: Check) -> Result<Dense, DataError> {
    let map = super::map(path)?;
    let (header, sections) = Header::read(&map, Layout::Dense, path)?;
    let bad = |reason: &str| DataError::artifact(path, reason);
    if header.rows.checked_mul(header.cols) != Some(header.entries) || !header.valued {
        return Err(bad("its header holds impossible numbers"));
    }
    let values = Numbers::mapped(&map, sections.values as usize, header.entries as usize)
        .ok_or_else(|| bad("its sections lie outside the file"))?;
    let dense = Dense { rows: header.rows as usize, cols: header.cols as usize, values };
    if let Check::Deep = check
        && let Some(at) = dense.values.iter().position(|v| !v.is_finite())
    {
        return Err(bad(&format!("row {} has a value that is not finite", at / dense.cols)));
    }
    Ok(dense)
}
