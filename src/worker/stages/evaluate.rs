//! `evaluate`, as the worker runs it: blocks of decisions in, figures out. Nothing is held of all rows but
//! the decisions, and those lie in a file.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pipe_core::work::{Stopped, Work};
use pipe_ml::metric::decisions::{Decisions, DecisionsWriter};
use pipe_ml::metric::evaluation::{Evaluation, Training};
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::measure::{Measure, Measured};
use pipe_ml::metric::record::{Intervals, Record};
use pipe_ml::metric::registry::Metric;
use pipe_stages::evaluate::Evaluate;
use serde::Deserialize;

use super::subject::{Subject, judge};
use crate::engine::pool::pool;
use crate::system::Block;

/// How often the runner hears of progress.
const PROGRESS: Duration = Duration::from_millis(500);
/// Decisions are resampled in memory, 4 bytes each; a model that predicts more than this has other problems.
const RESAMPLED: usize = 1 << 28;

pub fn run(work: &mut Work) -> Result<()> {
    let stage = Evaluate::deserialize(&work.job().body)?;
    let mut subject = Subject::open(work, stage.part, stage.device, stage.signal)?;
    if stage.protocol == Protocol::Oracle {
        work.info(
            "oracle protocol: the true labels of the evaluated rows enter the thresholds; no figure of this stage is one \
             that a deployed model could reach",
        );
    }
    let (rows, positives) = subject.training_positives()?;
    let training = Training { rows, positives, propensity: stage.propensity };
    let threads = pool(work.job().threads)?;
    let (measured, decisions) = measure(work, &mut subject, &stage, training, &threads)?;
    let evaluation = measured.evaluation();
    announce(work, &evaluation);

    let intervals = match decisions.truth.entries() + decisions.predicted.entries() {
        entries if entries > RESAMPLED => {
            work.warn(format!("{entries} true and predicted entries are too many to resample: no intervals"));
            None
        }
        _ => {
            let (_, outcomes) = decisions.outcomes()?.reveal();
            let values = threads.install(|| stage.bootstrap.intervals(&outcomes))?;
            Some(Intervals { bootstrap: stage.bootstrap, values })
        }
    };
    write_json(work.output("evaluation")?, &Record { part: subject.part, evaluation, intervals })?;
    write_lines(work.output("labels")?, &measured.label_records())?;
    write_json(work.output("curves")?, &measured.curves())
}

fn measure(
    work: &mut Work,
    subject: &mut Subject,
    stage: &Evaluate,
    training: Training,
    threads: &rayon::ThreadPool,
) -> Result<(Measured, Decisions)> {
    let Subject { evaluated, system, .. } = subject;
    let (labels, total) = (evaluated.labels.cols, evaluated.rows.len() as u64);
    let mut measure = threads.install(|| Measure::new(labels, Some(training)));
    let mut writer = DecisionsWriter::create(work.output("decisions")?)?;
    let mut told = Instant::now();
    let cost = system.losses();
    let mut take = |block: &Block| {
        let truth: Vec<&[u32]> = (0..block.rows).map(|row| evaluated.labels.row(block.first + row)).collect();
        let losses = threads.install(|| measure.add(block, &truth).map(|()| cost(block, &truth)))?;
        if let Some(sum) = losses.bce {
            measure.add_loss(Metric::Bce, sum, (block.rows * labels) as u64)?;
        }
        if let Some(mean) = losses.training {
            measure.add_loss(Metric::TrainingLoss, mean * block.rows as f64, block.rows as u64)?;
        }
        for (truth, predicted) in truth.iter().zip(&block.predicted) {
            writer.push(truth, predicted)?;
        }
        if work.should_stop() {
            return Err(Stopped.into());
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            work.progress((block.first + block.rows) as u64, Some(total), "rows", "evaluating");
        }
        Ok(())
    };
    judge(&mut **system, stage.protocol, evaluated.examples(), &mut take)?;
    Ok((measure.finish(stage.protocol), writer.finish(stage.protocol, labels)?))
}

/// Reports the main metrics, each with its protocol.
fn announce(work: &mut Work, evaluation: &Evaluation) {
    for metric in Metric::ANNOUNCED {
        if let Some(marked) = evaluation.get(metric) {
            work.marked_metric(metric.name(), marked.reveal());
        }
    }
}

pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_vec_pretty(value)?).with_context(|| path.display().to_string())
}

fn write_lines<T: serde::Serialize>(path: &Path, values: &[T]) -> Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path).with_context(|| path.display().to_string())?);
    for value in values {
        serde_json::to_writer(&mut file, value)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}
