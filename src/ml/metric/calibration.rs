//! How well probabilities are calibrated: Brier score and expected calibration error, row by row.

use super::curves::ReliabilityBin;
use super::exact::ExactSum;
use super::registry::Metric;
use crate::multiversion;

/// The number of bins of equal width.
pub const BINS: usize = 15;

/// How many numbers up to 1 are added as 64-bit units of an [`ExactSum`]. 2047 would still fit.
const ADDED_AT_ONCE: usize = 1024;
/// How many probabilities are converted at once.
const CONVERTED_AT_ONCE: usize = 16;
/// Neighbouring entries are counted apart, because they often fall into one bin and would wait for each other.
const SIDE_BY_SIDE: usize = 4;
/// A power of two, so that an index needs no check. Bin 15 has only the probability 1 and is added to bin 14.
const COLUMNS: usize = 16;

/// The error for a value that is not a probability.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the score {value} of label {label} is not a probability: calibration needs numbers from 0 to 1")]
pub struct NotAProbability {
    pub label: usize,
    pub value: f32,
}

/// Sums over (row, label) entries, from which the metrics follow.
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    entries: u64,
    squares: ExactSum,
    bins: [CalibrationBin; BINS],
}

/// Sums over the entries of one bin.
#[derive(Debug, Clone, Copy, Default)]
struct CalibrationBin {
    entries: u64,
    /// Sum of probabilities.
    expected: ExactSum,
    positives: u64,
}

impl Calibration {
    /// Adds one row: its true labels, and the probability of every label.
    pub fn add(&mut self, truth: &[u32], probabilities: &[f32]) -> Result<(), NotAProbability> {
        self.add_entries(probabilities).map_err(|(label, value)| NotAProbability { label, value })?;
        for &label in truth {
            self.mark_true(probabilities[label as usize]);
        }
        Ok(())
    }

    /// Adds the candidates of one row with their probabilities, and all true labels. [`Self::add_rest`] adds the other labels;
    /// `rest` has their probabilities.
    pub fn add_candidates(
        &mut self,
        truth: &[u32],
        candidates: &[u32],
        probabilities: &[f32],
        rest: &[f32],
    ) -> Result<(), NotAProbability> {
        self.add_entries(probabilities)
            .map_err(|(at, value)| NotAProbability { label: candidates[at] as usize, value })?;
        for &label in truth {
            let own = candidates.binary_search(&label).map(|at| probabilities[at]);
            self.mark_true(own.unwrap_or(rest[label as usize]));
        }
        Ok(())
    }

    /// Counts label l `times[l]` times as a decision with this probability, whether it is true or not.
    pub fn add_rest(&mut self, probabilities: &[f32], times: &[u64]) {
        for (&p, &times) in probabilities.iter().zip(times) {
            let p = f64::from(p);
            let bin = &mut self.bins[bin_of(p)];
            bin.entries += times;
            bin.expected.add_units_times(ExactSum::units_up_to_one(p), times);
            self.squares.add_units_times(ExactSum::units_up_to_one(p * p), times);
            self.entries += times;
        }
    }

    /// Adds entries as if they were false. The error is the position and the value of one that is not a probability.
    fn add_entries(&mut self, probabilities: &[f32]) -> Result<(), (usize, f32)> {
        let is_probability = |p: &f32| (0.0..=1.0).contains(p);
        // A loop that does not end early is vectorised.
        if !probabilities.iter().fold(true, |all, p| all & is_probability(p)) {
            let at = probabilities.iter().position(|p| !is_probability(p)).unwrap_or_default();
            return Err((at, probabilities[at]));
        }
        for some in probabilities.chunks(ADDED_AT_ONCE) {
            let sums = sum_units(some);
            self.squares.add_units(sums.squares);
            for (bin, (entries, expected)) in self.bins.iter_mut().zip(sums.bins) {
                bin.entries += entries;
                bin.expected.add_units(expected);
            }
        }
        self.entries += probabilities.len() as u64;
        Ok(())
    }

    /// Turns an entry with this probability into a true one.
    fn mark_true(&mut self, probability: f32) {
        let p = f64::from(probability);
        self.bins[bin_of(p)].positives += 1;
        self.squares += 1.0 - 2.0 * p;
    }

    /// Adds the sums of other rows.
    pub fn merge(&mut self, other: &Self) {
        self.entries += other.entries;
        self.squares += other.squares;
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.entries += other.entries;
            bin.expected += other.expected;
            bin.positives += other.positives;
        }
    }

    /// Returns the bins by probability; bins without entries are left out.
    pub fn reliability(&self) -> Vec<ReliabilityBin> {
        let filled = self.bins.iter().filter(|bin| bin.entries > 0);
        let finish = |bin: &CalibrationBin| ReliabilityBin {
            mean_probability: bin.expected.value() / bin.entries as f64,
            entries: bin.entries,
            positives: bin.positives,
        };
        filled.map(finish).collect()
    }

    /// Returns the metrics.
    pub fn values(&self) -> [(Metric, f64); 2] {
        let entries = self.entries.max(1) as f64;
        let gap = |bin: &CalibrationBin| (bin.expected.value() - bin.positives as f64).abs();
        [
            (Metric::Brier, self.squares.value() / entries),
            (Metric::Ece, self.bins.iter().map(gap).sum::<f64>() / entries),
        ]
    }
}

/// Sums over up to [`ADDED_AT_ONCE`] probabilities, in units of an [`ExactSum`].
struct UnitSums {
    squares: i64,
    /// The number of entries of each bin, and the sum of their probabilities.
    bins: [(u64, i64); BINS],
}

multiversion! {
    /// Sums probabilities and their squares.
    fn sum_units(probabilities: &[f32]) -> UnitSums {
        let mut squares = 0;
        let mut columns = [[(0u64, 0i64); COLUMNS]; SIDE_BY_SIDE];
        for some in probabilities.chunks(CONVERTED_AT_ONCE) {
            let mut values = [0.0; CONVERTED_AT_ONCE];
            values[..some.len()].copy_from_slice(some);
            // Zeros behind the end add nothing here, and are not counted below.
            let (mut bins, mut units) = ([0; CONVERTED_AT_ONCE], [0; CONVERTED_AT_ONCE]);
            for at in 0..CONVERTED_AT_ONCE {
                let p = f64::from(values[at]);
                bins[at] = (p * BINS as f64) as u8;
                units[at] = ExactSum::units_up_to_one(p);
                squares += ExactSum::units_up_to_one(p * p);
            }
            for at in 0..some.len() {
                let (entries, expected) = &mut columns[at % SIDE_BY_SIDE][usize::from(bins[at]) % COLUMNS];
                *entries += 1;
                *expected += units[at];
            }
        }
        let mut sums = UnitSums { squares, bins: [(0, 0); BINS] };
        for (bin, &(entries, expected)) in columns.iter().flat_map(|columns| columns.iter().enumerate()) {
            let sum = &mut sums.bins[bin.min(BINS - 1)];
            sum.0 += entries;
            sum.1 += expected;
        }
        sums
    }
}

/// Returns the bin of a probability. Bin i has the probabilities from i/15 to below (i+1)/15; the last one also has 1.
fn bin_of(probability: f64) -> usize {
    ((probability * BINS as f64) as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfectly_calibrated_probabilities_have_no_calibration_error() {
        let mut calibration = Calibration::default();
        for row in 0..4 {
            let truth: &[u32] = if row == 0 { &[0, 1] } else { &[1] };
            calibration.add(truth, &[0.25, 1.0, 0.0]).unwrap();
        }
        let brier = (3.0 * 0.25f64.powi(2) + 0.75f64.powi(2)) / 12.0;
        assert_eq!(calibration.values(), [(Metric::Brier, brier), (Metric::Ece, 0.0)]);
    }

    #[test]
    fn long_rows_of_the_largest_probabilities_are_added_exactly() {
        let mut calibration = Calibration::default();
        calibration.add(&[0], &[1.0; 5000]).unwrap();
        assert_eq!(calibration.values(), [(Metric::Brier, 4999.0 / 5000.0), (Metric::Ece, 4999.0 / 5000.0)]);
    }

    #[test]
    fn a_value_that_is_not_a_probability_is_an_error_with_its_label() {
        let mut calibration = Calibration::default();
        for value in [-0.1, 1.5, f32::NAN] {
            let error = calibration.add(&[], &[0.5, value]).unwrap_err();
            assert_eq!(error.label, 1);
        }
        assert_eq!(calibration.values()[0].1, 0.0, "a refused row is not counted");
    }
}
