//! Scores of training rows by folds: each fold is scored by a model that was fitted on the others. A finished fold is
//! kept, so that a run that was killed goes on after it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::examples::Unlabelled;
use pipe_ml::data::random::Random;
use pipe_ml::score::table::{Purpose, ScoreTable, ScoreWriter};

use super::{Lesson, Means, Scorer, chosen, fit};

/// Scores that are held at a time, about.
const HELD: usize = 1 << 22;

/// Rows to score at a time.
pub fn rows_at_once(labels: usize) -> usize {
    (HELD / labels.max(1)).clamp(16, 1024)
}

/// The fold of each row, drawn at random; sizes differ by one at most.
pub fn folds(rows: usize, folds: usize, seed: u64) -> Vec<usize> {
    let mut fold_of = vec![0; rows];
    let order = Random::new("cross-fitting", seed).permutation(rows);
    order.into_iter().enumerate().for_each(|(at, row)| fold_of[row as usize] = at % folds);
    fold_of
}

/// Writes the out-of-fold scores of all rows into `output`. `keep` is a directory that outlives a killed run.
pub fn cross_fit(
    model: &ModelConfig,
    lesson: &Lesson,
    folds_wanted: usize,
    purpose: &Purpose,
    keep: &Path,
    output: &Path,
    means: &mut Means,
) -> Result<ScoreTable> {
    let rows = lesson.features.rows();
    ensure!(folds_wanted <= rows, "{rows} training rows cannot be cut into {folds_wanted} folds");
    let fold_of = folds(rows, folds_wanted, means.seed);
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
                let training = keep.join(format!("fold-{fold}-training"));
                let table = one_fold(
                    model,
                    lesson,
                    &inside,
                    &outside,
                    purpose,
                    &directory,
                    &mut Means { checkpoints: Some(&training), host: &mut *means.host, ..*means },
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
    tables.iter().for_each(|table| writer.left_out_elsewhere(table.card()));
    Ok(writer.finish()?)
}

fn one_fold(
    model: &ModelConfig,
    lesson: &Lesson,
    inside: &[u32],
    outside: &[u32],
    purpose: &Purpose,
    directory: &Path,
    means: &mut Means,
) -> Result<ScoreTable> {
    if let Some(training) = means.checkpoints {
        fs::create_dir_all(training)?;
    }
    let others =
        Lesson { features: chosen(&lesson.features, outside), labels: chosen(&lesson.labels, outside) };
    let mut part = fit(model, others, means)?;
    // Complete before it has its name.
    let unfinished = directory.with_extension("unfinished");
    let mut writer = ScoreWriter::create(&unfinished, purpose.clone())?;
    let rows = Unlabelled { features: &lesson.features, rows: inside };
    score_all(&mut *part, rows, |scores| Ok(writer.push(scores)?))?;
    writer.finish()?;
    let _ = fs::remove_dir_all(directory);
    fs::rename(&unfinished, directory).context("a finished fold cannot be kept")?;
    Ok(ScoreTable::open(directory)?)
}

/// Hands the scores of each row, in order, to `take`.
pub fn score_all(
    part: &mut dyn Scorer,
    rows: Unlabelled,
    mut take: impl FnMut(&[f32]) -> Result<()>,
) -> Result<()> {
    let labels = part.labels();
    let mut scores = Vec::new();
    for chunk in rows.rows.chunks(rows_at_once(labels)) {
        scores.resize(chunk.len() * labels, 0.0);
        part.score(Unlabelled { features: rows.features, rows: chunk }, &mut scores)?;
        for row in scores.chunks_exact(labels) {
            take(row)?;
        }
    }
    Ok(())
}
