//! The plug-in rule: if the probabilities are right, the best cut is half of the best F1 (Lipton et al. 2014).
//!
//! F* = max over t of 2 sum{p : p > t} / (#{p > t} + sum p) is the fixed point of t = F*/2. The labels of the
//! fitting rows are used only to see which labels occur.

use super::error::ThresholdError;
use super::rule::{Objective, Scale};
use super::sample::Sample;

/// The expected counts if all probabilities above half of some F1 are predicted.
#[derive(Clone, Copy, Default)]
struct ExpectedCounts {
    /// Sum of all probabilities.
    expected: f64,
    /// Sum of the probabilities above.
    hits: f64,
    predicted: u64,
}

impl ExpectedCounts {
    fn of(column: &[f32], scale: Scale, f1: f64) -> Self {
        let mut counts = Self::default();
        for p in column.iter().map(|&score| scale.probability(score)) {
            counts.expected += p;
            if p > f1 / 2.0 {
                counts.hits += p;
                counts.predicted += 1;
            }
        }
        counts
    }

    fn f1(self) -> f64 {
        if self.hits == 0.0 { 0.0 } else { 2.0 * self.hits / (self.predicted as f64 + self.expected) }
    }
}

/// Fits the cut of every label.
pub(super) fn fit(
    sample: &Sample,
    objective: Objective,
    scale: Scale,
) -> Result<Vec<Option<f32>>, ThresholdError> {
    scale.check(sample.scores)?;
    let cut = |f1: f64| if f1 > 0.0 { scale.score_of(f1 / 2.0) } else { None };
    match objective {
        Objective::Macro => {
            let own = sample.map_seen(|_, column| {
                fixed_point(|f1| Ok(ExpectedCounts::of(column, scale, f1).f1())).map(cut)
            })?;
            own.into_iter().map(|own| own.transpose().map(Option::flatten)).collect()
        }
        Objective::Micro => {
            let f1 = fixed_point(|f1| {
                let labels = sample.map_seen(|_, column| ExpectedCounts::of(column, scale, f1))?;
                let pooled =
                    labels.iter().flatten().fold(ExpectedCounts::default(), |sum, label| ExpectedCounts {
                        expected: sum.expected + label.expected,
                        hits: sum.hits + label.hits,
                        predicted: sum.predicted + label.predicted,
                    });
                Ok(pooled.f1())
            })?;
            Ok((0..sample.labels.cols).map(|label| cut(f1).filter(|_| sample.is_seen(label))).collect())
        }
        _ => Err(ThresholdError::Objective),
    }
}

/// Starts from 0 and repeats `next` until the value does not rise any more.
fn fixed_point(next: impl Fn(f64) -> Result<f64, ThresholdError>) -> Result<f64, ThresholdError> {
    let mut reached = 0.0;
    loop {
        let value = next(reached)?;
        if value <= reached {
            return Ok(reached);
        }
        reached = value;
    }
}
