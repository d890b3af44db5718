//! Sparse matrices on disk: written as a stream of rows, read through a memory map.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, MmapMut};

use super::ArtifactCheck;
use super::header::{LENGTH, MatrixHeader, MatrixKind, aligned};
use crate::data::csr::{Csr, Numbers, bytes_of};
use crate::data::error::DataError;
use pipe_core::copy_rest::copy_rest;

/// Rows that are appended together: the number of entries of each row, and the entries of all rows.
#[derive(Debug, Default, Clone)]
pub struct RowBatch {
    pub lengths: Vec<u32>,
    pub indices: Vec<u32>,
    /// Empty for a matrix of ones.
    pub values: Vec<f32>,
}

impl RowBatch {
    /// Removes all rows.
    pub fn clear(&mut self) {
        self.lengths.clear();
        self.indices.clear();
        self.values.clear();
    }

    /// Sorts the entries from `first` on, which are one row, by `index + base` (wrapping). Returns whether the order
    /// changed. The error is an index that occurs twice.
    pub(crate) fn sort_row(&mut self, first: usize, base: u32) -> Result<bool, u32> {
        let key = |index: &u32| index.wrapping_add(base);
        let indices = &mut self.indices[first..];
        let moved = !indices.is_sorted_by_key(key);
        if moved && self.values.is_empty() {
            indices.sort_unstable_by_key(key);
        } else if moved {
            let values = &mut self.values[first..];
            let mut pairs: Vec<(u32, f32)> = indices.iter().copied().zip(values.iter().copied()).collect();
            pairs.sort_by_key(|pair| key(&pair.0));
            for ((index, value), pair) in indices.iter_mut().zip(values).zip(pairs) {
                (*index, *value) = pair;
            }
        }
        match indices.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(pair[0]),
            None => Ok(moved),
        }
    }

    /// Drops repeated indices from `first` on, which must be sorted and have no values. Returns how many were dropped.
    pub(crate) fn drop_repeats(&mut self, first: usize) -> u64 {
        let before = self.indices.len();
        let mut kept = first;
        for at in first..before {
            if at == first || self.indices[at] != self.indices[kept - 1] {
                self.indices[kept] = self.indices[at];
                kept += 1;
            }
        }
        self.indices.truncate(kept);
        (before - kept) as u64
    }
}

/// Writes a matrix whose size need not be known in advance.
///
/// No rows are kept in memory. The values and the row offsets go to temporary files until the indices are complete.
pub struct CsrWriter {
    path: PathBuf,
    indices: BufWriter<File>,
    values: Option<BufWriter<File>>,
    offsets: BufWriter<File>,
    rows: usize,
    entries: u64,
}

const BUFFER: usize = 1 << 18;

impl CsrWriter {
    /// Creates the file; `valued` is false for a matrix of ones.
    pub fn create(path: &Path, valued: bool) -> Result<Self, DataError> {
        let mut indices = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(DataError::io("create", path))?;
        indices.write_all(&[0; LENGTH]).map_err(DataError::io("write", path))?;
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = || -> Result<BufWriter<File>, DataError> {
            let file = tempfile::tempfile_in(directory)
                .map_err(DataError::io("create a temporary file for", path))?;
            Ok(BufWriter::with_capacity(BUFFER, file))
        };
        Ok(Self {
            path: path.to_owned(),
            indices: BufWriter::with_capacity(BUFFER, indices),
            values: valued.then(temporary).transpose()?,
            offsets: temporary()?,
            rows: 0,
            entries: 0,
        })
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends one row. Column indices must be strictly ascending; `values` is empty for a matrix of ones.
    pub fn push(&mut self, indices: &[u32], values: &[f32]) -> Result<(), DataError> {
        self.end_rows(&[indices.len() as u32])?;
        self.write(indices, values)
    }

    /// Appends many rows at once.
    pub fn append(&mut self, rows: &RowBatch) -> Result<(), DataError> {
        debug_assert_eq!(rows.lengths.iter().map(|&n| n as usize).sum::<usize>(), rows.indices.len());
        self.end_rows(&rows.lengths)?;
        self.write(&rows.indices, &rows.values)
    }

    /// Writes the offset at which each row starts.
    fn end_rows(&mut self, lengths: &[u32]) -> Result<(), DataError> {
        for &length in lengths {
            let written = self.offsets.write_all(bytes_of(&[self.entries]));
            written.map_err(DataError::io("write", &self.path))?;
            self.entries += u64::from(length);
        }
        self.rows += lengths.len();
        Ok(())
    }

    fn write(&mut self, indices: &[u32], values: &[f32]) -> Result<(), DataError> {
        let written = self.indices.write_all(bytes_of(indices)).and_then(|()| match &mut self.values {
            Some(file) => {
                debug_assert_eq!(indices.len(), values.len());
                file.write_all(bytes_of(values))
            }
            None => Ok(()),
        });
        written.map_err(DataError::io("write", &self.path))
    }

    /// Completes the file and opens it, checked in full.
    pub fn finish(self, cols: usize) -> Result<Csr, DataError> {
        self.finish_shifted(cols, 0)
    }

    /// Completes the file without reading it back, for writers whose rows are correct by construction.
    pub fn close(self, cols: usize) -> Result<(), DataError> {
        let path = self.path.clone();
        self.complete(cols as u64, 0).map_err(DataError::io("write", &path))
    }

    /// Completes the file like [`CsrWriter::finish`] and adds `shift` to every column index (wrapping), for readers that
    /// know only at the end whether indices count from 0 or from 1.
    pub fn finish_shifted(self, cols: usize, shift: u32) -> Result<Csr, DataError> {
        let path = self.path.clone();
        self.complete(cols as u64, shift).map_err(DataError::io("write", &path))?;
        open_csr(&path, ArtifactCheck::Deep)
    }

    fn complete(self, cols: u64, shift: u32) -> io::Result<()> {
        let header = MatrixHeader {
            kind: MatrixKind::Csr,
            valued: self.values.is_some(),
            rows: self.rows() as u64,
            cols,
            entries: self.entries(),
        };
        let mut file = self.indices.into_inner().map_err(io::IntoInnerError::into_error)?;
        if shift != 0 {
            add_to_all(&file, header.entries as usize, shift)?;
        }
        for section in self.values.into_iter().chain([self.offsets]) {
            pad(&mut file)?;
            let mut section = section.into_inner().map_err(io::IntoInnerError::into_error)?;
            section.seek(SeekFrom::Start(0))?;
            copy_rest(&mut section, &mut file)?;
        }
        file.write_all(bytes_of(&[header.entries]))?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header.to_bytes())
    }
}

/// Writes zeros up to the start of the next section.
fn pad(file: &mut File) -> io::Result<()> {
    let end = file.stream_position()?;
    let next = aligned(end).unwrap_or(end);
    file.write_all(&[0; 64][..(next - end) as usize])
}

fn add_to_all(file: &File, entries: usize, shift: u32) -> io::Result<()> {
    if entries == 0 {
        return Ok(());
    }
    // SAFETY: this process has just created the file and has the only handle that writes to it.
    let mut map = unsafe { MmapMut::map_mut(file) }?;
    for bytes in map[LENGTH..LENGTH + 4 * entries].as_chunks_mut::<4>().0 {
        *bytes = u32::from_le_bytes(*bytes).wrapping_add(shift).to_le_bytes();
    }
    Ok(())
}

/// Opens a sparse matrix through a memory map.
pub fn open_csr(path: &Path, check: ArtifactCheck) -> Result<Csr, DataError> {
    let map = super::map(path)?;
    let (header, sections) = MatrixHeader::read(&map, MatrixKind::Csr, path)?;
    let csr = csr_of(&map, &header, sections.indices, sections.values, sections.indptr)
        .ok_or_else(|| DataError::artifact(path, "its sections are outside the file"))?;
    if let ArtifactCheck::Deep = check {
        csr.check().map_err(|reason| DataError::artifact(path, reason))?;
    }
    Ok(csr)
}

fn csr_of(map: &Arc<Mmap>, header: &MatrixHeader, indices: u64, values: u64, indptr: u64) -> Option<Csr> {
    let entries = usize::try_from(header.entries).ok()?;
    let valued = if header.valued { entries } else { 0 };
    Some(Csr {
        cols: usize::try_from(header.cols).ok()?,
        indptr: Numbers::mapped(map, indptr as usize, usize::try_from(header.rows).ok()? + 1)?,
        indices: Numbers::mapped(map, indices as usize, entries)?,
        values: Numbers::mapped(map, values as usize, valued)?,
    })
}

/// Writes a matrix that is in memory, and opens it.
pub fn write_csr(path: &Path, csr: &Csr) -> Result<Csr, DataError> {
    let mut writer = CsrWriter::create(path, !csr.values.is_empty())?;
    for row in 0..csr.rows() {
        writer.push(csr.row(row), csr.row_values(row))?;
    }
    writer.finish(csr.cols)
}
