//! A two-dimensional array in a stream of bytes.

use super::super::compress::Input;
use super::super::error::DataError;
use super::element::Element;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub rows: u64,
    pub cols: u64,
    pub element: Element,
    pub big_endian: bool,
}

/// Which index runs faster in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Rows,
    Columns,
}

/// Where in the array some values start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    first: u64,
    cols: u64,
}

impl Place {
    /// Row and column of the value `offset` further on.
    pub(super) fn after(self, offset: u64) -> (u64, u64) {
        let at = self.first + offset;
        (at / self.cols.max(1), at % self.cols.max(1))
    }
}

impl Grid {
    /// How many numbers, if 64 bits can say.
    fn numbers(&self) -> Option<u64> {
        self.rows.checked_mul(self.cols).filter(|n| n.checked_mul(8).is_some())
    }

    /// The number of bytes, if 64 bits can say.
    pub(super) fn bytes(&self) -> Option<u64> {
        Some(self.numbers()? * self.element.size() as u64)
    }

    /// Hands the numbers over row by row, in pieces that need not end with a row. Reads as much as
    /// there is and no more than the array needs: a header that lies costs no memory.
    pub(super) fn stream(
        &self,
        input: &mut Input,
        order: Order,
        mut take: impl FnMut(Place, &[f32]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        const AT_ONCE: u64 = 1 << 16;
        let size = self.element.size();
        let too_large = || DataError::file(input.path(), "its header holds an impossible shape");
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
                let reason = format!("it ends after {has} of the {needs} numbers that its header promises");
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
                Order::Rows => take(Place { first, cols: self.cols }, &values)?,
                Order::Columns => columns.extend_from_slice(&values),
            }
            first += count as u64;
        }
        if order == Order::Columns {
            let (rows, cols) = (self.rows as usize, self.cols as usize);
            for row in 0..rows {
                values.clear();
                values.extend((0..cols).map(|col| columns[col * rows + row]));
                take(Place { first: (row * cols) as u64, cols: self.cols }, &values)?;
            }
        }
        Ok(())
    }
}
