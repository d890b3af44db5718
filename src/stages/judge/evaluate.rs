//! Runs the stage `evaluate`: takes blocks of decisions and measures them. Only the decisions are kept for all rows, in a
//! memory-mapped file.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use anyhow::Result;
use pipe_core::stage::RunStage;
use pipe_core::work::{Stopped, Work};
use pipe_ml::metric::block::DecisionBlock;
use pipe_ml::metric::decisions::{Decisions, DecisionsWriter};
use pipe_ml::metric::evaluation::TrainingCounts;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::measure::{Measure, Measurements};
use pipe_ml::metric::registry::Metric;
use pipe_ml::system::{BlockSink, Losses};

use super::OpenSystem;
use super::judged_model::{JudgedModel, decide};
use crate::evaluate::{Evaluate, conclude};
use crate::evaluate_predictions;

/// How often progress is reported.
const PROGRESS: Duration = Duration::from_millis(500);

/// Runs the stage `evaluate` with the models that `O` opens.
pub(super) struct RunEvaluate<O>(PhantomData<O>);

impl<O: OpenSystem> RunStage for RunEvaluate<O> {
    type Stage = Evaluate;

    fn run(stage: &Evaluate, work: &mut Work) -> Result<()> {
        if stage.predictions.is_some() {
            return evaluate_predictions::run(stage, work);
        }
        let inputs = (Evaluate::DATA, Evaluate::MODEL);
        let mut judged = JudgedModel::open::<O>(work, inputs, stage.part, stage.device, stage.signal)?;
        if stage.ceiling.is_some() {
            work.info(
                "ceiling: the cuts are the best ones for the true labels of the evaluated rows, so no deployed model can \
                 be expected to reach these values",
            );
        } else if stage.protocol == Protocol::Oracle {
            work.info(
                "oracle protocol: the thresholds use the true labels of the evaluated rows, so no deployed model can reach \
                 these values",
            );
        }
        let (rows, positives) = judged.training_positives()?;
        let training = TrainingCounts { rows, positives, propensity: stage.propensity };
        let threads = rayon::ThreadPoolBuilder::new().num_threads(work.job().threads.max(1)).build()?;
        let (measured, decisions) = measure(work, &mut judged, stage, training, &threads)?;
        conclude(work, stage, &measured, &decisions, &threads)
    }
}

fn measure(
    work: &mut Work,
    judged: &mut JudgedModel,
    stage: &Evaluate,
    training: TrainingCounts,
    threads: &rayon::ThreadPool,
) -> Result<(Measurements, Decisions)> {
    let JudgedModel { evaluated, system, .. } = judged;
    let (labels, total) = (evaluated.labels.cols, evaluated.rows.len() as u64);
    let mut measure = threads.install(|| Measure::new(labels, Some(training)));
    let mut writer = DecisionsWriter::create(work.output_path(Evaluate::DECISIONS)?)?;
    let mut reported = Instant::now();
    let (cost, is_ceiling) = (system.losses(), stage.ceiling.is_some());
    let mut take = |block: &DecisionBlock| {
        let truth: Vec<&[u32]> = (0..block.rows).map(|row| evaluated.labels.row(block.first + row)).collect();
        // The losses are those of the model's own thresholds.
        let losses = |truth: &[&[u32]]| if is_ceiling { Losses::default() } else { cost(block, truth) };
        let losses = threads.install(|| measure.add(block, &truth).map(|()| losses(&truth)))?;
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
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            work.progress((block.first + block.rows) as u64, Some(total), "rows", "evaluating");
        }
        Ok(())
    };
    let decide = |take: BlockSink| decide(&mut **system, stage.protocol, evaluated.examples(), take);
    stage.decide(&evaluated.labels, threads, decide, &mut take)?;
    let protocol = stage.marked_protocol();
    Ok((measure.finish(protocol), writer.finish(protocol, labels)?))
}
