//! A two-dimensional array that is read from a stream of bytes.

use super::super::compress::InputFile;
use super::super::error::DataError;
use super::element::ElementType;

/// The shape and the element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArrayLayout {
    pub rows: u64,
    pub cols: u64,
    pub element: ElementType,
    pub big_endian: bool,
}

/// Whether the file stores row after row or column after column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrayOrder {
    Rows,
    Columns,
}

/// The position of a run of values in the array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrayPosition {
    first: u64,
    cols: u64,
}

impl ArrayPosition {
    /// Returns the row and the column of the value `offset` positions further on.
    pub(crate) fn after(self, offset: u64) -> (u64, u64) {
        let at = self.first + offset;
        (at / self.cols.max(1), at % self.cols.max(1))
    }
}

impl ArrayLayout {
    /// Returns the number of elements; `None` if it overflows 64 bits.
    fn numbers(&self) -> Option<u64> {
        self.rows.checked_mul(self.cols).filter(|n| n.checked_mul(8).is_some())
    }

    /// Returns the number of bytes; `None` if it overflows 64 bits.
    pub(super) fn bytes(&self) -> Option<u64> {
        Some(self.numbers()? * self.element.size() as u64)
    }

    /// Passes the numbers to `take` row by row, in runs that need not end at the end of a row. Buffers only what the file
    /// really contains, so that a header with a false size costs no memory.
    pub(crate) fn stream<E: From<DataError>>(
        &self,
        input: &mut InputFile,
        order: ArrayOrder,
        mut take: impl FnMut(ArrayPosition, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut values = Vec::new();
        let mut columns = Vec::new();
        self.stream_bytes(input, |first, numbers| {
            values.clear();
            values.extend(numbers.map(|number| self.element.read(number)));
            match order {
                ArrayOrder::Rows => take(ArrayPosition { first, cols: self.cols }, &values)?,
                ArrayOrder::Columns => columns.extend_from_slice(&values),
            }
            Ok::<(), E>(())
        })?;
        if order == ArrayOrder::Columns {
            let (rows, cols) = (self.rows as usize, self.cols as usize);
            for row in 0..rows {
                values.clear();
                values.extend((0..cols).map(|col| columns[col * rows + row]));
                take(ArrayPosition { first: (row * cols) as u64, cols: self.cols }, &values)?;
            }
        }
        Ok(())
    }

    /// Reads all numbers as indices.
    pub(crate) fn read_indices(&self, input: &mut InputFile) -> Result<Vec<u64>, DataError> {
        let path = input.path().to_owned();
        let mut indices = Vec::new();
        self.stream_bytes(input, |_, numbers| {
            for number in numbers {
                let index = self.element.read_index(number);
                let reason = || format!("number {} is not a whole number from 0", indices.len());
                indices.push(index.ok_or_else(|| DataError::file(&path, reason()))?);
            }
            Ok::<(), DataError>(())
        })?;
        Ok(indices)
    }

    /// Passes the little-endian bytes of the numbers to `take` in the order of the file, with the position of the first.
    fn stream_bytes<E: From<DataError>>(
        &self,
        input: &mut InputFile,
        mut take: impl FnMut(u64, std::slice::ChunksExact<'_, u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        const AT_ONCE: u64 = 1 << 16;
        // Rows without columns take no room in the file, so that any number of them could be announced.
        if self.cols == 0 {
            return Err(DataError::file(input.path(), "it has no columns").into());
        }
        let size = self.element.size();
        let too_large = || DataError::file(input.path(), "its header contains an impossible shape");
        let total = self.numbers().ok_or_else(too_large)?;
        let mut bytes = Vec::new();
        let mut first = 0;
        while first < total {
            let count = AT_ONCE.min(total - first) as usize;
            bytes.resize(count * size, 0);
            let read = input.fill(&mut bytes)?;
            if read < bytes.len() {
                let (has, needs) = ((first + (read / size) as u64), total);
                let reason = format!("it ends after {has} of the {needs} numbers that its header announces");
                return Err(DataError::file(input.path(), reason).into());
            }
            if self.big_endian {
                bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
            take(first, bytes.chunks_exact(size))?;
            first += count as u64;
        }
        Ok(())
    }
}
