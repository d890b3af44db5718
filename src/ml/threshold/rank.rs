//! Rules on the rank of a label within its row: RCut and RTCut.

use super::cuts::{Cuts, rankable};
use super::error::ThresholdError;
use super::rule::Objective;
use super::sample::Sample;
use super::scores::map_row_blocks;
use super::sweep::between;
use crate::metric::exact::ExactSum;
use crate::metric::label::LabelCount;
use crate::metric::top::Top;

/// A label at some rank of some row.
#[derive(Clone, Copy)]
struct Place {
    score: f32,
    label: u32,
    hit: bool,
}

/// For each rank, the labels that have it, one per row.
fn places(sample: &Sample, depth: usize) -> Result<Vec<Vec<Place>>, ThresholdError> {
    let unseen = sample.unseen();
    let depth = depth.min(sample.labels.cols);
    let blocks = map_row_blocks(sample.scores, |places: &mut Vec<Vec<Place>>, row, scores| {
        places.resize_with(depth, Vec::new);
        let mut top = Top::new(depth);
        let labels = top.of(rankable(scores, &unseen)).unwrap_or_default().to_vec();
        for (rank, (label, score)) in labels.into_iter().zip(top.scores()).enumerate() {
            let hit = sample.labels.row(row).binary_search(&label).is_ok();
            places[rank].push(Place { score, label, hit });
        }
    })?;
    let mut places = vec![Vec::new(); depth];
    for block in blocks {
        places.iter_mut().zip(block).for_each(|(places, block)| places.extend(block));
    }
    Ok(places)
}

/// The objective, kept up to date while predictions are added.
struct Progress {
    objective: Objective,
    counts: Vec<LabelCount>,
    f1: ExactSum,
    pooled: LabelCount,
}

impl Progress {
    fn new(sample: &Sample, objective: Objective) -> Self {
        let actual = |label| sample.positives(label).len() as u32;
        let count = |label| LabelCount { actual: actual(label), ..LabelCount::default() };
        Self {
            objective,
            counts: (0..sample.labels.cols).map(count).collect(),
            f1: ExactSum::ZERO,
            pooled: LabelCount { actual: sample.entries() as u32, ..LabelCount::default() },
        }
    }

    fn predict(&mut self, place: Place) {
        let count = &mut self.counts[place.label as usize];
        let before = ExactSum::from(count.f1());
        for count in [count, &mut self.pooled] {
            count.predicted += 1;
            count.tp += u32::from(place.hit);
        }
        self.f1 += ExactSum::from(self.counts[place.label as usize].f1()) - before;
    }

    fn worth(&self) -> f64 {
        match self.objective {
            Objective::Macro => self.f1.value(),
            Objective::Micro => self.pooled.f1(),
        }
    }
}

/// RCut: the number of labels per row with the best objective.
pub(super) fn rcut(sample: &Sample, objective: Objective, max_k: usize) -> Result<Cuts, ThresholdError> {
    let mut progress = Progress::new(sample, objective);
    let (mut best, mut best_worth) = (0, 0.0);
    for (rank, places) in places(sample, max_k)?.into_iter().enumerate() {
        places.into_iter().for_each(|place| progress.predict(place));
        if progress.worth() > best_worth {
            (best, best_worth) = (rank + 1, progress.worth());
        }
    }
    Ok(Cuts::ranks(sample.labels.cols, best, None, sample.unseen()))
}

/// RTCut: entries are ordered by rank and, within a rank, by score; one cut through that order.
pub(super) fn rtcut(sample: &Sample, objective: Objective, max_k: usize) -> Result<Cuts, ThresholdError> {
    let mut progress = Progress::new(sample, objective);
    let (mut best, mut best_worth) = ((0, None), 0.0);
    for (rank, mut places) in places(sample, max_k)?.into_iter().enumerate() {
        places.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
        for (at, &place) in places.iter().enumerate() {
            progress.predict(place);
            let next = places.get(at + 1).map(|next| next.score);
            if next != Some(place.score) && progress.worth() > best_worth {
                let cut = next.map(|next| between(place.score, Some(next)));
                best = if cut.is_some() { (rank, cut) } else { (rank + 1, None) };
                best_worth = progress.worth();
            }
        }
    }
    Ok(Cuts::ranks(sample.labels.cols, best.0, best.1, sample.unseen()))
}
