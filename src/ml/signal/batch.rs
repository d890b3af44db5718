//! [`BatchSignals`]: the true labels and the signals of the elements of one batch, by label.
//!
//! All but a few thousand of the B x L elements have no true label and no local signal. Only the others are stored.

use super::propagate::own_label_share;
use super::sparse_rows::SparseRows;
use super::supply::SignalBatch;

/// An element of the batch that is a true label or has a local signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignalEntry {
    pub row: u32,
    pub positive: bool,
    /// KNN_il.
    pub local: f64,
    /// The global signal, if it depends on the row: the salience of the label times its IDF, or that of the released
    /// code, which is one over the number of labels of the row if this is one of them.
    pub global: f64,
}

/// The entries of a batch by label, rows ascending.
#[derive(Debug, Clone, Default)]
pub struct BatchSignals {
    ends: Vec<u32>,
    entries: Vec<SignalEntry>,
    density: Vec<f64>,
}

impl BatchSignals {
    /// Combines the true labels of the rows and the local signal. Each must have as many rows as the batch,
    /// or none if it is unknown.
    pub fn new(labels: usize, targets: &SparseRows, local: &SparseRows, eps: f64) -> Self {
        Self::merge(labels, targets, local, &SparseRows::default(), eps)
    }

    /// Combines the true labels of the rows, the local signal, and the other signals of the batch.
    pub fn with_signals(
        labels: usize,
        targets: &SparseRows,
        local: &SparseRows,
        signals: &SignalBatch,
        eps: f64,
    ) -> Self {
        let density = signals.density.clone();
        Self { density, ..Self::merge(labels, targets, local, &signals.salience, eps) }
    }

    fn merge(
        labels: usize,
        targets: &SparseRows,
        local: &SparseRows,
        salience: &SparseRows,
        eps: f64,
    ) -> Self {
        let rows = targets.len().max(local.len()).max(salience.len());
        let total = targets.entries() + local.entries() + salience.entries();
        let mut merged: Vec<(u32, SignalEntry)> = Vec::with_capacity(total);
        for row in 0..rows {
            merge_row(row, [targets, local, salience], eps, &mut merged);
        }
        let mut ends = vec![0u32; labels + 1];
        for (label, _) in &merged {
            ends[*label as usize + 1] += 1;
        }
        for label in 0..labels {
            ends[label + 1] += ends[label];
        }
        let mut next = ends.clone();
        let nothing = SignalEntry { row: 0, positive: false, local: 0.0, global: 0.0 };
        let mut entries = vec![nothing; merged.len()];
        for (label, entry) in merged {
            let slot = &mut next[label as usize];
            entries[*slot as usize] = entry;
            *slot += 1;
        }
        Self { ends, entries, density: Vec::new() }
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.ends.len() - 1
    }

    /// Returns the entries of one label.
    pub fn of(&self, label: usize) -> &[SignalEntry] {
        &self.entries[self.ends[label] as usize..self.ends[label + 1] as usize]
    }

    /// Returns c(x) of each row; nothing if the thresholds do not fall back.
    pub fn density(&self) -> &[f64] {
        &self.density
    }
}

/// Merges the true labels, the local signal and the salience of one row. All are ascending by label, and so is the result.
fn merge_row(row: usize, parts: [&SparseRows; 3], eps: f64, merged: &mut Vec<(u32, SignalEntry)>) {
    let salient = !parts[2].is_empty();
    let parts = parts.map(|part| if row < part.len() { part.row(row) } else { &[] });
    let share = own_label_share(parts[0].len(), eps);
    let mut at = [0; 3];
    loop {
        let next: [u32; 3] =
            std::array::from_fn(|part| parts[part].get(at[part]).map_or(u32::MAX, |entry| entry.0));
        let label = next[0].min(next[1]).min(next[2]);
        if label == u32::MAX {
            return;
        }
        let mut value = |part: usize| {
            let found = next[part] == label;
            at[part] += usize::from(found);
            found.then(|| parts[part][at[part] - 1].1)
        };
        let positive = value(0).is_some();
        let (local, salience) = (value(1).unwrap_or(0.0), value(2).unwrap_or(0.0));
        let own = if positive { share } else { 0.0 };
        let global = if salient { salience } else { own };
        merged.push((label, SignalEntry { row: row as u32, positive, local, global }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::supply::LocalSignalBatch;
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
        let entry = |row, positive, local, global| SignalEntry { row, positive, local, global };
        assert_eq!(signals.of(0), [entry(0, false, 0.5, 0.0)]);
        assert_eq!(signals.of(1), [entry(0, true, 2.0, 0.5)]);
        assert_eq!(signals.of(2), []);
        assert_eq!(signals.of(3), [entry(0, true, 0.0, 0.5), entry(1, false, 0.25, 0.0)]);
    }

    #[test]
    fn without_true_labels_only_the_signal_is_stored() {
        let local = rows(&[&[(2, 0.5)]]);
        let signals = BatchSignals::new(3, &SparseRows::default(), &local, 1e-8);
        let entry = SignalEntry { row: 0, positive: false, local: 0.5, global: 0.0 };
        assert_eq!(signals.of(2), [entry]);
    }

    #[test]
    fn the_salience_takes_the_place_of_the_share_of_own_labels() {
        let targets = rows(&[&[(0, 1.0), (1, 1.0)], &[]]);
        let salience = rows(&[&[(1, 0.5), (2, 0.25)], &[(0, 2.0)]]);
        let local = LocalSignalBatch::Rows(SparseRows::empty(2));
        let batch = SignalBatch { salience, density: vec![1.0, 0.5], ..local.into() };
        let signals = BatchSignals::with_signals(3, &targets, &SparseRows::empty(2), &batch, 0.0);
        let entry = |row, positive, global| SignalEntry { row, positive, local: 0.0, global };
        assert_eq!(signals.of(0), [entry(0, true, 0.0), entry(1, false, 2.0)]);
        assert_eq!(signals.of(1), [entry(0, true, 0.5)]);
        assert_eq!(signals.of(2), [entry(0, false, 0.25)]);
        assert_eq!(signals.density(), [1.0, 0.5]);
    }
}
