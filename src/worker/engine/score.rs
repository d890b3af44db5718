//! Scoring of rows batch by batch, and counting of correct predictions.

use super::{Batch, BatchScores, Engine};
use crate::net::features::FeatureMap;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::metric::label::LabelCount;
use pipe_ml::signal::supply::SignalSupply;

/// Scores rows and passes the scores of each batch, with the index of its first row, to `take`.
///
/// Labels are not an input. Only the oracle protocol uses them, through [`score_with_labels`].
pub fn score(
    engine: &mut dyn Engine,
    map: &FeatureMap,
    supply: &SignalSupply,
    rows: Unlabelled,
    batch: usize,
    take: impl FnMut(usize, &BatchScores),
) -> Result<(), tch::TchError> {
    let labels = engine.labels();
    let make_batch = |positions: &[u32]| Batch::unlabelled(map, supply, rows, positions, labels);
    score_batches(engine, rows.rows.len(), batch, make_batch, take)
}

/// Scores rows by the oracle protocol: the true labels of the scored rows enter the thresholds.
pub fn score_with_labels(
    engine: &mut dyn Engine,
    map: &FeatureMap,
    supply: &SignalSupply,
    examples: Examples,
    batch: usize,
    take: impl FnMut(usize, &BatchScores),
) -> Result<(), tch::TchError> {
    let make_batch = |positions: &[u32]| Batch::labelled(map, supply, examples, positions);
    score_batches(engine, examples.rows.len(), batch, make_batch, take)
}

/// Scores `rows` rows in batches of `size`; `make_batch` gets the indices of the rows of a batch.
fn score_batches(
    engine: &mut dyn Engine,
    rows: usize,
    size: usize,
    make_batch: impl Fn(&[u32]) -> Batch,
    mut take: impl FnMut(usize, &BatchScores),
) -> Result<(), tch::TchError> {
    let mut scores = BatchScores::default();
    for first in (0..rows).step_by(size) {
        let positions: Vec<u32> = (first as u32..rows.min(first + size) as u32).collect();
        engine.scores(&make_batch(&positions), &mut scores)?;
        take(first, &scores);
    }
    Ok(())
}

/// Adds the predicted, actual and correct labels of a batch to the counts. `first` is the index of its first row.
pub fn count(counts: &mut [LabelCount], scores: &BatchScores, examples: Examples, first: usize) {
    let rows = &examples.rows[first..first + scores.rows];
    for (label, count) in counts.iter_mut().enumerate() {
        let predicted = scores.of_label(label).iter().filter(|score| **score > 0.0).count();
        count.predicted += predicted as u32;
    }
    for (row, &example) in rows.iter().enumerate() {
        for &label in examples.labels.row(example as usize) {
            let count = &mut counts[label as usize];
            count.actual += 1;
            count.tp += u32::from(scores.score(row, label as usize) > 0.0);
        }
    }
}
