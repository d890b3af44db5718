//! The metrics of the decisions when every threshold is shifted by the same amount.
//!
//! For each label, entries are counted by the largest shift at which they are still predicted, so that one
//! pass over the entries is enough for all shifts.

use rayon::prelude::*;

use super::block::DecisionBlock;
use super::curves::ShiftedMetrics;
use super::label::{LabelCount, Tally};
use crate::multiversion;

/// The sizes of the shifts, which go in both directions: fine near zero and coarse far from it. No shift at
/// all is added.
const SIZES: [f32; 20] = [
    0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5,
    10.0,
];
const SHIFTS: usize = 2 * SIZES.len() + 1;
/// An entry exceeds between none and all of the shifts.
const COLUMNS: usize = SHIFTS + 1;

/// How many labels are counted for one row after the other, so that their counts stay in the fastest cache.
const LABELS_AT_ONCE: usize = 64;

/// Counts of entries by label and by shift.
#[derive(Debug, Clone)]
pub(super) struct Tradeoff {
    shifts: Shifts,
    /// Entries by label, then by the number of shifts that their margin exceeds.
    all: Vec<u32>,
    of_true: Vec<u32>,
    actual: Vec<u32>,
    seen: bool,
}

impl Tradeoff {
    /// Creates counts of no rows.
    pub(super) fn new(labels: usize) -> Self {
        let counts = || vec![0; labels * COLUMNS];
        Self { shifts: Shifts::new(), all: counts(), of_true: counts(), actual: vec![0; labels], seen: false }
    }

    /// Adds the rows of a block, on all threads. `truth` has the true labels of each row, ascending. Of sparse scores only those
    /// of candidates are added; [`Self::add_rest`] adds the others.
    pub(super) fn add(&mut self, block: &DecisionBlock, truth: &[&[u32]]) {
        if block.rows == 0 || block.row_thresholds(0).is_none() {
            return;
        }
        self.seen = true;
        match &block.sparse {
            Some(sparse) => self.add_candidates(block, &sparse.scores),
            None => self.add_all(block),
        }
        for (row, truth) in truth.iter().enumerate() {
            let Some(thresholds) = block.row_thresholds(row) else { return };
            for &label in *truth {
                let at = label as usize;
                self.actual[at] += 1;
                let place = self.shifts.place(block.score(row, label) - thresholds[at]);
                self.of_true[at * COLUMNS + place] += 1;
            }
        }
    }

    fn add_all(&mut self, block: &DecisionBlock) {
        let (shifts, labels) = (&self.shifts, self.actual.len());
        self.all.par_chunks_mut(LABELS_AT_ONCE * COLUMNS).enumerate().for_each(|(number, counts)| {
            let first = number * LABELS_AT_ONCE;
            let chosen = first..labels.min(first + LABELS_AT_ONCE);
            for row in 0..block.rows {
                let Some(thresholds) = block.row_thresholds(row) else { return };
                let scores = &block.scores[row * labels..][chosen.clone()];
                count_margins(shifts, scores, &thresholds[chosen.clone()], counts);
            }
        });
    }

    fn add_candidates(&mut self, block: &DecisionBlock, scores: &[Vec<f32>]) {
        for (row, scores) in scores.iter().enumerate() {
            let Some(thresholds) = block.row_thresholds(row) else { return };
            for (&label, score) in block.row_candidates(row).iter().zip(scores) {
                let at = label as usize;
                self.all[at * COLUMNS + self.shifts.place(score - thresholds[at])] += 1;
            }
        }
    }

    /// Counts label l `times[l]` times as a decision with this score and threshold, whether it is true or not.
    pub(super) fn add_rest(&mut self, scores: &[f32], thresholds: &[f32], times: &[u64]) {
        let margins = scores.iter().zip(thresholds).map(|(score, threshold)| score - threshold);
        for ((counts, margin), &times) in self.all.chunks_exact_mut(COLUMNS).zip(margins).zip(times) {
            counts[self.shifts.place(margin)] += times as u32;
        }
    }

    /// Returns the metrics by shift; empty if no row had thresholds.
    pub(super) fn curve(&self) -> Vec<ShiftedMetrics> {
        let shifts = self.shifts.sorted;
        let at = |place: usize| {
            let count = |(label, &actual): (usize, &u32)| {
                let above = label * COLUMNS + place + 1..(label + 1) * COLUMNS;
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
                shift: shifts[place].to_string().parse().unwrap_or(f64::from(shifts[place])),
                micro_precision: share(predicted),
                micro_recall: share(actual),
                micro_f1: tally.micro_f1(),
                macro_f1: tally.macro_f1(),
            }
        };
        if self.seen { (0..SHIFTS).map(at).collect() } else { Vec::new() }
    }
}

multiversion! {
    /// Adds the entries of up to [`LABELS_AT_ONCE`] labels of one row to the counts of these labels.
    fn count_margins(shifts: &Shifts, scores: &[f32], thresholds: &[f32], counts: &mut [u32]) {
        let mut margins = [0.0; LABELS_AT_ONCE];
        for (margin, (score, threshold)) in margins.iter_mut().zip(scores.iter().zip(thresholds)) {
            *margin = score - threshold;
        }
        let steps = margins.map(step_of);
        let entries = margins.iter().zip(&steps).take(scores.len());
        for (counts, (&margin, &step)) in counts.chunks_exact_mut(COLUMNS).zip(entries) {
            counts[shifts.below(margin, step)] += 1;
        }
    }
}

/// The shifts, with a table that finds the place of a margin among them without a search.
#[derive(Debug, Clone)]
struct Shifts {
    /// Ascending, with an infinity behind them.
    sorted: [f32; SHIFTS + 1],
    /// For each step of the line of margins, how many shifts are in the steps before it.
    before_step: [u8; STEPS],
}

/// The steps are less wide than the distance between two shifts, so that no step contains two of them.
const STEPS_PER_UNIT: f32 = 128.0;
/// The steps reach from minus this to this, beyond all shifts. A margin outside belongs to the first or the last step.
const REACH: f32 = 11.0;
const STEPS: usize = 2 * REACH as usize * STEPS_PER_UNIT as usize;

/// Returns the step of a margin. It never falls while the margin grows, so a margin is above all shifts of the steps before
/// its own and below all shifts of the steps behind it, in spite of rounding.
#[inline]
fn step_of(margin: f32) -> u16 {
    ((margin + REACH) * STEPS_PER_UNIT).max(0.0).min((STEPS - 1) as f32) as u16
}

impl Shifts {
    fn new() -> Self {
        let mut sorted = [f32::INFINITY; SHIFTS + 1];
        sorted[SIZES.len()] = 0.0;
        for (at, &size) in SIZES.iter().enumerate() {
            sorted[SIZES.len() + 1 + at] = size;
            sorted[SIZES.len() - 1 - at] = -size;
        }
        let before = |step: usize| {
            sorted[..SHIFTS].iter().filter(|&&shift| usize::from(step_of(shift)) < step).count() as u8
        };
        Self { sorted, before_step: std::array::from_fn(before) }
    }

    /// Returns the number of shifts that a margin exceeds.
    fn place(&self, margin: f32) -> usize {
        self.below(margin, step_of(margin))
    }

    /// Returns the number of shifts that a margin in this step exceeds.
    #[inline]
    fn below(&self, margin: f32, step: u16) -> usize {
        let before = usize::from(self.before_step[usize::from(step)]);
        // The next shift may be in the same step; no other one can be.
        before + usize::from(margin > self.sorted[before])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_what_a_search_finds() {
        let shifts = Shifts::new();
        let searched = |margin: f32| shifts.sorted.partition_point(|&shift| margin > shift);
        let mut margins = vec![f32::NEG_INFINITY, f32::MIN, f32::MAX, f32::INFINITY, -0.0];
        for &shift in &shifts.sorted[..SHIFTS] {
            margins.extend([shift.next_down(), shift, shift.next_up()]);
        }
        for step in -3000..3000_i16 {
            let edge = f32::from(step) / STEPS_PER_UNIT;
            margins.extend([edge.next_down(), edge, edge.next_up(), edge + 0.003]);
        }
        for margin in margins {
            // No margin exceeds an infinity behind the shifts.
            assert_eq!(shifts.below(margin, step_of(margin)), searched(margin).min(SHIFTS), "{margin}");
        }
    }
}
