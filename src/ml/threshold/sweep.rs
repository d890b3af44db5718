//! The best cut through one sorted list of scores.

/// What a cut through one label's scores is worth.
#[derive(Debug, Clone, Copy)]
pub(super) enum Worth {
    /// Its F1: 2 hits / (predicted + positives).
    F1,
    /// Its part in a pooled F1 that is known to be at least this: 2 hits - F predicted (Dinkelbach 1967).
    Pooled(f64),
}

/// The outcome for one label.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Best {
    /// `None`: predicting nothing is best.
    pub cut: Option<f32>,
    /// Targets above the cut, summed.
    pub hits: f64,
    pub predicted: usize,
}

impl Best {
    pub(super) fn f1(&self, positives: usize) -> f64 {
        if self.hits == 0.0 { 0.0 } else { 2.0 * self.hits / (self.predicted + positives) as f64 }
    }
}

/// Tries a cut after every distinct score of `(score, target)` pairs; of equally good cuts the highest wins.
/// Pairs that score minus infinity are to be left out.
pub(super) fn best_cut(pairs: &mut [(f32, f64)], positives: usize, worth: Worth) -> Best {
    pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let mut best = Best::default();
    let mut best_worth = 0.0;
    let mut hits = 0.0;
    for (at, &(score, target)) in pairs.iter().enumerate() {
        hits += target;
        let next = pairs.get(at + 1).map(|pair| pair.0);
        if next == Some(score) {
            continue;
        }
        let predicted = at + 1;
        let this = match worth {
            Worth::F1 => 2.0 * hits / (predicted + positives) as f64,
            Worth::Pooled(f1) => 2.0 * hits - f1 * predicted as f64,
        };
        if this > best_worth {
            best_worth = this;
            best = Best { cut: Some(between(score, next)), hits, predicted };
        }
    }
    best
}

/// A cut that tells `above` from the next lower score: half-way, or just below if there is none.
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
    fn a_cut_lies_half_way_and_always_tells_its_neighbours_apart() {
        assert_eq!(between(3.0, Some(1.0)), 2.0);
        for above in [1.0f32, f32::MIN_POSITIVE, -1.0, 16_777_216.0, f32::MAX] {
            let below = above.next_down();
            assert!(above > between(above, Some(below)) && between(above, Some(below)) >= below);
            assert!(between(above, None) < above);
            assert!(between(above, Some(f32::NEG_INFINITY)).is_finite());
        }
    }
}
