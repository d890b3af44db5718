//! A few sparse rows, such as the labels of one batch, or the local signal of its rows.

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
    /// Rows without weights, each entry a one.
    pub fn ones<'a>(rows: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.push(row.iter().map(|&label| (label, 1.0)));
        }
        all
    }

    pub fn empty(rows: usize) -> Self {
        Self { ends: vec![0; rows + 1], entries: Vec::new() }
    }

    /// Adds a row; its labels must ascend.
    pub fn push(&mut self, row: impl IntoIterator<Item = (u32, f64)>) {
        self.entries.extend(row);
        self.ends.push(self.entries.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    pub fn row(&self, row: usize) -> &[(u32, f64)] {
        &self.entries[self.ends[row]..self.ends[row + 1]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[(u32, f64)]> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// Sums weights by label, then hands them out in ascending order. Reused from row to row.
#[derive(Default)]
pub struct LabelSums {
    sums: Vec<f64>,
    seen: Vec<u32>,
}

impl LabelSums {
    pub fn new(labels: usize) -> Self {
        Self { sums: vec![0.0; labels], seen: Vec::new() }
    }

    /// The weight must not be zero.
    pub fn add(&mut self, label: u32, weight: f64) {
        let sum = &mut self.sums[label as usize];
        if *sum == 0.0 {
            self.seen.push(label);
        }
        *sum += weight;
    }

    pub fn drain(&mut self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.seen.sort_unstable();
        self.seen.dedup();
        let sums = &mut self.sums;
        self.seen.drain(..).map(move |label| (label, std::mem::take(&mut sums[label as usize])))
    }
}
