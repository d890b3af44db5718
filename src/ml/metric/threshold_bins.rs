//! A histogram of the thresholds of all entries, separately for true and false entries.
//!
//! The bins span the thresholds of the first rows. Thresholds of later rows outside of that span are counted in the
//! outermost bins, whose edges are moved at the end.

use super::curves::ThresholdHistogram;
use crate::multiversion;

const BINS: usize = 50;
/// At least one more than there are bins, for infinite thresholds; a power of two, so that an index needs no check.
const COLUMNS: usize = 64;
/// How many labels are counted at once.
const AT_ONCE: usize = 1024;
/// Neighbouring entries are counted apart, because they often fall into one bin and would wait for each other.
const SIDE_BY_SIDE: usize = 4;

/// The bins while rows are added.
#[derive(Debug, Clone)]
pub(super) struct ThresholdBins {
    low: f32,
    high: f32,
    least: f32,
    most: f32,
    all: Vec<u64>,
    of_true: Vec<u64>,
}

impl ThresholdBins {
    /// Creates empty bins that span the thresholds of the first rows; `None` if no threshold is finite.
    pub(super) fn spanning<'a>(thresholds: impl Iterator<Item = &'a f32>) -> Option<Self> {
        let finite = thresholds.copied().filter(|threshold| threshold.is_finite());
        let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), threshold| {
            (low.min(threshold), high.max(threshold))
        });
        let bins = if low < high { BINS } else { 1 };
        (low <= high).then(|| Self {
            low,
            high,
            least: low,
            most: high,
            all: vec![0; bins],
            of_true: vec![0; bins],
        })
    }

    /// Adds rows with the same threshold of every label. Infinite thresholds are left out.
    pub(super) fn add(&mut self, thresholds: &[f32], rows: u64) {
        let line = self.line();
        for some in thresholds.chunks(AT_ONCE) {
            let counted = count_bins(line, some);
            self.least = self.least.min(counted.least);
            self.most = self.most.max(counted.most);
            for (sum, count) in self.all.iter_mut().zip(counted.counts) {
                *sum += rows * u64::from(count);
            }
        }
    }

    /// Adds the true labels of one row, whose thresholds are added by [`Self::add`].
    pub(super) fn add_truth(&mut self, truth: &[u32], thresholds: &[f32]) {
        let line = self.line();
        let of_truth = truth.iter().map(|&label| thresholds[label as usize]);
        for threshold in of_truth.filter(|threshold| threshold.is_finite()) {
            self.of_true[usize::from(line.bin(threshold))] += 1;
        }
    }

    fn line(&self) -> BinLine {
        let bins = self.all.len();
        let scale = if self.low < self.high { bins as f32 / (self.high - self.low) } else { 0.0 };
        BinLine { low: self.low, scale, last: (bins - 1) as f32 }
    }

    /// Adds the counts of other rows in the same bins.
    pub(super) fn merge(&mut self, other: &Self) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        let counts = self.of_true.iter_mut().chain(&mut self.all);
        for (sum, count) in counts.zip(other.of_true.iter().chain(&other.all)) {
            *sum += count;
        }
    }

    /// Returns the finished histogram.
    pub(super) fn histogram(&self) -> ThresholdHistogram {
        let bins = self.of_true.len();
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let mut edges: Vec<f64> =
            (0..=bins).map(|edge| low + (high - low) * edge as f64 / bins as f64).collect();
        edges[0] = edges[0].min(self.least.into());
        edges[bins] = edges[bins].max(self.most.into());
        if edges[0] == edges[bins] {
            // All thresholds are equal: the bin needs a width to be drawn.
            (edges[0], edges[bins]) = (low - 0.5, low + 0.5);
        }
        let of_false = self.all.iter().zip(&self.of_true).map(|(all, of_true)| all - of_true).collect();
        ThresholdHistogram { edges, of_true: self.of_true.clone(), of_false }
    }
}

/// The bins on the line of thresholds.
#[derive(Debug, Clone, Copy)]
struct BinLine {
    low: f32,
    scale: f32,
    last: f32,
}

impl BinLine {
    /// Returns the bin of a finite threshold.
    #[inline(always)]
    fn bin(self, threshold: f32) -> u8 {
        ((threshold - self.low) * self.scale).max(0.0).min(self.last) as u8
    }
}

/// The finite thresholds of some labels: how many are in each bin, the least and the largest of them.
struct CountedThresholds {
    counts: [u32; BINS],
    least: f32,
    most: f32,
}

multiversion! {
    /// Counts up to [`AT_ONCE`] thresholds by bin.
    fn count_bins(line: BinLine, thresholds: &[f32]) -> CountedThresholds {
        let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
        let mut chosen = [BINS as u8; AT_ONCE];
        for (chosen, &threshold) in chosen.iter_mut().zip(thresholds) {
            let is_finite = threshold.is_finite();
            *chosen = if is_finite { line.bin(threshold) } else { BINS as u8 };
            least = least.min(if is_finite { threshold } else { f32::INFINITY });
            most = most.max(if is_finite { threshold } else { f32::NEG_INFINITY });
        }
        let mut columns = [[0u32; COLUMNS]; SIDE_BY_SIDE];
        for some in chosen[..thresholds.len()].chunks(SIDE_BY_SIDE) {
            for (columns, &bin) in columns.iter_mut().zip(some) {
                columns[usize::from(bin) % COLUMNS] += 1;
            }
        }
        let counts = std::array::from_fn(|bin| columns.iter().map(|columns| columns[bin]).sum());
        CountedThresholds { counts, least, most }
    }
}
