//! [`SparseRows`]: a few sparse rows, such as the labels of one batch or the local signal of its rows.

/// Rows of (label, weight), labels ascending within a row.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    ends: Vec<usize>,
    entries: Vec<(u32, f64)>,
}

impl Default for SparseRows {
    fn default() -> Self {
        Self { ends: vec![0], entries: Vec::new() }
    }
}

impl SparseRows {
    /// Creates rows in which every entry has weight one.
    pub fn ones<'a>(rows: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.push(row.iter().map(|&label| (label, 1.0)));
        }
        all
    }

    /// Creates rows from the nonzero entries of a dense matrix.
    pub fn from_dense(dense: &[Vec<f64>]) -> Self {
        let mut rows = Self::default();
        for row in dense {
            let entries = row.iter().enumerate().filter(|(_, value)| **value != 0.0);
            rows.push(entries.map(|(column, &value)| (column as u32, value)));
        }
        rows
    }

    /// Returns the rows as a dense matrix.
    pub fn to_dense(&self, columns: usize) -> Vec<Vec<f64>> {
        let mut dense = vec![vec![0.0; columns]; self.len()];
        for (into, row) in dense.iter_mut().zip(self.iter()) {
            for &(column, value) in row {
                into[column as usize] = value;
            }
        }
        dense
    }

    /// Creates rows without entries.
    pub fn empty(rows: usize) -> Self {
        Self { ends: vec![0; rows + 1], entries: Vec::new() }
    }

    /// Adds a row. Its labels must be ascending.
    pub fn push(&mut self, row: impl IntoIterator<Item = (u32, f64)>) {
        self.entries.extend(row);
        self.ends.push(self.entries.len());
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns one row.
    pub fn row(&self, row: usize) -> &[(u32, f64)] {
        &self.entries[self.ends[row]..self.ends[row + 1]]
    }

    /// Iterates over the rows.
    pub fn iter(&self) -> impl Iterator<Item = &[(u32, f64)]> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// Sums weights by label and returns the sums in ascending order of labels. Can be reused from row to row.
#[derive(Default)]
pub struct LabelSums {
    sums: Vec<f64>,
    seen: Vec<u32>,
}

impl LabelSums {
    /// Creates empty sums.
    pub fn new(labels: usize) -> Self {
        Self { sums: vec![0.0; labels], seen: Vec::new() }
    }

    /// Adds a weight, which must not be zero.
    pub fn add(&mut self, label: u32, weight: f64) {
        let sum = &mut self.sums[label as usize];
        if *sum == 0.0 {
            self.seen.push(label);
        }
        *sum += weight;
    }

    /// Returns the sums in ascending order of labels and resets them.
    pub fn drain(&mut self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.seen.sort_unstable();
        self.seen.dedup();
        let sums = &mut self.sums;
        self.seen.drain(..).map(move |label| (label, std::mem::take(&mut sums[label as usize])))
    }
}
