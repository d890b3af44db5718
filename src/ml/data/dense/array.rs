//! A two-dimensional array that is read from a stream of bytes.

use super::super::compress::InputFile;
use super::super::error::DataError;
use super::element::ElementType;

/// The shape and the element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayLayout {
    pub rows: u64,
    pub cols: u64,
    pub element: ElementType,
    pub big_endian: bool,
}

/// Whether the file stores row after row or column after column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayOrder {
    Rows,
    Columns,
}

/// The position of a run of values in the array.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayPosition {
    first: u64,
    cols: u64,
}

impl ArrayPosition {
    /// Returns the row and the column of the value `offset` positions further on.
    pub(super) fn after(self, offset: u64) -> (u64, u64) {
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
    pub(super) fn stream(
        &self,
        input: &mut InputFile,
        order: ArrayOrder,
        mut take: impl FnMut(ArrayPosition, &[f32]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        const AT_ONCE: u64 = 1 << 16;
        // Rows without columns take no room in the file, so that any number of them could be announced.
        if self.cols == 0 {
            return Err(DataError::file(input.path(), "it has no columns"));
        }
        let size = self.element.size();
        let too_large = || DataError::file(input.path(), "its header contains an impossible shape");
        let total = self.numbers().ok_or_else(too_large)?;
        let mut bytes = Vec::new();
        let mut values = Vec::new();
        let mut columns = Vec::new();
        let mut first = 0;
        while first < total {
            let count = AT_ONCE.min(total - first) as usize;
            bytes.resize(count * size, 0);
            let read = input.fill(&mut bytes)?;
            if read < bytes.len() {
                let (has, needs) = ((first + (read / size) as u64), total);
                let reason = format!("it ends after {has} of the {needs} numbers that its header announces");
                return Err(DataError::file(input.path(), reason));
            }
            values.clear();
            values.extend(bytes.chunks_exact_mut(size).map(|number| {
                if self.big_endian {
                    number.reverse();
                }
                self.element.read(number)
            }));
            match order {
                ArrayOrder::Rows => take(ArrayPosition { first, cols: self.cols }, &values)?,
                ArrayOrder::Columns => columns.extend_from_slice(&values),
            }
            first += count as u64;
        }
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
}
