//! The micro-macro rule of LibMultiLabel: cuts that trade the F1 of each label against the pooled F1 (Lin et al., On the
//! Thresholding Strategy for Infrequent Labels in Multi-label Classification, CIKM 2023, "micromacro-freq").
//!
//! LibMultiLabel takes the mean of the cuts of three folds; here each cut is fitted once, on the scores of all folds.

use super::error::ThresholdError;
use super::sample::Sample;
use super::sweep::between;

/// A cut of one label, with its true positives and its predictions.
#[derive(Clone, Copy)]
struct CandidateCut {
    cut: f32,
    hits: u64,
    predicted: u64,
}

/// Fits one cut per label, the most frequent label first, of equally frequent ones the lower.
pub(super) fn fit(sample: &Sample) -> Result<Vec<Option<f32>>, ThresholdError> {
    let candidates = sample.map_seen(|label, column| candidates(sample.positives(label), column))?;
    let mut order: Vec<usize> = (0..candidates.len()).filter(|&label| sample.is_seen(label)).collect();
    order.sort_by_key(|&label| std::cmp::Reverse(sample.positives(label).len()));
    let mut cuts = vec![None; candidates.len()];
    // The counts of the labels that have their cuts.
    let (mut hits, mut predicted, mut actual) = (0, 0, 0);
    for (before, label) in order.into_iter().enumerate() {
        let positives = sample.positives(label).len() as u64;
        actual += positives;
        let value = |own_hits: u64, own_predicted: u64| {
            let own = f1(own_hits, own_predicted, positives);
            own / (before + 1) as f64 + f1(hits + own_hits, predicted + own_predicted, actual)
        };
        let mut best = CandidateCut { cut: f32::INFINITY, hits: 0, predicted: 0 };
        let mut best_value = value(0, 0);
        for &candidate in candidates[label].iter().flatten() {
            let value = value(candidate.hits, candidate.predicted);
            if value > best_value {
                (best, best_value) = (candidate, value);
            }
        }
        hits += best.hits;
        predicted += best.predicted;
        cuts[label] = (best.predicted > 0).then_some(best.cut);
    }
    Ok(cuts)
}

fn f1(hits: u64, predicted: u64, actual: u64) -> f64 {
    if hits == 0 { 0.0 } else { 2.0 * hits as f64 / (predicted + actual) as f64 }
}

/// Returns the cuts of a label that can be best, highest first: those just below the score of a positive.
fn candidates(positives: &[u32], column: &[f32]) -> Vec<CandidateCut> {
    let mut is_positive = positives.iter().map(|&row| row as usize).peekable();
    let scored =
        column.iter().enumerate().map(|(row, &score)| (score, is_positive.next_if_eq(&row).is_some()));
    let mut scored: Vec<(f32, bool)> = scored.filter(|(score, _)| *score > f32::NEG_INFINITY).collect();
    scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let mut candidates = Vec::new();
    let (mut hits, mut predicted) = (0, 0);
    for group in scored.chunk_by(|a, b| a.0 == b.0) {
        let found = group.iter().filter(|entry| entry.1).count();
        hits += found as u64;
        predicted += group.len();
        if found > 0 {
            let cut = between(group[0].0, scored.get(predicted).map(|next| next.0));
            candidates.push(CandidateCut { cut, hits, predicted: predicted as u64 });
        }
    }
    candidates
}
