//! Confidence intervals by resampling the evaluated rows (bootstrap).
//!
//! A replicate draws as many rows as there are, with replacement, so that every row gets a multiplicity. The
//! counts of a label are sums of multiplicities over the rows where it was predicted rightly, predicted
//! wrongly or missed. [`Outcomes`] keeps these rows by label, and one pass over them counts 16 replicates at
//! once.
//!
//! Replicates lose rare labels: a label that is true in one test row is absent from more than a third of
//! them. This pulls macro averages down, so that an interval of plain percentiles may not contain the
//! estimate. Therefore the replicates are shifted to have the estimate as their mean; the shift is reported
//! as `bias`.

use pipe_core::issue::Issue;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcomes::Outcomes;
use super::registry::Metric;
use crate::data::random::Random;

/// The number of replicates that are counted in one pass.
const LANES: usize = 16;

/// The parameters of the bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bootstrap {
    /// The number of replicates.
    pub replicates: u32,
    /// The seed of the resampling.
    pub seed: u64,
    /// The share of replicates that an interval covers.
    pub confidence: f64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { replicates: 1000, seed: 0, confidence: 0.95 }
    }
}

/// A confidence interval of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub metric: Metric,
    /// The value on the rows as they are.
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
    /// Standard deviation over the replicates.
    pub standard_error: f64,
    /// Mean of the replicates minus the estimate; `low` and `high` are corrected for it.
    pub bias: f64,
}

impl Interval {
    /// Returns whether a paired difference is significant at this confidence.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The reason why rows cannot be resampled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BootstrapError {
    #[error("there are no rows to resample")]
    NoRows,
    #[error(
        "the two sets of predictions were not evaluated on the same rows, so their difference cannot be paired"
    )]
    NotPaired,
}

impl Bootstrap {
    /// Returns the fields whose values cannot be used.
    pub fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if self.replicates < 2 {
            issues.push(Issue::new("replicates", "must be at least 2; 1000 are usual"));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            issues.push(Issue::new("confidence", "must lie between 0 and 1, for example 0.95"));
        }
        issues
    }

    /// Returns an interval for every metric of the outcomes.
    pub fn intervals(&self, outcomes: &Outcomes) -> Result<Vec<Interval>, BootstrapError> {
        if outcomes.rows() == 0 {
            return Err(BootstrapError::NoRows);
        }
        let estimates = once_each(outcomes);
        let replicates = self.replicate(outcomes.rows(), |weights| outcomes.measure(weights));
        Ok(self.summarise(outcomes, &estimates, &replicates))
    }

    /// Returns intervals for `ours` minus `theirs`, both measured on the same resampled rows.
    pub fn differences(&self, ours: &Outcomes, theirs: &Outcomes) -> Result<Vec<Interval>, BootstrapError> {
        self.mean_differences(&[ours], &[theirs])
    }

    /// Returns intervals for the mean of `ours` minus the mean of `theirs`, for example over several seeds,
    /// all measured on the same resampled rows.
    pub fn mean_differences(
        &self,
        ours: &[&Outcomes],
        theirs: &[&Outcomes],
    ) -> Result<Vec<Interval>, BootstrapError> {
        let ([first, ..], [_, ..]) = (ours, theirs) else { return Err(BootstrapError::NoRows) };
        if first.rows() == 0 {
            return Err(BootstrapError::NoRows);
        }
        let paired = |other: &&Outcomes| first.same_truth(other) && first.metrics() == other.metrics();
        if !ours.iter().chain(theirs).all(paired) {
            return Err(BootstrapError::NotPaired);
        }
        let minus = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| a - b).collect::<Vec<_>>();
        let mean_once = |outcomes: &[&Outcomes]| mean(outcomes.iter().map(|o| once_each(o)));
        let estimates = minus(mean_once(ours), mean_once(theirs));
        let replicates = self.replicate(first.rows(), |weights| {
            let measure = |outcomes: &[&Outcomes]| {
                let measured: Vec<_> = outcomes.iter().map(|outcomes| outcomes.measure(weights)).collect();
                (0..LANES)
                    .map(move |lane| mean(measured.iter().map(|lanes| lanes[lane].clone())))
                    .collect::<Vec<_>>()
            };
            measure(ours).into_iter().zip(measure(theirs)).map(|(ours, theirs)| minus(ours, theirs)).collect()
        });
        Ok(self.summarise(first, &estimates, &replicates))
    }

    /// Returns the metrics of every replicate. Each replicate has its own stream of random numbers, so that
    /// the result does not depend on the number of threads.
    fn replicate(
        &self,
        rows: usize,
        measure: impl Fn(&[[u8; LANES]]) -> Vec<Vec<f64>> + Sync,
    ) -> Vec<Vec<f64>> {
        let wanted = self.replicates as usize;
        let batch = |first: usize| {
            let mut weights = vec![[0u8; LANES]; rows];
            let mut drawn = vec![0u8; rows];
            for lane in 0..LANES.min(wanted - first) {
                let mut random = Random::new(&format!("bootstrap {}", first + lane), self.seed);
                draw(&mut random, &mut drawn);
                for (weights, &drawn) in weights.iter_mut().zip(&drawn) {
                    weights[lane] = drawn;
                }
            }
            measure(&weights)
        };
        let firsts = (0..wanted).step_by(LANES).collect::<Vec<_>>();
        let mut replicates: Vec<_> = firsts.into_par_iter().flat_map_iter(batch).collect();
        replicates.truncate(wanted);
        replicates
    }

    /// Returns the interval of each metric from its replicates.
    fn summarise(&self, outcomes: &Outcomes, estimates: &[f64], replicates: &[Vec<f64>]) -> Vec<Interval> {
        let tail = (1.0 - self.confidence) / 2.0;
        let interval = |(at, metric)| {
            let estimate = estimates[at];
            let mut values: Vec<f64> = replicates.iter().map(|values| values[at]).collect();
            values.sort_unstable_by(f64::total_cmp);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let bias = mean - estimate;
            Interval {
                metric,
                estimate,
                low: quantile(&values, tail) - bias,
                high: quantile(&values, 1.0 - tail) - bias,
                standard_error: (squares / (n - 1.0)).sqrt(),
                bias,
            }
        };
        outcomes.metrics().into_iter().enumerate().map(interval).collect()
    }
}

/// Draws as many rows as there are and counts how often each was drawn. Unbiased like [`Random::below`], with two draws
/// from 64 bits.
fn draw(random: &mut Random, drawn: &mut [u8]) {
    let rows = drawn.len() as u32;
    let uneven = rows.wrapping_neg() % rows;
    drawn.fill(0);
    let mut left = rows;
    while left > 0 {
        let bits = random.bits();
        for half in [bits as u32, (bits >> 32) as u32] {
            let wide = u64::from(half) * u64::from(rows);
            if left > 0 && wide as u32 >= uneven {
                // The probability that one row is drawn more than 255 times is below 1 / 255!.
                let row = &mut drawn[(wide >> 32) as usize];
                *row = row.saturating_add(1);
                left -= 1;
            }
        }
    }
}

/// Returns the metrics of the rows as they are.
fn once_each(outcomes: &Outcomes) -> Vec<f64> {
    outcomes.measure(&vec![[1]; outcomes.rows()]).swap_remove(0)
}

/// Returns the mean of each metric.
fn mean(values: impl ExactSizeIterator<Item = Vec<f64>>) -> Vec<f64> {
    let count = values.len() as f64;
    let sum = values.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default();
    sum.into_iter().map(|sum| sum / count).collect()
}

/// Returns a quantile of ascending values by linear interpolation.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_takes_as_many_rows_as_there_are_with_equal_probability() {
        let mut random = Random::new("test", 0);
        let mut sums = [0u32; 7];
        for _ in 0..10_000 {
            let mut drawn = [0u8; 7];
            draw(&mut random, &mut drawn);
            assert_eq!(drawn.iter().sum::<u8>(), 7);
            for (sum, drawn) in sums.iter_mut().zip(drawn) {
                *sum += u32::from(drawn);
            }
        }
        assert!(sums.iter().all(|&sum| (9_600..10_400).contains(&sum)), "{sums:?}");
    }
}
