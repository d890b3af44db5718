//! The metrics of the decisions when every threshold is shifted by the same amount.
//!
//! For each label, entries are counted by the largest shift at which they are still predicted, so that one
//! pass over the entries is enough for all shifts.

use super::curves::ShiftedMetrics;
use super::label::{LabelCount, Tally};

/// The sizes of the shifts, which go in both directions: fine near zero and coarse far from it. No shift at
/// all is added.
const SIZES: [f32; 20] = [
    0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5,
    10.0,
];
const SHIFTS: usize = 2 * SIZES.len() + 1;

/// Counts of entries by label and by shift.
#[derive(Debug, Clone)]
pub(super) struct Tradeoff {
    shifts: [f32; SHIFTS],
    /// Entries by label, then by the number of shifts that their margin exceeds, minus one.
    all: Vec<u32>,
    of_true: Vec<u32>,
    actual: Vec<u32>,
    seen: bool,
}

impl Tradeoff {
    /// Creates counts of no rows.
    pub(super) fn new(labels: usize) -> Self {
        let mut shifts = [0.0; SHIFTS];
        for (at, &size) in SIZES.iter().enumerate() {
            shifts[SIZES.len() + 1 + at] = size;
            shifts[SIZES.len() - 1 - at] = -size;
        }
        let counts = || vec![0; labels * SHIFTS];
        Self { shifts, all: counts(), of_true: counts(), actual: vec![0; labels], seen: false }
    }

    /// Adds one row: its true labels, ascending, and each score minus its threshold.
    pub(super) fn add(&mut self, truth: &[u32], margins: impl Iterator<Item = f32>) {
        self.seen = true;
        for &label in truth {
            self.actual[label as usize] += 1;
        }
        let mut truth = truth.iter().copied().peekable();
        for (label, margin) in margins.enumerate() {
            let positive = truth.next_if_eq(&(label as u32)).is_some();
            let exceeded = self.shifts.partition_point(|&shift| margin > shift);
            if exceeded > 0 {
                let at = label * SHIFTS + exceeded - 1;
                self.all[at] += 1;
                self.of_true[at] += u32::from(positive);
            }
        }
    }

    /// Adds the counts of other rows.
    pub(super) fn merge(&mut self, other: &Self) {
        self.seen |= other.seen;
        add_counts(&mut self.all, &other.all);
        add_counts(&mut self.of_true, &other.of_true);
        add_counts(&mut self.actual, &other.actual);
    }

    /// Returns the metrics by shift; empty if no row had thresholds.
    pub(super) fn curve(&self) -> Vec<ShiftedMetrics> {
        let at = |place: usize| {
            let count = |(label, &actual): (usize, &u32)| {
                let above = label * SHIFTS + place..(label + 1) * SHIFTS;
                let sum = |counts: &[u32]| counts[above.clone()].iter().sum();
                LabelCount { tp: sum(&self.of_true), predicted: sum(&self.all), actual }
            };
            let counts: Vec<LabelCount> = self.actual.iter().enumerate().map(count).collect();
            let sum =
                |of: fn(&LabelCount) -> u32| counts.iter().map(|count| u64::from(of(count))).sum::<u64>();
            let (tp, predicted, actual) = (sum(|c| c.tp), sum(|c| c.predicted), sum(|c| c.actual));
            let share = |whole: u64| if whole == 0 { 0.0 } else { tp as f64 / whole as f64 };
            let tally = Tally::over(counts.iter().copied());
            ShiftedMetrics {
                // By way of text, so that 0.1f32 becomes 0.1 and not 0.10000000149.
                shift: self.shifts[place].to_string().parse().unwrap_or(f64::from(self.shifts[place])),
                micro_precision: share(predicted),
                micro_recall: share(actual),
                micro_f1: tally.micro_f1(),
                macro_f1: tally.macro_f1(),
            }
        };
        if self.seen { (0..SHIFTS).map(at).collect() } else { Vec::new() }
    }
}

/// Adds counts one by one.
fn add_counts(into: &mut [u32], from: &[u32]) {
    for (sum, count) in into.iter_mut().zip(from) {
        *sum += count;
    }
}
