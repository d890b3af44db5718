//! RinSCut, rank-in-score: scores near the cut of a label are ambiguous, and there the rank of the label decides (after Lee,
//! Kay and McCreath, KAN and RinSCut, 2002).

use super::cuts::{Cuts, ScoreZone};
use super::error::ThresholdError;
use super::per_label;
use super::rank::{RankedLabel, RunningObjective, labels_by_rank};
use super::rule::Objective;
use super::sample::Sample;

/// Fits the zones and the rank. The zone of a label reaches from the mean score of the positives that its SCut misses to the
/// mean score of the negatives that it lets through. The rank is the one with the best objective, of equally good ones the
/// lowest.
pub(super) fn fit(sample: &Sample, objective: Objective, max_k: usize) -> Result<Cuts, ThresholdError> {
    let cuts = per_label::scut(sample, objective)?;
    let zones = sample.map_seen(|label, column| {
        let cut = cuts[label].and_then(|best| best.cut)?;
        Some(zone(sample.positives(label), column, cut))
    })?;
    let zones: Vec<Option<ScoreZone>> = zones.into_iter().map(Option::flatten).collect();
    let mut running = RunningObjective::new(sample, objective);
    let above = sample.map_seen(|label, column| {
        let top = zones[label].map_or(f32::INFINITY, |zone| zone.top);
        let above = (0..).zip(column).filter(|(_, score)| **score > top);
        above.map(|(row, &score)| (row, score)).collect::<Vec<(u32, f32)>>()
    })?;
    for (label, rows) in (0..).zip(above) {
        for (row, score) in rows.into_iter().flatten() {
            let hit = sample.labels.row(row as usize).binary_search(&label).is_ok();
            running.predict(RankedLabel { score, row, label, hit });
        }
    }
    let (mut best, mut best_value) = (0, running.value());
    for (rank, labels) in labels_by_rank(sample, max_k)?.into_iter().enumerate() {
        for ranked in labels {
            let within = |zone: ScoreZone| ranked.score > zone.bottom && ranked.score <= zone.top;
            if zones[ranked.label as usize].is_some_and(within) {
                running.predict(ranked);
            }
        }
        if running.value() > best_value {
            (best, best_value) = (rank + 1, running.value());
        }
    }
    Ok(Cuts::rank_in_score(zones, best, sample.unseen()))
}

/// Returns the ambiguous scores around a cut. An end without any mistake is the cut itself.
fn zone(positives: &[u32], column: &[f32], cut: f32) -> ScoreZone {
    let (mut missed, mut wrong) = (Mean::default(), Mean::default());
    let mut is_positive = positives.iter().map(|&row| row as usize).peekable();
    for (row, &score) in column.iter().enumerate() {
        let hit = is_positive.next_if_eq(&row).is_some();
        if hit && score <= cut && score > f32::NEG_INFINITY {
            missed.add(score);
        } else if !hit && score > cut {
            wrong.add(score);
        }
    }
    ScoreZone { bottom: missed.or(cut).min(cut), top: wrong.or(cut).max(cut) }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, score: f32) {
        self.sum += f64::from(score);
        self.count += 1;
    }

    fn or(&self, none: f32) -> f32 {
        if self.count == 0 { none } else { (self.sum / self.count as f64) as f32 }
    }
}
