//! The paper's local signal, eqs. 4-6: rows of a batch that share labels lend each other theirs.

use super::sparse_rows::{LabelSums, SparseRows};

/// KNN = (Y Y^T / (row sums of Y + eps)) Y for sparse Y over `labels` columns.
///
/// Y holds ones for true labels, or probabilities in their place. The self term is in, as
/// printed, unless `leave_self_out` clears the diagonal of Y Y^T.
pub fn propagate(y: &SparseRows, labels: usize, leave_self_out: bool, eps: f64) -> SparseRows {
    let holders = holders(y, labels);
    let mut shared = vec![0.0; y.len()];
    let mut sums = LabelSums::new(labels);
    let mut signal = SparseRows::default();
    for (i, row) in y.iter().enumerate() {
        for &(label, weight) in row {
            for &(j, other) in &holders[label as usize] {
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

/// For each label, the rows that have it.
fn holders(y: &SparseRows, labels: usize) -> Vec<Vec<(u32, f64)>> {
    let mut holders = vec![Vec::new(); labels];
    for (i, row) in y.iter().enumerate() {
        for &(label, weight) in row.iter().filter(|(_, weight)| *weight != 0.0) {
            holders[label as usize].push((i as u32, weight));
        }
    }
    holders
}

/// What the released code calls tf-idf: 1 / (number of the row's labels + eps) at each of them.
pub fn own_label_share(count: usize, eps: f64) -> f64 {
    1.0 / (count as f64 + eps)
}
