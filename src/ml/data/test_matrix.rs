//! Small matrices for tests.

use super::csr::Csr;

/// Creates a matrix of ones from the columns of each row.
pub(super) fn ones(cols: usize, rows: &[Vec<u32>]) -> Csr {
    Csr::from_rows(cols, rows)
}

/// Creates a matrix from the columns and values of each row.
pub(super) fn weighted(cols: usize, rows: &[Vec<(u32, f32)>]) -> Csr {
    let mut indptr = vec![0u64];
    indptr.extend(rows.iter().scan(0, |end, row| {
        *end += row.len() as u64;
        Some(*end)
    }));
    let entries = || rows.iter().flatten();
    Csr {
        cols,
        indptr: indptr.into(),
        indices: entries().map(|entry| entry.0).collect::<Vec<_>>().into(),
        values: entries().map(|entry| entry.1).collect::<Vec<_>>().into(),
    }
}
