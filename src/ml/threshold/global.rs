//! The global rule: the same cut for all labels.
//!
//! The best cut is just below the score of some true entry, because lowering it past a false entry only adds
//! a mistake. So the scores of the true entries are the candidates. One pass over all scores, label by label,
//! computes the objective for each candidate, in memory proportional to the number of true entries, not to
//! rows x labels. For the F1 of rows it goes row by row.

use std::sync::{Mutex, PoisonError};

use super::error::ThresholdError;
use super::rule::Objective;
use super::sample::Sample;
use super::scores::map_row_blocks;
use super::sweep::{CutObjective, between};
use crate::metric::exact::ExactSum;
use crate::metric::label::LabelCount;

/// What is added when the cut is lowered past one candidate. All sums are exact, so that threads can add
/// their labels in any order.
#[derive(Clone, Copy)]
struct CandidateStep {
    hits: u64,
    predicted: u64,
    /// The increase of the sum of F1 over labels or rows.
    f1: ExactSum,
    /// The highest score that is at least this candidate and below the one above.
    top: f32,
}

const NO_STEP: CandidateStep =
    CandidateStep { hits: 0, predicted: 0, f1: ExactSum::ZERO, top: f32::NEG_INFINITY };

impl CandidateStep {
    fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.predicted += other.predicted;
        self.f1 += other.f1;
        self.top = self.top.max(other.top);
    }
}

/// Fits the cut; `None` if no true entry has a finite score.
pub(super) fn fit(sample: &Sample, objective: Objective) -> Result<Option<f32>, ThresholdError> {
    let candidates = candidates(sample)?;
    // One more than there are candidates: the last step is for the scores below all candidates.
    let steps = Mutex::new(vec![NO_STEP; candidates.len() + 1]);
    let add = |added: Vec<(usize, CandidateStep)>| {
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, step) in &added {
            steps[*at].add(step);
        }
    };
    if objective == Objective::Samples {
        let unseen = sample.unseen();
        map_row_blocks(sample.scores, |seen: &mut Vec<f32>, row, scores| {
            seen.clear();
            seen.extend_from_slice(scores);
            for &label in &unseen {
                seen[label as usize] = f32::NEG_INFINITY;
            }
            let labels = sample.labels.row(row);
            let mut own = labels.iter().map(|&label| label as usize).peekable();
            let marked =
                seen.iter().enumerate().map(|(label, &score)| (own.next_if_eq(&label).is_some(), score));
            add(steps_of(&candidates, labels.len(), marked));
        })?;
    } else {
        sample.map_stored(|label, scores| {
            let positives = sample.positives(label);
            add(steps_of(&candidates, positives.len(), scores.with(positives)));
        })?;
    }
    let steps = steps.into_inner().unwrap_or_else(PoisonError::into_inner);
    let best = best_candidate(&steps[..candidates.len()], sample.entries(), objective)?;
    Ok(best.map(|at| between(candidates[at], Some(steps[at + 1].top))))
}

/// Returns the distinct scores of true entries, highest first.
fn candidates(sample: &Sample) -> Result<Vec<f32>, ThresholdError> {
    let scores = sample.map_stored(|label, scores| {
        let scores = sample.positives(label).iter().map(|&row| scores.of(row));
        scores.filter(|&score| score > f32::NEG_INFINITY).collect::<Vec<f32>>()
    })?;
    let mut candidates: Vec<f32> = scores.into_iter().flatten().flatten().collect();
    candidates.sort_unstable_by(|a, b| b.total_cmp(a));
    candidates.dedup();
    Ok(candidates)
}

/// Returns what one label adds to each candidate, with the scores of the rows and whether they have it; or what one row adds,
/// with the scores of the labels and whether it has them. `positives` counts those that have no score as well.
fn steps_of(
    candidates: &[f32],
    positives: usize,
    scores: impl Iterator<Item = (bool, f32)>,
) -> Vec<(usize, CandidateStep)> {
    let lowest = candidates.last().copied().unwrap_or(f32::INFINITY);
    let mut reached: Vec<(usize, bool, f32)> = Vec::new();
    let mut below = NO_STEP;
    for (hit, score) in scores {
        if score >= lowest {
            reached.push((candidates.partition_point(|&candidate| candidate > score), hit, score));
        } else {
            below.top = below.top.max(score);
        }
    }
    reached.sort_unstable_by_key(|entry| entry.0);
    let mut count = LabelCount { actual: positives as u32, ..LabelCount::default() };
    let mut steps = vec![(candidates.len(), below)];
    for group in reached.chunk_by(|a, b| a.0 == b.0) {
        let before = ExactSum::from(count.f1());
        let hits = group.iter().filter(|entry| entry.1).count();
        count.tp += hits as u32;
        count.predicted += group.len() as u32;
        let step = CandidateStep {
            hits: hits as u64,
            predicted: group.len() as u64,
            f1: ExactSum::from(count.f1()) - before,
            top: group.iter().map(|entry| entry.2).fold(f32::NEG_INFINITY, f32::max),
        };
        steps.push((group[0].0, step));
    }
    steps
}

/// Returns the best candidate; of equally good ones the highest.
fn best_candidate(
    steps: &[CandidateStep],
    positives: usize,
    objective: Objective,
) -> Result<Option<usize>, ThresholdError> {
    let pooled = match objective {
        Objective::Macro | Objective::Samples => None,
        Objective::Micro => Some(CutObjective::F1),
        Objective::OverallPrecision(least) => Some(CutObjective::Precision(least)),
        Objective::OverallRecall(least) => Some(CutObjective::Recall(least)),
        Objective::Cost(costs) => Some(CutObjective::Cost(costs)),
        Objective::Precision(_) | Objective::Recall(_) => return Err(ThresholdError::Objective),
    };
    let mut sum = NO_STEP;
    let mut best = None;
    let mut best_value = 0.0;
    for (at, step) in steps.iter().enumerate() {
        sum.add(step);
        let value = match pooled {
            Some(pooled) => pooled.value(sum.hits as f64, sum.predicted as usize, positives),
            None => sum.f1.value(),
        };
        if value > best_value {
            best_value = value;
            best = Some(at);
        }
    }
    Ok(best)
}
