//! The local signal of the paper, eqs. 4-6: labels are propagated between the rows of a batch that share labels.

use super::sparse_rows::{LabelSums, SparseRows};

/// Computes KNN = (Y Y^T / (row sums of Y + eps)) Y for sparse Y over `labels` columns.
///
/// Y has ones for true labels, or probabilities instead. The self term is included, as in the paper, unless
/// `leave_self_out` clears the diagonal of Y Y^T.
pub fn propagate(y: &SparseRows, labels: usize, leave_self_out: bool, eps: f64) -> SparseRows {
    let rows_of = rows_by_label(y, labels);
    let mut shared = vec![0.0; y.len()];
    let mut sums = LabelSums::new(labels);
    let mut signal = SparseRows::default();
    for (i, row) in y.iter().enumerate() {
        for &(label, weight) in row {
            for &(j, other) in &rows_of[label as usize] {
                shared[j as usize] += weight * other;
            }
        }
        if leave_self_out {
            shared[i] = 0.0;
        }
        let total: f64 = row.iter().map(|&(_, weight)| weight).sum();
        for (j, shared) in shared.iter_mut().enumerate().filter(|(_, shared)| **shared != 0.0) {
            let affinity = std::mem::take(shared) / (total + eps);
            for &(label, weight) in y.row(j) {
                sums.add(label, affinity * weight);
            }
        }
        signal.push(sums.drain());
    }
    signal
}

/// Returns, for each label, the rows that have it.
fn rows_by_label(y: &SparseRows, labels: usize) -> Vec<Vec<(u32, f64)>> {
    let mut by_label = vec![Vec::new(); labels];
    for (i, row) in y.iter().enumerate() {
        for &(label, weight) in row.iter().filter(|(_, weight)| *weight != 0.0) {
            by_label[label as usize].push((i as u32, weight));
        }
    }
    by_label
}

/// Returns 1 / (number of labels of the row + eps), the value that the released code calls tf-idf, for each
/// of its labels.
pub fn own_label_share(count: usize, eps: f64) -> f64 {
    1.0 / (count as f64 + eps)
}
