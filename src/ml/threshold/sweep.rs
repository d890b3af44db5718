//! The best cut for one label, found by trying every distinct score.

use super::rule::Costs;

/// What a cut maximises.
#[derive(Debug, Clone, Copy)]
pub(super) enum CutObjective {
    /// The F1 of the label: 2 hits / (predicted + positives).
    F1,
    /// The contribution to a pooled F1 that is known to be at least F: 2 hits - F predicted (Dinkelbach 1967).
    Pooled(f64),
    /// The hits, as long as the precision is at least this.
    Precision(f64),
    /// The precision, as long as the recall is at least this. If no cut reaches it, the recall.
    Recall(f64),
    /// The cost that is saved compared with predicting nothing.
    Cost(Costs),
}

impl CutObjective {
    /// Returns the value of a cut with this many hits, at least one prediction and at least one positive. To predict nothing
    /// has the value 0.
    pub(super) fn value(self, hits: f64, predicted: usize, positives: usize) -> f64 {
        let precision = hits / predicted as f64;
        match self {
            Self::F1 => 2.0 * hits / (predicted + positives) as f64,
            Self::Pooled(f1) => 2.0 * hits - f1 * predicted as f64,
            Self::Precision(least) if precision >= least => hits,
            Self::Precision(_) => 0.0,
            Self::Recall(least) => {
                let recall = hits / positives as f64;
                // Above every recall, so that precision counts only where the recall is enough.
                if recall >= least { 1.0 + precision } else { recall }
            }
            Self::Cost(Costs { false_positive, false_negative }) => {
                false_negative * hits - false_positive * (predicted as f64 - hits)
            }
        }
    }
}

/// The best cut of one label.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BestCut {
    /// `None` if it is best to predict nothing.
    pub cut: Option<f32>,
    /// The sum of the targets above the cut.
    pub hits: f64,
    pub predicted: usize,
}

impl BestCut {
    /// Returns the F1 of the label.
    pub(super) fn f1(&self, positives: usize) -> f64 {
        if self.hits == 0.0 { 0.0 } else { 2.0 * self.hits / (self.predicted + positives) as f64 }
    }
}

/// Tries a cut below every distinct score of `(score, target)` pairs and returns the best; of equally good cuts the
/// highest. Scores of minus infinity must be left out.
pub(super) fn best_cut(pairs: &mut [(f32, f64)], positives: usize, objective: CutObjective) -> BestCut {
    pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let mut best = BestCut::default();
    let mut best_value = 0.0;
    let mut hits = 0.0;
    for (at, &(score, target)) in pairs.iter().enumerate() {
        hits += target;
        let next = pairs.get(at + 1).map(|pair| pair.0);
        if next == Some(score) {
            continue;
        }
        let predicted = at + 1;
        let value = objective.value(hits, predicted, positives);
        if value > best_value {
            best_value = value;
            best = BestCut { cut: Some(between(score, next)), hits, predicted };
        }
    }
    best
}

/// Returns a cut between `above` and the next lower score: half-way, or just below `above` if there is no lower score.
pub(super) fn between(above: f32, below: Option<f32>) -> f32 {
    match below {
        Some(below) if below.is_finite() => {
            let middle = ((f64::from(above) + f64::from(below)) / 2.0) as f32;
            if middle < above { middle } else { below }
        }
        _ => above.next_down().clamp(f32::MIN, f32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_half_way_and_always_separates_its_two_scores() {
        assert_eq!(between(3.0, Some(1.0)), 2.0);
        for above in [1.0f32, f32::MIN_POSITIVE, -1.0, 16_777_216.0, f32::MAX] {
            let below = above.next_down();
            assert!(above > between(above, Some(below)) && between(above, Some(below)) >= below);
            assert!(between(above, None) < above);
            assert!(between(above, Some(f32::NEG_INFINITY)).is_finite());
        }
    }
}
