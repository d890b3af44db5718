//! Macro averages as the paper's released code computes them, with its 1e-8 in every denominator.

use super::label::LabelCount;
use super::registry::Metric;

const EPSILON: f64 = 1e-8;

/// Returns the macro averages over all labels.
pub fn averages(counts: impl ExactSizeIterator<Item = LabelCount>) -> [(Metric, f64); 3] {
    let labels = counts.len().max(1) as f64;
    let (mut f1, mut precision, mut recall) = (0.0, 0.0, 0.0);
    for count in counts {
        let p = f64::from(count.tp) / (f64::from(count.predicted) + EPSILON);
        let r = f64::from(count.tp) / (f64::from(count.actual) + EPSILON);
        precision += p;
        recall += r;
        f1 += 2.0 * p * r / (p + r + EPSILON);
    }
    [
        (Metric::ReleasedMacroF1, f1 / labels),
        (Metric::ReleasedMacroPrecision, precision / labels),
        (Metric::ReleasedMacroRecall, recall / labels),
    ]
}
