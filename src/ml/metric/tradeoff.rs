//! What becomes of the decisions when every threshold is moved by the same amount.
//!
//! Per label, entries are counted by the largest shift at which they are still predicted, so that a pass
//! over the entries is enough for all shifts.

use super::curves::Shifted;
use super::label::{LabelCount, Tally};

/// The sizes of shifts, in both directions and beside no shift at all: fine around the decisions as they are,
/// coarse far from them.
const SIZES: [f32; 20] = [
    0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5,
    10.0,
];
const SHIFTS: usize = 2 * SIZES.len() + 1;

#[derive(Debug, Clone)]
pub(super) struct Tradeoff {
    shifts: [f32; SHIFTS],
    /// By label, then by how many shifts an entry's margin exceeds, less one.
    all: Vec<u32>,
    of_true: Vec<u32>,
    actual: Vec<u32>,
    seen: bool,
}

impl Tradeoff {
    pub(super) fn new(labels: usize) -> Self {
        let mut shifts = [0.0; SHIFTS];
        for (at, &size) in SIZES.iter().enumerate() {
            shifts[SIZES.len() + 1 + at] = size;
            shifts[SIZES.len() - 1 - at] = -size;
        }
        let counts = || vec![0; labels * SHIFTS];
        Self { shifts, all: counts(), of_true: counts(), actual: vec![0; labels], seen: false }
    }

    /// One row: its true labels, ascending, and by how much each score exceeds its threshold.
    pub(super) fn add(&mut self, truth: &[u32], margins: impl Iterator<Item = f32>) {
        self.seen = true;
        truth.iter().for_each(|&label| self.actual[label as usize] += 1);
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

    pub(super) fn merge(&mut self, other: &Self) {
        self.seen |= other.seen;
        let add = |into: &mut Vec<u32>, from: &Vec<u32>| into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.all, &other.all);
        add(&mut self.of_true, &other.of_true);
        add(&mut self.actual, &other.actual);
    }

    /// By shift; nothing where no row had thresholds.
    pub(super) fn curve(&self) -> Vec<Shifted> {
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
            Shifted {
                // Through text: the shift is meant as it is written above.
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
