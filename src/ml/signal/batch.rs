//! [`BatchSignals`]: the true labels and the signals of the elements of one batch, by label.
//!
//! All but a few thousand of the B x L elements have no true label and no local signal. Only the others are stored.

use super::propagate::own_label_share;
use super::sparse_rows::SparseRows;

/// An element of the batch that is a true label or has a local signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignalEntry {
    pub row: u32,
    pub positive: bool,
    /// KNN_il.
    pub local: f64,
    /// The global signal of the released code: one over the number of labels of the row, if this is one of them.
    pub own: f64,
}

/// The entries of a batch by label, rows ascending.
#[derive(Debug, Clone, Default)]
pub struct BatchSignals {
    ends: Vec<u32>,
    entries: Vec<SignalEntry>,
}

impl BatchSignals {
    /// Combines the true labels of the rows and the local signal. Each must have as many rows as the batch,
    /// or none if it is unknown.
    pub fn new(labels: usize, targets: &SparseRows, local: &SparseRows, eps: f64) -> Self {
        let rows = targets.len().max(local.len());
        let mut merged: Vec<(u32, SignalEntry)> = Vec::with_capacity(targets.entries() + local.entries());
        for row in 0..rows {
            let own = if row < targets.len() { targets.row(row) } else { &[] };
            let near = if row < local.len() { local.row(row) } else { &[] };
            merge_row(row as u32, own, near, eps, &mut merged);
        }
        let mut ends = vec![0u32; labels + 1];
        for (label, _) in &merged {
            ends[*label as usize + 1] += 1;
        }
        for label in 0..labels {
            ends[label + 1] += ends[label];
        }
        let mut next = ends.clone();
        let nothing = SignalEntry { row: 0, positive: false, local: 0.0, own: 0.0 };
        let mut entries = vec![nothing; merged.len()];
        for (label, entry) in merged {
            let slot = &mut next[label as usize];
            entries[*slot as usize] = entry;
            *slot += 1;
        }
        Self { ends, entries }
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.ends.len() - 1
    }

    /// Returns the entries of one label.
    pub fn of(&self, label: usize) -> &[SignalEntry] {
        &self.entries[self.ends[label] as usize..self.ends[label + 1] as usize]
    }
}

/// Merges the true labels and the local signal of one row. Both are ascending by label, and so is the result.
fn merge_row(
    row: u32,
    own: &[(u32, f64)],
    near: &[(u32, f64)],
    eps: f64,
    merged: &mut Vec<(u32, SignalEntry)>,
) {
    let share = own_label_share(own.len(), eps);
    let (mut a, mut b) = (0, 0);
    while a < own.len() || b < near.len() {
        let mine = own.get(a).map_or(u32::MAX, |entry| entry.0);
        let theirs = near.get(b).map_or(u32::MAX, |entry| entry.0);
        let label = mine.min(theirs);
        let positive = mine == label;
        let local = if theirs == label { near[b].1 } else { 0.0 };
        let own = if positive { share } else { 0.0 };
        merged.push((label, SignalEntry { row, positive, local, own }));
        a += usize::from(positive);
        b += usize::from(theirs == label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[(u32, f64)]]) -> SparseRows {
        let mut all = SparseRows::default();
        for row in rows {
            all.push(row.iter().copied());
        }
        all
    }

    #[test]
    fn true_labels_and_signals_are_merged_by_label() {
        let targets = rows(&[&[(1, 1.0), (3, 1.0)], &[]]);
        let local = rows(&[&[(0, 0.5), (1, 2.0)], &[(3, 0.25)]]);
        let signals = BatchSignals::new(4, &targets, &local, 0.0);
        let entry = |row, positive, local, own| SignalEntry { row, positive, local, own };
        assert_eq!(signals.of(0), [entry(0, false, 0.5, 0.0)]);
        assert_eq!(signals.of(1), [entry(0, true, 2.0, 0.5)]);
        assert_eq!(signals.of(2), []);
        assert_eq!(signals.of(3), [entry(0, true, 0.0, 0.5), entry(1, false, 0.25, 0.0)]);
    }

    #[test]
    fn without_true_labels_only_the_signal_is_stored() {
        let local = rows(&[&[(2, 0.5)]]);
        let signals = BatchSignals::new(3, &SparseRows::default(), &local, 1e-8);
        assert_eq!(signals.of(2), [SignalEntry { row: 0, positive: false, local: 0.5, own: 0.0 }]);
    }
}
