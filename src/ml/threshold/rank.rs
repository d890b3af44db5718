//! Rules that use the rank of a label within its row: RCut and RTCut.

use super::cuts::{Cuts, rankable};
use super::error::ThresholdError;
use super::rule::Objective;
use super::sample::Sample;
use super::scores::map_row_blocks;
use super::sweep::between;
use crate::metric::exact::ExactSum;
use crate::metric::label::LabelCount;
use crate::metric::top::Top;

/// A label at one rank of one row.
#[derive(Clone, Copy)]
pub(super) struct RankedLabel {
    pub score: f32,
    pub row: u32,
    pub label: u32,
    pub hit: bool,
}

/// Returns, for each rank, the labels at this rank, one per row.
pub(super) fn labels_by_rank(sample: &Sample, depth: usize) -> Result<Vec<Vec<RankedLabel>>, ThresholdError> {
    let unseen = sample.unseen();
    let depth = depth.min(sample.labels.cols);
    let blocks = map_row_blocks(sample.scores, |by_rank: &mut Vec<Vec<RankedLabel>>, row, scores| {
        by_rank.resize_with(depth, Vec::new);
        let mut top = Top::new(depth);
        let labels = top.of(rankable(scores, &unseen)).unwrap_or_default().to_vec();
        for (rank, (label, score)) in labels.into_iter().zip(top.scores()).enumerate() {
            let hit = sample.labels.row(row).binary_search(&label).is_ok();
            by_rank[rank].push(RankedLabel { score, row: row as u32, label, hit });
        }
    })?;
    let mut by_rank = vec![Vec::new(); depth];
    for block in blocks {
        for (labels, more) in by_rank.iter_mut().zip(block) {
            labels.extend(more);
        }
    }
    Ok(by_rank)
}

/// The value of the objective while predictions are added.
pub(super) struct RunningObjective {
    objective: Objective,
    /// One count per label; for the F1 of rows, one per row.
    counts: Vec<LabelCount>,
    /// The sum of the F1 of all counts.
    f1: ExactSum,
    pooled: LabelCount,
}

impl RunningObjective {
    pub(super) fn new(sample: &Sample, objective: Objective) -> Self {
        let count =
            |positives: &[u32]| LabelCount { actual: positives.len() as u32, ..LabelCount::default() };
        let counts = match objective {
            Objective::Samples => {
                (0..sample.labels.rows()).map(|row| count(sample.labels.row(row))).collect()
            }
            _ => (0..sample.labels.cols).map(|label| count(sample.positives(label))).collect(),
        };
        Self {
            objective,
            counts,
            f1: ExactSum::ZERO,
            pooled: LabelCount { actual: sample.entries() as u32, ..LabelCount::default() },
        }
    }

    /// Adds a prediction.
    pub(super) fn predict(&mut self, ranked: RankedLabel) {
        let at = if self.objective == Objective::Samples { ranked.row } else { ranked.label };
        let count = &mut self.counts[at as usize];
        let before = ExactSum::from(count.f1());
        for count in [count, &mut self.pooled] {
            count.predicted += 1;
            count.tp += u32::from(ranked.hit);
        }
        self.f1 += ExactSum::from(self.counts[at as usize].f1()) - before;
    }

    /// Returns the value of all predictions so far.
    pub(super) fn value(&self) -> f64 {
        match self.objective {
            Objective::Micro => self.pooled.f1(),
            _ => self.f1.value(),
        }
    }
}

/// Fits RCut: the number of labels per row with the best objective.
pub(super) fn rcut(sample: &Sample, objective: Objective, max_k: usize) -> Result<Cuts, ThresholdError> {
    let mut running = RunningObjective::new(sample, objective);
    let (mut best, mut best_value) = (0, 0.0);
    for (rank, labels) in labels_by_rank(sample, max_k)?.into_iter().enumerate() {
        for ranked in labels {
            running.predict(ranked);
        }
        if running.value() > best_value {
            (best, best_value) = (rank + 1, running.value());
        }
    }
    Ok(Cuts::ranks(sample.labels.cols, best, None, sample.unseen()))
}

/// Fits RTCut: all entries are sorted by rank and, within a rank, by score; the best cut in that order is chosen.
pub(super) fn rtcut(sample: &Sample, objective: Objective, max_k: usize) -> Result<Cuts, ThresholdError> {
    let mut running = RunningObjective::new(sample, objective);
    let (mut best, mut best_value) = ((0, None), 0.0);
    for (rank, mut labels) in labels_by_rank(sample, max_k)?.into_iter().enumerate() {
        labels.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
        for (at, &ranked) in labels.iter().enumerate() {
            running.predict(ranked);
            let next = labels.get(at + 1).map(|next| next.score);
            if next != Some(ranked.score) && running.value() > best_value {
                let cut = next.map(|next| between(ranked.score, Some(next)));
                best = if cut.is_some() { (rank, cut) } else { (rank + 1, None) };
                best_value = running.value();
            }
        }
    }
    Ok(Cuts::ranks(sample.labels.cols, best.0, best.1, sample.unseen()))
}
