//! Runs the stage `train`.

use anyhow::Result;
use pipe_core::protocol::Protocol;
use pipe_core::stage::RunStage;
use pipe_core::work::{Stopped, Work};
use pipe_ml::artifacts::EpochSeconds;
use pipe_ml::data::dataset_part::DatasetPart;
use pipe_ml::data::split_data::PartName;
use pipe_stages::train::Train;

use crate::engine::device;
use crate::train::host::{TrainingHost, TrainingProgress};
use crate::train::trainer::{TrainError, TrainingRun, train};

/// Runs the stage `train`.
pub(super) struct RunTrain;

impl RunStage for RunTrain {
    type Stage = Train;

    fn run(stage: &Train, work: &mut Work) -> Result<()> {
        let method = &stage.method;
        let data = work.open(Train::DATA)?;
        let idf = work.open(Train::IDF)?;
        let chosen = device::name(device::choose(method.device)?);
        work.info(format!("training on {chosen}"));
        work.fact("device", chosen);
        let parameters = method.parameters(data.meta().features as usize, data.meta().labels as usize);
        work.metric(Train::PARAMETERS, parameters as f64);

        let (training, validation) = (DatasetPart::open(&data, PartName::Train)?, PartName::Validation);
        let validation = data.has(validation).then(|| DatasetPart::open(&data, validation)).transpose()?;
        let checkpoints = work.job().checkpoints.clone();
        let run = TrainingRun {
            method,
            train: training.examples(),
            validation: validation.as_ref().map(DatasetPart::examples),
            idf: &idf,
            checkpoints: Some(&checkpoints),
            threads: work.job().threads,
        };
        let protocol = if method.predicts_from_true_labels() { Protocol::Oracle } else { Protocol::Honest };
        let done = match train(run, &mut Reporter { work, protocol }) {
            Err(TrainError::Stopped { .. }) => return Err(Stopped.into()),
            other => other?,
        };
        done.model.save(work.output_path(Train::MODEL)?)?;
        work.save(Train::HISTORY, &done.history)?;
        work.save(Train::TIMINGS, &EpochSeconds(done.seconds))?;
        work.metric(Train::EPOCHS, done.history.epochs.len() as f64);
        if let Some(last) = done.history.epochs.last() {
            work.metric(Train::TRAIN_LOSS, last.loss.total);
        }
        if let Some((_, best)) = done.history.best(&method.stopping) {
            work.marked_metric(Train::BEST_VALIDATION, (done.history.protocol(), best));
        }
        Ok(())
    }
}

/// Reports the progress of a training to the runner.
pub(super) struct Reporter<'a, 'b> {
    pub work: &'a mut Work<'b>,
    /// The protocol of validation: `oracle` if it looks at true labels.
    pub protocol: Protocol,
}

impl TrainingHost for Reporter<'_, '_> {
    fn progress(&mut self, progress: TrainingProgress) {
        let done = progress.epoch * progress.batches + progress.batch;
        let total = progress.epochs * progress.batches;
        // A narrow terminal cuts the end off, so the value comes before the loss.
        let mut message = format!("epoch {} of {}, ", progress.epoch, progress.epochs);
        if let Some(macro_f1) = progress.macro_f1 {
            let mark = if self.protocol == Protocol::Oracle { "†" } else { "" };
            message.push_str(&format!("macro-F1 {macro_f1:.4}{mark}, "));
        }
        message.push_str(&format!("loss {:.4}", progress.loss));
        self.work.progress(done, Some(total), "batches", message);
        // An epoch has just ended: these are the points of the learning curves.
        if progress.batch == 0 && progress.epoch > 0 {
            self.work.curve_point(Train::TRAIN_LOSS, progress.epoch, (None, progress.loss));
            if let Some(macro_f1) = progress.macro_f1 {
                let value = (Some(self.protocol), macro_f1);
                self.work.curve_point(Train::VALIDATION_MACRO_F1, progress.epoch, value);
            }
        }
    }

    fn info(&mut self, message: String) {
        self.work.info(message);
    }

    fn warn(&mut self, message: String) {
        self.work.warn(message);
    }

    fn should_stop(&mut self) -> bool {
        self.work.should_stop()
    }
}
