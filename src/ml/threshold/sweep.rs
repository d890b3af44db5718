//! The best cut for one label, found by trying every distinct score.

/// What the cut of one label maximises.
#[derive(Debug, Clone, Copy)]
pub(super) enum CutObjective {
    /// The F1 of the label: 2 hits / (predicted + positives).
    F1,
    /// The contribution to a pooled F1 that is known to be at least F: 2 hits - F predicted (Dinkelbach 1967).
    Pooled(f64),
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
        let value = match objective {
            CutObjective::F1 => 2.0 * hits / (predicted + positives) as f64,
            CutObjective::Pooled(f1) => 2.0 * hits - f1 * predicted as f64,
        };
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
