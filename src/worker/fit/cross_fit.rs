//! Cross-fitting: each fold of the training rows is scored by a model that was fitted on the other folds.
//!
//! Finished folds are kept, so that a killed run continues after them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_core::work::Stopped;
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::random::Random;
use pipe_ml::score::table::{ScoreTable, ScoreTableSpec, ScoreWriter};
use pipe_ml::scorer::{SEARCHED_ROWS, Scorer, rows_at_once};

use super::{FitContext, TrainingData, fit};

/// Draws the fold of each row.
pub fn folds(rows: usize, folds: usize, seed: u64) -> Vec<usize> {
    Random::new("cross-fitting", seed).folds(rows, folds)
}

/// Writes the out-of-fold scores of all rows into `output`. Finished folds are kept in the directory `keep`, which
/// outlives a killed run.
pub fn cross_fit(
    model: &ModelConfig,
    data: &TrainingData,
    folds_wanted: usize,
    purpose: &ScoreTableSpec,
    keep: &Path,
    output: &Path,
    context: &mut FitContext,
) -> Result<ScoreTable> {
    let rows = data.features.rows();
    ensure!(folds_wanted <= rows, "{rows} training rows cannot be divided into {folds_wanted} folds");
    let fold_of = folds(rows, folds_wanted, context.seed);
    let mut tables = Vec::new();
    for fold in 0..folds_wanted {
        let directory = keep.join(format!("fold-{fold}"));
        let (inside, outside): (Vec<u32>, Vec<u32>) =
            (0..rows as u32).partition(|&row| fold_of[row as usize] == fold);
        let kept = ScoreTable::open(&directory)
            .ok()
            .filter(|table| table.card().mark == purpose.mark && table.card().rows == inside.len());
        tables.push(match kept {
            Some(table) => table,
            None => {
                if context.host.should_stop() {
                    return Err(Stopped.into());
                }
                let training = keep.join(format!("fold-{fold}-training"));
                let table = one_fold(
                    model,
                    data,
                    &inside,
                    &outside,
                    purpose,
                    &directory,
                    &mut FitContext { checkpoints: Some(&training), host: &mut *context.host, ..*context },
                )?;
                let _ = fs::remove_dir_all(&training);
                table
            }
        });
    }
    let mut writer = ScoreWriter::create(output, purpose.clone())?;
    let mut next = vec![0; folds_wanted];
    for fold in fold_of {
        writer.copy(&tables[fold], next[fold])?;
        next[fold] += 1;
    }
    for table in &tables {
        writer.left_out_elsewhere(table.card());
    }
    Ok(writer.finish()?)
}

/// Fits a model on the rows `outside` of a fold, scores the rows `inside` of it, and keeps the scores.
fn one_fold(
    model: &ModelConfig,
    data: &TrainingData,
    inside: &[u32],
    outside: &[u32],
    purpose: &ScoreTableSpec,
    directory: &Path,
    context: &mut FitContext,
) -> Result<ScoreTable> {
    let others = TrainingData {
        features: data.features.select_rows(outside),
        labels: data.labels.select_rows(outside),
    };
    let mut part = fit(model, others, context)?;
    // Written under another name first: a directory with the name of the fold is always complete.
    let unfinished = directory.with_extension("unfinished");
    let mut writer = ScoreWriter::create(&unfinished, purpose.clone())?;
    let rows = Unlabelled { features: &data.features, rows: inside };
    write_scores(part.scorer(), rows, &mut writer)?;
    writer.finish()?;
    let _ = fs::remove_dir_all(directory);
    fs::rename(&unfinished, directory).context("cannot keep the finished fold")?;
    Ok(ScoreTable::open(directory)?)
}

/// Writes the scores of each row, in order.
fn write_scores(part: &mut dyn Scorer, rows: Unlabelled, writer: &mut ScoreWriter) -> Result<()> {
    if let Some(search) = part.search() {
        for chunk in rows.rows.chunks(SEARCHED_ROWS) {
            for found in search.found(Unlabelled { features: rows.features, rows: chunk }) {
                writer.push_found(found)?;
            }
        }
        return Ok(());
    }
    let labels = part.labels();
    let mut scores = Vec::new();
    for chunk in rows.rows.chunks(rows_at_once(labels)) {
        scores.resize(chunk.len() * labels, 0.0);
        part.score(Unlabelled { features: rows.features, rows: chunk }, &mut scores)?;
        for row in scores.chunks_exact(labels) {
            writer.push(row)?;
        }
    }
    Ok(())
}
