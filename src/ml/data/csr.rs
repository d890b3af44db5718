//! Sparse matrices (compressed sparse rows) and dense matrices, in memory or mapped from a file.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};
use rayon::prelude::*;

/// A slice of numbers in a vector or in a mapped file.
#[derive(Clone)]
pub enum Numbers<T: 'static> {
    Owned(Vec<T>),
    Mapped(MappedSlice<T>),
}

/// A slice of a mapped file, which it keeps mapped. Only [`Numbers::mapped`] creates one.
#[derive(Clone)]
pub struct MappedSlice<T: 'static> {
    slice: &'static [T],
    file: Arc<Mmap>,
}

/// Number types for which every bit pattern is valid and which have no padding.
pub trait Plain: Copy + Send + Sync + 'static + private::Sealed {}

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f32 {}
}

impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for f32 {}

impl<T: Plain> Numbers<T> {
    /// Returns `count` numbers from byte `offset` of a mapped file; `None` if they are not inside the file or not aligned.
    pub fn mapped(file: &Arc<Mmap>, offset: usize, count: usize) -> Option<Self> {
        let length = count.checked_mul(size_of::<T>())?;
        let bytes = file.get(offset..offset.checked_add(length)?)?;
        if !(bytes.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the bytes are inside the mapping and aligned, and every bit pattern is a valid `T` (`Plain`). The mapping
        // is read-only and lives as long as the `Arc` that is stored with the slice. The slice leaves this module only
        // through `Deref`, whose lifetime is that of the borrow of `self`.
        let slice = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), count) };
        Some(Self::Mapped(MappedSlice { slice, file: Arc::clone(file) }))
    }
}

impl<T> Numbers<T> {
    /// Gives back the memory of numbers of a mapped file, which are read from the file again when they are needed. Nothing else changes.
    pub fn release(&self, range: Range<usize>) {
        let Self::Mapped(MappedSlice { slice, file }) = self else { return };
        let released = &slice[range];
        let offset = released.as_ptr() as usize - file.as_ptr() as usize;
        // SAFETY: the mapping is read-only and of a file that never changes, so its pages have the same content when they are
        // read again. If the system refuses, the memory stays in use.
        let _ =
            unsafe { file.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, size_of_val(released)) };
    }
}

/// Returns the memory of numbers in the byte order of this machine.
pub fn bytes_of<T: Plain>(numbers: &[T]) -> &[u8] {
    // SAFETY: `Plain` types have no padding, so all bytes are initialised; u8 needs no alignment; the length is that of the
    // same memory.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), size_of_val(numbers)) }
}

impl<T> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Owned(vec) => vec,
            Self::Mapped(mapped) => mapped.slice,
        }
    }
}

impl<T> From<Vec<T>> for Numbers<T> {
    fn from(vec: Vec<T>) -> Self {
        Self::Owned(vec)
    }
}

/// A sparse matrix in rows. The column indices of a row are strictly ascending.
///
/// A matrix of labels has no values: every stored entry is one.
#[derive(Clone)]
pub struct Csr {
    pub cols: usize,
    /// `rows + 1` offsets into `indices`.
    pub indptr: Numbers<u64>,
    pub indices: Numbers<u32>,
    /// As long as `indices`, or empty if every stored entry is one.
    pub values: Numbers<f32>,
}

impl Csr {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Returns the number of stored entries.
    pub fn entries(&self) -> usize {
        self.indices.len()
    }

    /// Gives back the memory of some rows; see [`Numbers::release`].
    pub fn release(&self, rows: Range<usize>) {
        let entries = self.indptr[rows.start] as usize..self.indptr[rows.end] as usize;
        self.indices.release(entries.clone());
        if !self.values.is_empty() {
            self.values.release(entries);
        }
    }

    /// Returns the column indices of a row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.indices[self.span(row)]
    }

    /// Returns the values of a row; empty for a matrix of ones.
    pub fn row_values(&self, row: usize) -> &[f32] {
        if self.values.is_empty() { &[] } else { &self.values[self.span(row)] }
    }

    fn span(&self, row: usize) -> Range<usize> {
        self.indptr[row] as usize..self.indptr[row + 1] as usize
    }

    /// Returns a matrix of the given rows.
    pub fn select_rows(&self, rows: &[u32]) -> Self {
        let mut indptr = vec![0u64];
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for &row in rows {
            indices.extend_from_slice(self.row(row as usize));
            values.extend_from_slice(self.row_values(row as usize));
            indptr.push(indices.len() as u64);
        }
        Self { cols: self.cols, indptr: indptr.into(), indices: indices.into(), values: values.into() }
    }

    /// Creates a matrix of ones from the column indices of each row, which need not be sorted or distinct.
    pub fn from_rows<R: AsRef<[u32]>>(cols: usize, rows: &[R]) -> Self {
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        for row in rows {
            let mut row = row.as_ref().to_vec();
            row.sort_unstable();
            row.dedup();
            indices.extend_from_slice(&row);
            indptr.push(indices.len() as u64);
        }
        Self { cols, indptr: indptr.into(), indices: indices.into(), values: Vec::new().into() }
    }

    /// Checks all properties of a valid matrix. The error names the first one that is violated.
    pub fn check(&self) -> Result<(), String> {
        let entries = self.indices.len();
        if self.indptr.first() != Some(&0) || self.indptr.last() != Some(&(entries as u64)) {
            return Err("the row offsets do not run from 0 to the number of entries".into());
        }
        if !self.values.is_empty() && self.values.len() != entries {
            return Err("the number of values is not the number of entries".into());
        }
        const ROWS_AT_ONCE: usize = 4096;
        let rows = self.rows();
        let fault = (0..rows.div_ceil(ROWS_AT_ONCE)).into_par_iter().find_map_first(|batch| {
            let first = batch * ROWS_AT_ONCE;
            (first..rows.min(first + ROWS_AT_ONCE)).find_map(|row| self.row_fault(row))
        });
        fault.map_or(Ok(()), Err)
    }

    fn row_fault(&self, row: usize) -> Option<String> {
        let (start, end) = (self.indptr[row], self.indptr[row + 1]);
        if start > end || end > self.indices.len() as u64 {
            return Some(format!("the offsets of row {row} do not ascend"));
        }
        let indices = self.row(row);
        if !indices.windows(2).all(|pair| pair[0] < pair[1]) {
            return Some(format!("the column indices of row {row} do not ascend"));
        }
        if indices.last().is_some_and(|&last| last as usize >= self.cols) {
            return Some(format!("row {row} has a column index beyond {}", self.cols));
        }
        let finite = self.row_values(row).iter().all(|v| v.is_finite());
        (!finite).then(|| format!("row {row} has a value that is not finite"))
    }
}

impl fmt::Debug for Csr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Csr({} x {}, {} entries)", self.rows(), self.cols, self.entries())
    }
}

impl PartialEq for Csr {
    fn eq(&self, other: &Self) -> bool {
        self.cols == other.cols
            && *self.indptr == *other.indptr
            && *self.indices == *other.indices
            && *self.values == *other.values
    }
}

/// A dense matrix in rows.
#[derive(Clone)]
pub struct DenseMatrix {
    pub rows: usize,
    pub cols: usize,
    /// `rows * cols` numbers.
    pub values: Numbers<f32>,
}

impl DenseMatrix {
    /// Returns the values of a row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }
}

impl fmt::Debug for DenseMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dense({} x {})", self.rows, self.cols)
    }
}

impl PartialEq for DenseMatrix {
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.cols) == (other.rows, other.cols) && *self.values == *other.values
    }
}

/// The features of rows: bags of words are sparse, embeddings are dense.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    Sparse(Csr),
    Dense(DenseMatrix),
}

impl Features {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Sparse(csr) => csr.rows(),
            Self::Dense(dense) => dense.rows,
        }
    }

    /// Returns the number of features.
    pub fn cols(&self) -> usize {
        match self {
            Self::Sparse(csr) => csr.cols,
            Self::Dense(dense) => dense.cols,
        }
    }

    /// Calls a function with each feature of a row whose value is not zero, and the value.
    pub fn for_each_value(&self, row: usize, mut visit: impl FnMut(usize, f32)) {
        match self {
            Self::Sparse(csr) => {
                // A matrix of ones has no values.
                let values = csr.row_values(row).iter().copied().chain(std::iter::repeat(1.0));
                for (&column, value) in csr.row(row).iter().zip(values).filter(|(_, value)| *value != 0.0) {
                    visit(column as usize, value);
                }
            }
            Self::Dense(dense) => {
                for (column, &value) in dense.row(row).iter().enumerate().filter(|(_, value)| **value != 0.0)
                {
                    visit(column, value);
                }
            }
        }
    }

    /// Counts for each feature the rows in which it is not zero.
    pub fn column_counts(&self, rows: &[u32]) -> Vec<u64> {
        let mut counts = vec![0; self.cols()];
        for &row in rows {
            self.for_each_value(row as usize, |column, _| counts[column] += 1);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_without_repetitions() {
        let csr = Csr::from_rows(9, &[vec![5, 2, 5, 2], vec![], vec![8]]);
        assert_eq!((csr.row(0), csr.row(1), csr.row(2)), (&[2, 5][..], &[][..], &[8][..]));
        assert_eq!(csr.check(), Ok(()));
    }

    #[test]
    fn each_violated_property_has_its_own_message() {
        let good = || Csr::from_rows(3, &[[0, 2]]);
        let check = |break_it: &dyn Fn(&mut Csr)| {
            let mut csr = good();
            break_it(&mut csr);
            csr.check().unwrap_err()
        };
        assert!(check(&|c| c.indices = vec![2, 0].into()).contains("do not ascend"));
        assert!(check(&|c| c.indices = vec![1, 1].into()).contains("do not ascend"));
        assert!(check(&|c| c.cols = 2).contains("beyond 2"));
        assert!(check(&|c| c.indptr = vec![0, 1].into()).contains("row offsets"));
        assert!(check(&|c| c.indptr = vec![0, 9, 2].into()).contains("offsets of row 0"));
        assert!(check(&|c| c.values = vec![1.0].into()).contains("number of values"));
        assert!(check(&|c| c.values = vec![1.0, f32::NAN].into()).contains("not finite"));
    }

    #[test]
    fn a_mapped_slice_outside_its_file_or_without_alignment_is_refused() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        // SAFETY: nothing else has the file open.
        let map = Arc::new(unsafe { Mmap::map(&file) }.unwrap());
        assert_eq!(*Numbers::<u32>::mapped(&map, 4, 1).unwrap(), [2]);
        assert!(Numbers::<u32>::mapped(&map, 4, 2).is_none());
        assert!(Numbers::<u32>::mapped(&map, 1, 1).is_none());
        assert!(Numbers::<u64>::mapped(&map, 0, usize::MAX).is_none());
    }
}
