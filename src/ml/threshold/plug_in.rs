//! The plug-in rule: if probabilities are right, the best cut is half of the best F1 (Lipton et al. 2014).
//!
//! F* = max over t of 2 sum{p : p > t} / (#{p > t} + sum p) is found by its own fixed point t = F*/2. The labels of the
//! fitting rows only tell which labels exist.

use super::error::ThresholdError;
use super::rule::{Objective, Scale};
use super::sample::Sample;

/// Probabilities above half of some F1.
#[derive(Clone, Copy, Default)]
struct Promise {
    /// Sum of all probabilities.
    expected: f64,
    /// Sum of those above.
    hits: f64,
    predicted: u64,
}

impl Promise {
    fn of(column: &[f32], scale: Scale, f1: f64) -> Self {
        let mut promise = Self::default();
        for p in column.iter().map(|&score| scale.probability(score)) {
            promise.expected += p;
            if p > f1 / 2.0 {
                promise.hits += p;
                promise.predicted += 1;
            }
        }
        promise
    }

    fn f1(self) -> f64 {
        if self.hits == 0.0 { 0.0 } else { 2.0 * self.hits / (self.predicted as f64 + self.expected) }
    }
}

pub(super) fn fit(
    sample: &Sample,
    objective: Objective,
    scale: Scale,
) -> Result<Vec<Option<f32>>, ThresholdError> {
    scale.check(sample.scores)?;
    let cut = |f1: f64| if f1 > 0.0 { scale.cut(f1 / 2.0) } else { None };
    match objective {
        Objective::Macro => {
            let own =
                sample.map_seen(|_, column| rise(|f1| Ok(Promise::of(column, scale, f1).f1())).map(cut))?;
            own.into_iter().map(|own| own.transpose().map(Option::flatten)).collect()
        }
        Objective::Micro => {
            let f1 = rise(|f1| {
                let labels = sample.map_seen(|_, column| Promise::of(column, scale, f1))?;
                let pooled = labels.iter().flatten().fold(Promise::default(), |sum, label| Promise {
                    expected: sum.expected + label.expected,
                    hits: sum.hits + label.hits,
                    predicted: sum.predicted + label.predicted,
                });
                Ok(pooled.f1())
            })?;
            Ok((0..sample.labels.cols).map(|label| cut(f1).filter(|_| sample.is_seen(label))).collect())
        }
    }
}

/// Repeats from 0 until the value rises no more.
fn rise(next: impl Fn(f64) -> Result<f64, ThresholdError>) -> Result<f64, ThresholdError> {
    let mut reached = 0.0;
    loop {
        let value = next(reached)?;
        if value <= reached {
            return Ok(reached);
        }
        reached = value;
    }
}
