//! The training loop.

use std::path::Path;
use std::time::{Duration, Instant};

use super::checkpoint::{Checkpoint, Checkpoints, TrainingPosition};
use super::divergence::likely_cause;
use super::history::epoch_record;
use super::host::{TrainingHost, TrainingProgress};
use crate::engine::score::{count, score, score_with_labels};
use crate::engine::{self, Batch, Engine, EngineState};
use crate::loss::terms::LossValue;
use crate::model::Model;
use crate::net::features::FeatureMap;
use crate::net::weights::Weights;
use pipe_ml::config::method::Method;
use pipe_ml::data::examples::Examples;
use pipe_ml::data::random::Streams;
use pipe_ml::history::{EpochMetrics, History};
use pipe_ml::metric::label::LabelCount;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::source::SignalSource;
use pipe_ml::signal::supply::SignalSupply;

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The inputs of a training run.
#[derive(Clone, Copy)]
pub struct TrainingRun<'a> {
    pub method: &'a Method,
    pub train: Examples<'a>,
    pub validation: Option<Examples<'a>>,
    pub idf: &'a Idf,
    /// A directory that outlives a killed run; without one, no checkpoints are written.
    pub checkpoints: Option<&'a Path>,
    /// How many threads to use; the result does not depend on it.
    pub threads: usize,
}

/// The outputs of a training run.
pub struct TrainingResult {
    pub model: Model,
    pub history: History,
    /// Seconds per epoch. They are not in the history, which is the same for the same key.
    pub seconds: Vec<f64>,
}

/// The reason why a training run ended without a model.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("there are no training rows")]
    NoRows,
    #[error("the training rows have {features} features and {labels} labels: nothing can be learned")]
    Empty { features: usize, labels: usize },
    #[error("the IDF has {idf} labels, but the data has {data}: both must come from the same data set")]
    Idf { idf: usize, data: usize },
    #[error("the loss became {loss} in epoch {epoch}, {batches}: {cause}")]
    Diverged { loss: f64, epoch: u64, batches: String, cause: String },
    #[error("stopped in epoch {epoch}, batch {batch}{}", if *.saved { "; a checkpoint was written" } else { "" })]
    Stopped { epoch: u64, batch: u64, saved: bool },
    #[error(transparent)]
    Device(#[from] engine::device::DeviceError),
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
    #[error("cannot start {threads} threads: {source}")]
    Threads { threads: usize, source: rayon::ThreadPoolBuildError },
}

/// Trains a model. Continues from the last checkpoint of the same run, if there is one.
pub fn train(run: TrainingRun, host: &mut dyn TrainingHost) -> Result<TrainingResult, TrainError> {
    let labels = run.train.labels.cols;
    if run.train.is_empty() {
        return Err(TrainError::NoRows);
    }
    if labels == 0 || run.train.features.cols == 0 {
        return Err(TrainError::Empty { features: run.train.features.cols, labels });
    }
    if run.idf.values.len() != labels {
        return Err(TrainError::Idf { idf: run.idf.values.len(), data: labels });
    }
    let pool = engine::pool::pool(run.threads);
    let pool = pool.map_err(|source| TrainError::Threads { threads: run.threads, source })?;
    pool.install(|| {
        let method = run.method;
        let prepare = || SignalSource::new(method, method.local_in_prediction(), Some(run.train.into()));
        let source = run.validation.and_then(|_| prepare());
        Trainer::new(run, source.as_ref(), host)?.run()
    })
}

/// A training run in progress.
struct Trainer<'a> {
    run: TrainingRun<'a>,
    host: &'a mut dyn TrainingHost,
    map: FeatureMap,
    /// Whether the engine keeps the training rows. Then batches are lists of row numbers.
    held: bool,
    engine: Box<dyn Engine + Send>,
    supply: SignalSupply<'a>,
    validation_supply: Option<SignalSupply<'a>>,
    checkpoints: Option<Checkpoints<'a>>,
    position: TrainingPosition,
    best: Option<Weights>,
    /// The training rows since the loss was last read, as indices into `run.train.rows`.
    unread: Vec<u32>,
    saved_at: Instant,
    /// Whether it was reported that a checkpoint cannot be written.
    warned_of_checkpoints: bool,
}

impl<'a> Trainer<'a> {
    /// Prepares a run, from its checkpoint if there is a usable one.
    fn new(
        run: TrainingRun<'a>,
        source: Option<&'a SignalSource>,
        host: &'a mut dyn TrainingHost,
    ) -> Result<Self, TrainError> {
        let method = run.method;
        let (features, labels) = (run.train.features.cols, run.train.labels.cols);
        let map = FeatureMap::new(&method.net, run.train.features, run.train.rows);
        let fresh = || EngineState::new(Weights::initial(method, features, labels), method.optimiser.kind);
        let device = engine::device::name(engine::device::choose(method.device)?);
        // The number of threads does not matter: it changes no bit of a result.
        let computed_by = format!("{device}, libtorch {}", env!("PIPE_LIBTORCH_VERSION"));
        let checkpoints =
            run.checkpoints.map(|directory| Checkpoints::new(directory, run_digest(&run), computed_by));
        let found = match checkpoints.as_ref().map(|checkpoints| checkpoints.load(fresh)) {
            Some(Err(reason)) => {
                host.warn(format!(
                    "the checkpoint cannot be used, so training starts from the beginning: {reason}"
                ));
                None
            }
            Some(Ok(found)) => found,
            None => None,
        };
        if let Some(Checkpoint { position, .. }) = &found {
            host.info(format!(
                "continues from the checkpoint in epoch {}, after {} of its batches",
                position.epoch + 1,
                position.batch
            ));
        }
        let found = found.unwrap_or_else(|| Checkpoint {
            position: TrainingPosition::start(),
            state: fresh(),
            best: None,
        });
        let supply = SignalSupply::in_training(method, run.idf, run.train);
        let full_density = supply.full_density();
        let validation_supply = run
            .validation
            .zip(source)
            .map(|(rows, source)| source.supply(method, run.idf, full_density, rows.unlabelled()));
        let mut engine = engine::device::engine(method, run.idf, found.state)?;
        let held = engine.hold(&map, run.train.features);
        engine.set_loss_sum(found.position.loss)?;
        Ok(Self {
            run,
            host,
            map,
            held,
            engine,
            supply,
            validation_supply,
            checkpoints,
            position: found.position,
            best: found.best,
            unread: Vec::new(),
            saved_at: Instant::now(),
            warned_of_checkpoints: false,
        })
    }

    /// Trains to the end.
    fn run(mut self) -> Result<TrainingResult, TrainError> {
        let method = self.run.method;
        self.position.history.oracle = self.run.validation.is_some() && method.predicts_from_true_labels();
        while self.position.epoch < method.epochs && !self.position.history.says_stop(&method.stopping) {
            self.epoch()?;
        }
        let state = self.engine.into_state()?;
        let mut history = self.position.history;
        let best = history.best(&method.stopping).filter(|_| method.stopping.restore_best);
        let (weights, kept) = match (self.best, best) {
            (Some(weights), Some((epoch, _))) => (weights, epoch),
            _ => (state.weights, history.epochs.len() as u64),
        };
        history.kept = kept;
        let mut seconds = self.position.seconds;
        seconds.truncate(history.epochs.len());
        let model = Model {
            method: method.clone(),
            map: self.map,
            idf: self.run.idf.clone(),
            full_density: self.supply.full_density(),
            weights,
        };
        Ok(TrainingResult { model, history, seconds })
    }

    /// Trains on the remaining batches of an epoch and finishes it.
    fn epoch(&mut self) -> Result<(), TrainError> {
        let method = self.run.method;
        let order = order(method.seed, self.position.epoch, self.run.train.len());
        let batches = order.chunks(method.batch).len() as u64;
        let rate_at = |step: u64| method.optimiser.lr * method.schedule.share(step, batches, method.epochs);
        let mut reported = Instant::now();
        let mut remaining = order.chunks(method.batch).skip(self.position.batch as usize).peekable();
        let mut next = remaining.peek().map(|positions| self.batch(positions));
        while let (Some(positions), Some(batch)) = (remaining.next(), next.take()) {
            let started = Instant::now();
            let rate = rate_at(self.position.step);
            next = self.step(&batch, positions, remaining.peek().copied(), rate)?;
            self.add_seconds(started);
            let report = reported.elapsed() >= PROGRESS_INTERVAL;
            if report || self.engine.is_in_host_memory() {
                self.read_loss()?;
            }
            if report {
                reported = Instant::now();
                self.report_progress(batches);
            }
            self.after_batch()?;
        }
        let started = Instant::now();
        let number = self.position.epoch + 1;
        self.finish_epoch(number, rate_at(self.position.step - 1))?;
        self.add_seconds(started);
        self.position.start_epoch(number);
        self.engine.set_loss_sum(self.position.loss)?;
        self.report_progress(batches);
        let every = method.checkpoint.epochs.value();
        if every.is_some_and(|every| number.is_multiple_of(every.max(1.0) as u64)) {
            self.save()?;
        }
        Ok(())
    }

    /// Validates and records an epoch, and keeps a copy of its weights if it is the best so far.
    fn finish_epoch(&mut self, number: u64, lr: f64) -> Result<(), TrainError> {
        let method = self.run.method;
        self.read_loss()?;
        let validation = self.validate()?;
        let loss = LossValue::default().plus(1.0 / self.position.rows as f64, self.position.loss);
        self.engine.settle();
        let state = self.engine.state()?;
        let record = epoch_record(number, loss, validation, method, &state.weights, self.run.idf, lr);
        self.position.history.epochs.push(record);
        let best = self.position.history.best(&method.stopping);
        if method.stopping.restore_best && best.is_some_and(|(epoch, _)| epoch == number) {
            self.best = Some(state.weights.clone());
        }
        Ok(())
    }

    /// Returns the batch of the training rows at these positions.
    fn batch(&self, positions: &[u32]) -> Batch {
        make_batch(self.held, &self.map, &self.supply, self.run.train, positions)
    }

    /// Takes one step on a batch while the next batch is assembled, and returns the next batch.
    fn step(
        &mut self,
        batch: &Batch,
        positions: &[u32],
        following: Option<&[u32]>,
        lr: f64,
    ) -> Result<Option<Batch>, TrainError> {
        let train = self.run.train;
        let (engine, step) = (&mut self.engine, self.position.step);
        let (held, map, supply) = (self.held, &self.map, &self.supply);
        let (done, next) = rayon::join(
            || engine.step(batch, lr, step),
            || following.map(|positions| make_batch(held, map, supply, train, positions)),
        );
        done?;
        self.position.batch += 1;
        self.position.step += 1;
        self.position.rows += positions.len() as u64;
        self.unread.extend_from_slice(positions);
        Ok(next)
    }

    /// Reads the sum of the losses from the engine and stops if it is not finite, so that no such state is ever saved.
    fn read_loss(&mut self) -> Result<(), TrainError> {
        let unread = std::mem::take(&mut self.unread);
        let loss = self.engine.loss_sum()?;
        if !loss.total.is_finite() {
            let (train, last) = (self.run.train, self.position.batch);
            let rows: Vec<u32> = unread.iter().map(|&position| train.rows[position as usize]).collect();
            let cause = likely_cause(self.run.method, train, &rows, &*self.engine.state()?);
            let batches = match unread.len().div_ceil(self.run.method.batch) as u64 {
                0 | 1 => format!("batch {last}"),
                count => format!("between batches {} and {last}", last + 1 - count),
            };
            return Err(TrainError::Diverged {
                loss: loss.total,
                epoch: self.position.epoch + 1,
                batches,
                cause,
            });
        }
        self.position.loss = loss;
        Ok(())
    }

    /// Computes the metrics on the validation rows, if there are any.
    fn validate(&mut self) -> Result<Option<EpochMetrics>, TrainError> {
        let (Some(examples), Some(supply)) = (self.run.validation, &self.validation_supply) else {
            return Ok(None);
        };
        let mut counts = vec![LabelCount::default(); examples.labels.cols];
        let (engine, map, batch) = (&mut *self.engine, &self.map, self.run.method.batch);
        if self.position.history.oracle {
            score_with_labels(engine, map, supply, examples, batch, |first, scores| {
                count(&mut counts, scores, examples, first);
            })?;
        } else {
            score(engine, map, supply, examples.unlabelled(), batch, |first, scores| {
                count(&mut counts, scores, examples, first);
            })?;
        }
        Ok(Some(EpochMetrics::of(examples.rows.len(), &counts)))
    }

    /// Stops if the host asks for it, and writes a checkpoint if one is due.
    fn after_batch(&mut self) -> Result<(), TrainError> {
        if self.host.should_stop() {
            let saved = self.save()?;
            let (epoch, batch) = (self.position.epoch + 1, self.position.batch);
            return Err(TrainError::Stopped { epoch, batch, saved });
        }
        let minutes = self.run.method.checkpoint.minutes.value();
        if minutes.is_some_and(|minutes| self.saved_at.elapsed().as_secs_f64() >= 60.0 * minutes) {
            self.save()?;
        }
        Ok(())
    }

    /// Writes a checkpoint, if there is a directory for them. Returns whether one was written: a full disk must not end
    /// a training that needs no checkpoint.
    fn save(&mut self) -> Result<bool, TrainError> {
        self.saved_at = Instant::now();
        self.read_loss()?;
        let Some(checkpoints) = &self.checkpoints else { return Ok(false) };
        self.engine.settle();
        match checkpoints.save(&self.position, &*self.engine.state()?, self.best.as_ref()) {
            Ok(()) => Ok(true),
            Err(error) => {
                if !self.warned_of_checkpoints {
                    self.host.warn(format!(
                        "training goes on without this checkpoint; if it is stopped now, it continues from an earlier one \
                         or starts again: {error}"
                    ));
                }
                self.warned_of_checkpoints = true;
                Ok(false)
            }
        }
    }

    /// Adds the time since `since` to the current epoch.
    fn add_seconds(&mut self, since: Instant) {
        if let Some(last) = self.position.seconds.last_mut() {
            *last += since.elapsed().as_secs_f64();
        }
    }

    /// Reports progress to the host.
    fn report_progress(&mut self, batches: u64) {
        let position = &self.position;
        let last = position.history.epochs.last();
        let so_far = position.loss.total / position.rows.max(1) as f64;
        self.host.progress(TrainingProgress {
            epoch: position.epoch,
            epochs: self.run.method.epochs,
            batch: position.batch,
            batches,
            loss: if position.rows > 0 { so_far } else { last.map_or(0.0, |epoch| epoch.loss.total) },
            macro_f1: last.and_then(|epoch| epoch.validation).map(|validation| validation.macro_f1),
        });
    }
}

/// Returns a batch to learn from.
fn make_batch(
    held: bool,
    map: &FeatureMap,
    supply: &SignalSupply,
    train: Examples,
    positions: &[u32],
) -> Batch {
    if held {
        Batch::of_held(supply, train, positions)
    } else {
        Batch::labelled(map, supply, train, positions).for_a_step()
    }
}

/// Returns the order of the training rows in an epoch. It depends on the seed and the epoch alone, so that a resumed
/// run sees the same batches.
fn order(seed: u64, epoch: u64, rows: usize) -> Vec<u32> {
    Streams::new("order", seed).get(epoch).permutation(rows)
}

/// Returns a digest of what must be the same for a checkpoint to be usable: parameters, rows, label counts. A change of
/// its ingredients makes the checkpoints of running jobs unusable.
fn run_digest(run: &TrainingRun) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(serde_json::to_string(run.method).unwrap_or_default().as_bytes());
    hasher.update(bytemuck::cast_slice(run.train.rows));
    hasher.update(bytemuck::cast_slice(&run.idf.counts));
    hasher.update(&(run.train.features.entries() as u64).to_le_bytes());
    hasher.finalize().to_hex().to_string()
}
