//! Predictions and truth laid out for recounting: for each label, the rows where it was right, wrong
//! or missed.

use super::counts::{ShapeMismatch, check_shapes};
use super::label::{LabelCount, Tally};
use super::registry::Metric;
use crate::data::csr::Csr;

pub struct Outcomes {
    rows: usize,
    labels: usize,
    /// Three lists of rows per label end to end, in the order of [`Outcome`]; `3 * labels + 1` offsets.
    offsets: Vec<usize>,
    by_label: Vec<u32>,
    /// Metrics that are means over rows, with each row's value.
    row_values: Vec<(Metric, Vec<f64>)>,
}

#[derive(Clone, Copy)]
enum Outcome {
    Right,
    Wrong,
    Missed,
}

impl Outcomes {
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
                tp += u32::from(list % 3 == Outcome::Right as usize);
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

    /// Adds a metric that is the mean of one value per row, such as P@5.
    pub fn with_row_values(mut self, metric: Metric, values: Vec<f64>) -> Self {
        assert_eq!(values.len(), self.rows, "one value of {metric} per row");
        self.row_values.push((metric, values));
        self
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn metrics(&self) -> Vec<Metric> {
        Tally::METRICS.into_iter().chain(self.row_values.iter().map(|values| values.0)).collect()
    }

    /// Whether the other outcomes are of rows with the same number of each label.
    pub fn same_truth(&self, other: &Self) -> bool {
        let actual = |outcomes: &Self, label| {
            outcomes.list(label, Outcome::Right).len() + outcomes.list(label, Outcome::Missed).len()
        };
        (self.rows, self.labels) == (other.rows, other.labels)
            && (0..self.labels).all(|label| actual(self, label) == actual(other, label))
    }

    /// The metrics for each of several weightings of the rows: `weights[row][lane]`.
    pub fn measure<const LANES: usize>(&self, weights: &[[u8; LANES]]) -> Vec<Vec<f64>> {
        let mut tallies = vec![Tally::default(); LANES];
        for label in 0..self.labels {
            let [right, wrong, missed] = [Outcome::Right, Outcome::Wrong, Outcome::Missed]
                .map(|outcome| weigh(self.list(label, outcome), weights));
            for (lane, tally) in tallies.iter_mut().enumerate() {
                let tp = right[lane];
                tally.add(LabelCount { tp, predicted: tp + wrong[lane], actual: tp + missed[lane] });
            }
        }
        let mut values: Vec<Vec<f64>> =
            tallies.iter().map(|tally| tally.values(self.rows as u64).to_vec()).collect();
        for (_, row_values) in &self.row_values {
            let mut sums = [0.0; LANES];
            for (weights, value) in weights.iter().zip(row_values) {
                sums.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum += f64::from(weight) * value);
            }
            values.iter_mut().zip(sums).for_each(|(values, sum)| values.push(sum / self.rows as f64));
        }
        values
    }

    fn list(&self, label: usize, outcome: Outcome) -> &[u32] {
        let list = 3 * label + outcome as usize;
        &self.by_label[self.offsets[list]..self.offsets[list + 1]]
    }
}

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

/// Visits the list that each label of one row belongs to. Both rows ascend.
fn compare(truth: &[u32], predicted: &[u32], mut visit: impl FnMut(usize)) {
    let (mut t, mut p) = (0, 0);
    loop {
        let (label, outcome) = match (truth.get(t), predicted.get(p)) {
            (Some(&true_label), Some(&label)) if true_label == label => (label, Outcome::Right),
            (Some(&true_label), Some(&label)) if label < true_label => (label, Outcome::Wrong),
            (Some(&label), _) => (label, Outcome::Missed),
            (None, Some(&label)) => (label, Outcome::Wrong),
            (None, None) => return,
        };
        t += usize::from(!matches!(outcome, Outcome::Wrong));
        p += usize::from(!matches!(outcome, Outcome::Missed));
        visit(3 * label as usize + outcome as usize);
    }
}
