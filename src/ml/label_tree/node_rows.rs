//! [`NodeRows`]: the training rows that reach a node, with only the features that occur in them.

use crate::data::csr::Csr;
use crate::signal::dot_index::entries;

/// The rows of a node. Features are numbered by their position in [`Self::features`], so that the weights of a classifier
/// are a short vector that fits the cache.
pub(super) struct NodeRows {
    features: Vec<u32>,
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
    /// The squared length of each row, with the constant feature.
    squares: Vec<f32>,
}

impl NodeRows {
    /// Collects some rows of a matrix in the given order.
    pub(super) fn new(matrix: &Csr, rows: &[u32]) -> Self {
        let mut features: Vec<u32> = rows.iter().flat_map(|&row| matrix.row(row as usize)).copied().collect();
        let mut collected = Vec::with_capacity(features.len());
        features.sort_unstable();
        features.dedup();
        features.shrink_to_fit();
        let (mut ends, mut squares) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for &row in rows {
            let mut square = 1.0;
            for (feature, value) in entries(matrix, row as usize) {
                let place = features.partition_point(|&other| other < feature);
                collected.push((place as u32, value));
                square += value * value;
            }
            ends.push(collected.len());
            squares.push(square);
        }
        Self { features, ends, entries: collected, squares }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the features that occur in the rows, ascending.
    pub(super) fn features(&self) -> &[u32] {
        &self.features
    }

    /// Returns the entries of a row: positions in [`Self::features`], and values.
    pub(super) fn entries(&self, row: usize) -> &[(u32, f32)] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[start..self.ends[row]]
    }

    /// Returns the squared length of a row, with the constant feature.
    pub(super) fn square(&self, row: usize) -> f32 {
        self.squares[row]
    }
}
