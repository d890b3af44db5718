//! Statistics of a data set: sizes, entries per row, and label frequencies.

use super::csr::Csr;

/// Counts for each column the rows in which it has an entry.
pub fn column_counts(matrix: &Csr, rows: impl IntoIterator<Item = u32>) -> Vec<u64> {
    let mut counts = vec![0; matrix.cols];
    for row in rows {
        for &column in matrix.row(row as usize) {
            counts[column as usize] += 1;
        }
    }
    counts
}

/// The statistics of a part, or of rows that have not been split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    pub rows: u64,
    pub features: u64,
    pub labels: u64,
    /// The number of stored features in all rows.
    pub feature_entries: u64,
    /// The number of positive labels in all rows.
    pub label_entries: u64,
    pub rows_without_features: u64,
    pub rows_without_labels: u64,
    /// The number of rows of each label.
    pub label_counts: Vec<u64>,
}

/// Frequency bounds for tail statistics: the labels with fewer rows than this.
pub const TAIL_BOUNDS: [u64; 3] = [5, 10, 100];

impl Stats {
    /// Computes the statistics of all rows.
    pub fn of(features: &Csr, labels: &Csr) -> Self {
        Self::of_rows(features, labels, 0..labels.rows() as u32)
    }

    /// Computes the statistics of some rows.
    pub fn of_rows(features: &Csr, labels: &Csr, rows: impl Iterator<Item = u32>) -> Self {
        let mut stats = Self {
            rows: 0,
            features: features.cols as u64,
            labels: labels.cols as u64,
            feature_entries: 0,
            label_entries: 0,
            rows_without_features: 0,
            rows_without_labels: 0,
            label_counts: vec![0; labels.cols],
        };
        for row in rows {
            let (features, labels) = (features.row(row as usize), labels.row(row as usize));
            stats.rows += 1;
            stats.feature_entries += features.len() as u64;
            stats.label_entries += labels.len() as u64;
            stats.rows_without_features += u64::from(features.is_empty());
            stats.rows_without_labels += u64::from(labels.is_empty());
            for &label in labels {
                stats.label_counts[label as usize] += 1;
            }
        }
        stats
    }

    /// Returns the mean number of labels per row.
    pub fn labels_per_row(&self) -> f64 {
        ratio(self.label_entries, self.rows)
    }

    /// Returns the mean number of features per row.
    pub fn features_per_row(&self) -> f64 {
        ratio(self.feature_entries, self.rows)
    }

    /// Returns the mean number of rows per label.
    pub fn rows_per_label(&self) -> f64 {
        ratio(self.label_entries, self.labels)
    }

    /// Returns the number of labels that occur in fewer than `bound` rows.
    pub fn labels_under(&self, bound: u64) -> u64 {
        self.label_counts.iter().filter(|&&count| count < bound).count() as u64
    }

    /// Returns the share of the labels that occur in fewer than `bound` rows.
    pub fn share_under(&self, bound: u64) -> f64 {
        ratio(self.labels_under(bound), self.labels)
    }

    /// Returns the share of the labels that occur, which is an upper bound of macro-F1 over all labels.
    pub fn macro_f1_cap(&self) -> f64 {
        ratio(self.labels - self.labels_under(1), self.labels)
    }

    /// Returns the label counts in descending order.
    pub fn curve(&self) -> Vec<u64> {
        let mut counts = self.label_counts.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::test_matrix::ones;
    use super::*;

    #[test]
    fn counts_and_means_are_correct() {
        let features = ones(5, &[vec![0, 4], vec![], vec![1]]);
        let labels = ones(4, &[vec![0, 2], vec![0], vec![]]);
        let stats = Stats::of(&features, &labels);
        assert_eq!((stats.rows, stats.features, stats.labels), (3, 5, 4));
        assert_eq!((stats.rows_without_features, stats.rows_without_labels), (1, 1));
        assert_eq!((stats.labels_per_row(), stats.features_per_row()), (1.0, 1.0));
        assert_eq!(stats.curve(), [2, 1, 0, 0]);
        assert_eq!(stats.share_under(2), 0.75);
        assert_eq!(stats.macro_f1_cap(), 0.5);
    }

    #[test]
    fn without_rows_all_means_are_zero() {
        let stats = Stats::of(&ones(0, &[]), &ones(0, &[]));
        assert_eq!((stats.labels_per_row(), stats.share_under(5), stats.macro_f1_cap()), (0.0, 0.0, 0.0));
    }
}
