//! Compressed sparse rows over memory that is owned or mapped from a file.

use std::ops::Deref;
use std::sync::Arc;

use memmap2::Mmap;

/// A slice of plain numbers that lives in a vector or in a mapped file.
pub enum Numbers<T: 'static> {
    Owned(Vec<T>),
    /// SAFETY contract: the slice lies inside the mapping that the `Arc` keeps alive.
    Mapped {
        slice: &'static [T],
        _file: Arc<Mmap>,
    },
}

impl<T> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(vec) => vec,
            Self::Mapped { slice, .. } => slice,
        }
    }
}

impl<T> From<Vec<T>> for Numbers<T> {
    fn from(vec: Vec<T>) -> Self {
        Self::Owned(vec)
    }
}

/// A sparse matrix by rows; column indices ascend strictly within a row.
/// A matrix of labels has no values: every stored entry is a one.
pub struct Csr {
    pub cols: usize,
    /// `rows + 1` offsets into `indices`.
    pub indptr: Numbers<u64>,
    pub indices: Numbers<u32>,
    /// As long as `indices`, or empty when every stored entry is one.
    pub values: Numbers<f32>,
}

impl Csr {
    pub fn rows(&self) -> usize {
        self.indptr.len() - 1
    }

    pub fn entries(&self) -> usize {
        self.indices.len()
    }

    /// The column indices of a row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.indices[self.span(row)]
    }

    /// The values of a row; empty for a matrix of ones.
    pub fn row_values(&self, row: usize) -> &[f32] {
        if self.values.is_empty() { &[] } else { &self.values[self.span(row)] }
    }

    fn span(&self, row: usize) -> std::ops::Range<usize> {
        self.indptr[row] as usize..self.indptr[row + 1] as usize
    }
}
