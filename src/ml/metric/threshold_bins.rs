//! A histogram of the thresholds of all entries, separately for true and false entries.
//!
//! The bins span the thresholds of the first rows. Thresholds of later rows outside of that span are counted in the
//! outermost bins, whose edges are moved at the end.

use super::curves::ThresholdHistogram;

const BINS: usize = 50;

/// The bins while rows are added.
#[derive(Debug, Clone)]
pub(super) struct ThresholdBins {
    low: f32,
    high: f32,
    least: f32,
    most: f32,
    of_true: Vec<u64>,
    of_false: Vec<u64>,
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
            of_true: vec![0; bins],
            of_false: vec![0; bins],
        })
    }

    /// Adds one row: its true labels, ascending, and the threshold of every label. Infinite thresholds are left out.
    pub(super) fn add(&mut self, truth: &[u32], thresholds: &[f32]) {
        let bins = self.of_true.len();
        let (low, scale) =
            (self.low, if self.low < self.high { bins as f32 / (self.high - self.low) } else { 0.0 });
        let bin = |threshold: f32| (((threshold - low) * scale).max(0.0) as usize).min(bins - 1);
        for &threshold in thresholds.iter().filter(|threshold| threshold.is_finite()) {
            self.of_false[bin(threshold)] += 1;
            self.least = self.least.min(threshold);
            self.most = self.most.max(threshold);
        }
        let of_truth = truth.iter().map(|&label| thresholds[label as usize]);
        for threshold in of_truth.filter(|threshold| threshold.is_finite()) {
            self.of_false[bin(threshold)] -= 1;
            self.of_true[bin(threshold)] += 1;
        }
    }

    /// Adds the counts of other rows in the same bins.
    pub(super) fn merge(&mut self, other: &Self) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        let counts = self.of_true.iter_mut().chain(&mut self.of_false);
        for (sum, count) in counts.zip(other.of_true.iter().chain(&other.of_false)) {
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
        ThresholdHistogram { edges, of_true: self.of_true.clone(), of_false: self.of_false.clone() }
    }
}
