//! Decisions in a form that is fast to count again with other row weights: for each label, the rows where it was
//! predicted rightly, predicted wrongly or missed.

use super::counts::{ShapeMismatch, check_shapes};
use super::label::{LabelCount, Tally};
use super::registry::Metric;
use crate::data::csr::Csr;

/// The outcome of every decision, by label, for [`super::bootstrap::Bootstrap`].
pub struct Outcomes {
    rows: usize,
    labels: usize,
    /// Three lists of rows per label end to end, in the order of [`DecisionOutcome`]; `3 * labels + 1` offsets.
    offsets: Vec<usize>,
    by_label: Vec<u32>,
    /// Metrics that are means over rows, with each row's value.
    row_values: Vec<(Metric, Vec<f64>)>,
}

/// How the decision about one entry compares with the truth, if either of them is positive.
#[derive(Clone, Copy)]
enum DecisionOutcome {
    Right,
    Wrong,
    Missed,
}

impl Outcomes {
    /// Compares the predicted labels of each row with the true ones.
    pub fn new(truth: &Csr, predicted: &Csr) -> Result<Self, ShapeMismatch> {
        check_shapes(truth, predicted)?;
        let (rows, labels) = (truth.rows(), truth.cols);
        let mut offsets = vec![0; 3 * labels + 1];
        for row in 0..rows {
            compare(truth.row(row), predicted.row(row), |list| offsets[list + 1] += 1);
        }
        for list in 0..3 * labels {
            offsets[list + 1] += offsets[list];
        }
        let mut next = offsets.clone();
        let mut by_label = vec![0; offsets[3 * labels]];
        let (mut sample_f1, mut exact) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in 0..rows {
            let mut tp = 0;
            compare(truth.row(row), predicted.row(row), |list| {
                by_label[next[list]] = row as u32;
                next[list] += 1;
                tp += u32::from(list % 3 == DecisionOutcome::Right as usize);
            });
            let count = LabelCount {
                tp,
                predicted: predicted.row(row).len() as u32,
                actual: truth.row(row).len() as u32,
            };
            sample_f1.push(count.f1());
            exact.push(f64::from(u8::from(count.is_exact())));
        }
        let row_values = vec![(Metric::SampleF1, sample_f1), (Metric::SubsetAccuracy, exact)];
        Ok(Self { rows, labels, offsets, by_label, row_values })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the metrics of [`Outcomes::measure`], in the same order.
    pub fn metrics(&self) -> Vec<Metric> {
        Tally::metrics().chain(self.row_values.iter().map(|values| values.0)).collect()
    }

    /// Returns whether the other outcomes have as many rows, and as many true rows of each label.
    pub fn same_truth(&self, other: &Self) -> bool {
        let actual = |outcomes: &Self, label| {
            outcomes.list(label, DecisionOutcome::Right).len()
                + outcomes.list(label, DecisionOutcome::Missed).len()
        };
        (self.rows, self.labels) == (other.rows, other.labels)
            && (0..self.labels).all(|label| actual(self, label) == actual(other, label))
    }

    /// Returns the values of [`Outcomes::metrics`] for each of several weightings of the rows, `weights[row][lane]`.
    pub fn measure<const LANES: usize>(&self, weights: &[[u8; LANES]]) -> Vec<Vec<f64>> {
        let mut tallies = vec![Tally::default(); LANES];
        for label in 0..self.labels {
            let [right, wrong, missed] =
                [DecisionOutcome::Right, DecisionOutcome::Wrong, DecisionOutcome::Missed]
                    .map(|outcome| weigh(self.list(label, outcome), weights));
            for (lane, tally) in tallies.iter_mut().enumerate() {
                let tp = right[lane];
                tally.add(LabelCount { tp, predicted: tp + wrong[lane], actual: tp + missed[lane] });
            }
        }
        let mut values: Vec<Vec<f64>> = tallies
            .iter()
            .map(|tally| tally.values(self.rows as u64).map(|(_, value)| value).to_vec())
            .collect();
        for (_, row_values) in &self.row_values {
            let mut sums = [0.0; LANES];
            for (weights, value) in weights.iter().zip(row_values) {
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum += f64::from(weight) * value;
                }
            }
            for (values, sum) in values.iter_mut().zip(sums) {
                values.push(sum / self.rows as f64);
            }
        }
        values
    }

    /// Returns the rows where the decision about a label has this outcome.
    fn list(&self, label: usize, outcome: DecisionOutcome) -> &[u32] {
        let list = 3 * label + outcome as usize;
        &self.by_label[self.offsets[list]..self.offsets[list + 1]]
    }
}

/// Sums the weights of some rows, lane by lane.
fn weigh<const LANES: usize>(rows: &[u32], weights: &[[u8; LANES]]) -> [u32; LANES] {
    let mut sums = [0; LANES];
    for &row in rows {
        let weights = &weights[row as usize];
        for lane in 0..LANES {
            sums[lane] += u32::from(weights[lane]);
        }
    }
    sums
}

/// Calls `visit` with the list of [`Outcomes`] that each true or predicted label of one row belongs to. Both slices are
/// ascending.
fn compare(truth: &[u32], predicted: &[u32], mut visit: impl FnMut(usize)) {
    let (mut t, mut p) = (0, 0);
    loop {
        let (label, outcome) = match (truth.get(t), predicted.get(p)) {
            (Some(&true_label), Some(&label)) if true_label == label => (label, DecisionOutcome::Right),
            (Some(&true_label), Some(&label)) if label < true_label => (label, DecisionOutcome::Wrong),
            (Some(&label), _) => (label, DecisionOutcome::Missed),
            (None, Some(&label)) => (label, DecisionOutcome::Wrong),
            (None, None) => return,
        };
        t += usize::from(!matches!(outcome, DecisionOutcome::Wrong));
        p += usize::from(!matches!(outcome, DecisionOutcome::Missed));
        visit(3 * label as usize + outcome as usize);
    }
}
