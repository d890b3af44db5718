//! Runs the stage `fit`: fits a model on the training rows, and scores them without their own labels.

use anyhow::{Result, ensure};
use pipe_core::memory::machine_memory;
use pipe_core::protocol::Protocol;
use pipe_core::stage::RunStage;
use pipe_core::work::{Stopped, Work};
use pipe_ml::composite::{Composite, ModelPart, mark, save_label_names};
use pipe_ml::config::auto_model::{DataSize, choose};
use pipe_ml::data::split_data::PartName;
use pipe_ml::score::ScoreOrigin;
use pipe_ml::score::candidates::Candidates;
use pipe_ml::score::table::{ScoreTable, ScoreTableSpec, ScoreWriter};
use pipe_ml::scorer::{SEARCHED_ROWS, rows_at_once};
use pipe_stages::fit::Fit;
use rayon::prelude::*;

use super::train::Reporter;
use crate::engine::device;
use crate::engine::pool::pool;
use crate::fit::cross_fit::cross_fit;
use crate::fit::memory::{check_memory, return_freed_tiles, whole_kernel};
use crate::fit::{FitContext, FittedModel, LeaveOneOut, TrainingData, fit};
use crate::train::host::TrainingHost;

/// Runs the stage `fit`.
pub(super) struct RunFit;

impl RunStage for RunFit {
    type Stage = Fit;

    fn run(stage: &Fit, work: &mut Work) -> Result<()> {
        let data = work.open(Fit::DATA)?;
        let lesson =
            TrainingData { features: stage.part.features(&data)?, labels: stage.part.labels(&data)? };
        let (rows, features, labels) = (lesson.features.rows(), lesson.features.cols, lesson.labels.cols);
        ensure!(
            rows > 1 && features > 0 && labels > 0,
            "{rows} training rows with {features} features and {labels} labels: nothing can be learned"
        );
        // By the training rows also if all rows are fitted: the final model is of the kind that was evaluated.
        let train_rows = data.rows(PartName::Train);
        let (mut model, mut chosen_because) = match &stage.model {
            Some(model) => (model.clone(), None),
            None => {
                let dense = data.meta().dense;
                let (model, reason) = choose(DataSize { rows: train_rows, features, labels, dense });
                (model, Some(reason))
            }
        };
        chosen_because = chosen_because.or(model.choose_blocks(whole_kernel(train_rows, labels)));
        if let Some(reason) = &chosen_because {
            work.fact("model", format!("{}, because {reason}", model.name()));
        }
        if model.choose_distance(data.meta().weight.standardise) {
            work.fact("distance", "euclidean, because the features are standardised");
        }
        let folds = stage.folds.or(model.default_folds());
        let device = device::choose(stage.device)?;
        check_memory(&model, &lesson, machine_memory())?;
        return_freed_tiles();
        // Networks write checkpoints. Other models keep finished folds, which are renamed into place.
        if model.method().is_none() {
            work.end_at_once_when_stopped()?;
        }
        work.info(format!("fitting {} on {}", model.name(), device::name(device)));
        let keep = Candidates::choose(stage.keep, rows, labels, model.scale()).map(|chosen| chosen.keep);
        let made = match folds {
            Some(folds) => ScoreOrigin::OutOfFold { folds },
            None => model.left_out(),
        };
        let counts = (rows, features, labels, lesson.labels.entries());
        let mark = mark(&(&model, stage.seed, folds, keep, counts));
        let purpose = ScoreTableSpec { mark: mark.clone(), labels, scale: model.scale(), made, keep };
        let job = work.job();
        let (checkpoints, scratch, threads) = (job.checkpoints.clone(), job.scratch.clone(), job.threads);
        let (output, scores) =
            (work.output_path(Fit::MODEL)?.to_owned(), work.output_path(Fit::SCORES)?.to_owned());

        let own = output.join(Composite::part_directory(0));
        let last = checkpoints.join("all-rows");
        let mut host = Reporter { work, protocol: Protocol::Honest };
        let table = pool(threads)?.install(|| -> Result<ScoreTable> {
            let mut means = FitContext {
                seed: stage.seed,
                device,
                threads,
                checkpoints: Some(&last),
                scratch: &scratch,
                host: &mut host,
            };
            let folded = match folds {
                Some(folds) => {
                    Some(cross_fit(&model, &lesson, folds, &purpose, &checkpoints, &scores, &mut means)?)
                }
                None => None,
            };
            let fitted = fit(&model, lesson, &mut means)?;
            fitted.save(&own)?;
            match folded {
                Some(table) => Ok(table),
                None => leave_one_out(&*fitted, rows, purpose, &scores, means.host),
            }
        })?;
        let part = ModelPart {
            directory: Composite::part_directory(0),
            model,
            chosen_because,
            keep,
            rest: table.card().rest,
        };
        save_label_names(&output, data.label_names()?.as_deref())?;
        let mut composite = Composite::new(mark, features, labels, vec![part]);
        composite.fitted_on = stage.part;
        composite.save(&output)?;
        Ok(())
    }
}

fn leave_one_out(
    fitted: &dyn FittedModel,
    rows: usize,
    purpose: ScoreTableSpec,
    output: &std::path::Path,
    host: &mut dyn TrainingHost,
) -> Result<ScoreTable> {
    let left_out: Option<&dyn LeaveOneOut> = fitted.left_out();
    let Some(left_out) = left_out else {
        anyhow::bail!("this model has no closed form for leaving a row out: give `folds`");
    };
    let labels = purpose.labels;
    let mut writer = ScoreWriter::create(output, purpose)?;
    if let Some(search) = left_out.search() {
        for first in (0..rows).step_by(SEARCHED_ROWS) {
            if host.should_stop() {
                return Err(Stopped.into());
            }
            for found in search.found(first..rows.min(first + SEARCHED_ROWS)) {
                writer.push_found(found)?;
            }
        }
        return Ok(writer.finish()?);
    }
    let size = rows_at_once(labels);
    let mut scores = Vec::new();
    for first in (0..rows).step_by(size) {
        if host.should_stop() {
            return Err(Stopped.into());
        }
        scores.resize(size.min(rows - first) * labels, 0.0);
        scores.par_chunks_mut(labels).enumerate().for_each(|(at, into)| left_out.scores(first + at, into));
        for row in scores.chunks_exact(labels) {
            writer.push(row)?;
        }
    }
    Ok(writer.finish()?)
}
