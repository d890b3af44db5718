//! One cut for all labels.
//!
//! The best cut lies just below the score of some true entry: lowering it past a false one only adds a
//! mistake. So the true entries' scores are the candidates, and one pass over all scores, label by label, finds
//! what each candidate is worth, in memory that grows with the true entries and not with rows x labels.

use std::sync::{Mutex, PoisonError};

use super::error::ThresholdError;
use super::rule::Objective;
use super::sample::Sample;
use super::sweep::between;
use crate::metric::exact::ExactSum;
use crate::metric::label::LabelCount;

/// What lowering the cut past one candidate adds. Sums of whole numbers and maxima: threads may add their
/// labels in any order.
#[derive(Clone, Copy)]
struct Step {
    hits: u64,
    predicted: u64,
    /// Rise of the sum over labels of F1.
    f1: ExactSum,
    /// The highest score that reaches this candidate and not the one above.
    top: f32,
}

const NOTHING: Step = Step { hits: 0, predicted: 0, f1: ExactSum::ZERO, top: f32::NEG_INFINITY };

impl Step {
    fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.predicted += other.predicted;
        self.f1 += other.f1;
        self.top = self.top.max(other.top);
    }
}

/// `None` if no true entry has a score to cut at.
pub(super) fn fit(sample: &Sample, objective: Objective) -> Result<Option<f32>, ThresholdError> {
    let candidates = candidates(sample)?;
    // One more than candidates: the last is for the scores below all of them.
    let steps = Mutex::new(vec![NOTHING; candidates.len() + 1]);
    sample.map_seen(|label, column| {
        let added = steps_of(&candidates, sample.positives(label), column);
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        added.iter().for_each(|(at, step)| steps[*at].add(step));
    })?;
    let steps = steps.into_inner().unwrap_or_else(PoisonError::into_inner);
    let best = best_candidate(&steps[..candidates.len()], sample.entries() as u64, objective);
    Ok(best.map(|at| between(candidates[at], Some(steps[at + 1].top))))
}

/// The distinct scores of true entries, highest first.
fn candidates(sample: &Sample) -> Result<Vec<f32>, ThresholdError> {
    let scores = sample.map_seen(|label, column| {
        let scores = sample.positives(label).iter().map(|&row| column[row as usize]);
        scores.filter(|&score| score > f32::NEG_INFINITY).collect::<Vec<f32>>()
    })?;
    let mut candidates: Vec<f32> = scores.into_iter().flatten().flatten().collect();
    candidates.sort_unstable_by(|a, b| b.total_cmp(a));
    candidates.dedup();
    Ok(candidates)
}

/// One label's part, by candidate.
fn steps_of(candidates: &[f32], positives: &[u32], column: &[f32]) -> Vec<(usize, Step)> {
    let lowest = candidates.last().copied().unwrap_or(f32::INFINITY);
    let mut positives_left = positives.iter().map(|&row| row as usize).peekable();
    let mut reached: Vec<(usize, bool, f32)> = Vec::new();
    let mut below = NOTHING;
    for (row, &score) in column.iter().enumerate() {
        let hit = positives_left.next_if_eq(&row).is_some();
        if score >= lowest {
            reached.push((candidates.partition_point(|&candidate| candidate > score), hit, score));
        } else {
            below.top = below.top.max(score);
        }
    }
    reached.sort_unstable_by_key(|entry| entry.0);
    let mut count = LabelCount { actual: positives.len() as u32, ..LabelCount::default() };
    let mut steps = vec![(candidates.len(), below)];
    for group in reached.chunk_by(|a, b| a.0 == b.0) {
        let before = ExactSum::from(count.f1());
        let hits = group.iter().filter(|entry| entry.1).count();
        count.tp += hits as u32;
        count.predicted += group.len() as u32;
        let step = Step {
            hits: hits as u64,
            predicted: group.len() as u64,
            f1: ExactSum::from(count.f1()) - before,
            top: group.iter().map(|entry| entry.2).fold(f32::NEG_INFINITY, f32::max),
        };
        steps.push((group[0].0, step));
    }
    steps
}

/// The first of the best.
fn best_candidate(steps: &[Step], positives: u64, objective: Objective) -> Option<usize> {
    let mut sum = NOTHING;
    let mut best = None;
    let mut best_worth = 0.0;
    for (at, step) in steps.iter().enumerate() {
        sum.add(step);
        let worth = match objective {
            Objective::Macro => sum.f1.value(),
            Objective::Micro => 2.0 * sum.hits as f64 / (sum.predicted + positives) as f64,
        };
        if worth > best_worth {
            best_worth = worth;
            best = Some(at);
        }
    }
    best
}
