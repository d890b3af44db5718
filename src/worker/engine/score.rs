//! Scores rows batch by batch and counts what was predicted.

use super::{Batch, Engine, Scores};
use crate::net::features::FeatureMap;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::metric::label::LabelCount;
use pipe_ml::signal::supply::LocalSupply;

/// Hands the scores of each batch, with the position of its first row, to `take`. Labels are
/// not an input; whoever has them and means to use them calls [`score_with_labels`].
pub fn score(
    engine: &mut dyn Engine,
    map: &FeatureMap,
    supply: &LocalSupply,
    rows: Unlabelled,
    batch: usize,
    mut take: impl FnMut(usize, &Scores),
) -> Result<(), tch::TchError> {
    let mut scores = Scores::default();
    for (number, chunk) in rows.rows.chunks(batch).enumerate() {
        let first = number * batch;
        let positions: Vec<u32> = (first as u32..(first + chunk.len()) as u32).collect();
        let batch = Batch::unlabelled(map, supply, rows, &positions, engine.labels());
        engine.scores(&batch, &mut scores)?;
        take(first, &scores);
    }
    Ok(())
}

/// The paper's protocol: the true labels of the scored rows reach the thresholds.
pub fn score_with_labels(
    engine: &mut dyn Engine,
    map: &FeatureMap,
    supply: &LocalSupply,
    examples: Examples,
    batch: usize,
    mut take: impl FnMut(usize, &Scores),
) -> Result<(), tch::TchError> {
    let mut scores = Scores::default();
    for (number, chunk) in examples.rows.chunks(batch).enumerate() {
        let first = number * batch;
        let positions: Vec<u32> = (first as u32..(first + chunk.len()) as u32).collect();
        engine.scores(&Batch::labelled(map, supply, examples, &positions), &mut scores)?;
        take(first, &scores);
    }
    Ok(())
}

/// Compares the scores of a batch with the true labels of its rows.
pub fn count(counts: &mut [LabelCount], scores: &Scores, examples: Examples, first: usize) {
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
