//! Scoring of rows whose labels are not known. No function here takes the labels of the scored rows.

use std::sync::Arc;

use super::Model;
use crate::engine::device::{DeviceError, engine};
use crate::engine::pool::pool;
use crate::engine::{BatchScores, Engine, EngineState, score};
use crate::net::features::FeatureMap;
use pipe_ml::config::device::Device;
use pipe_ml::config::method::Method;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::source::SignalSource;
use pipe_ml::signal::supply::SignalSupply;

/// The reason why rows cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    #[error(
        "the local signal `batch-labels` is computed from the true labels of the rows to be predicted: \
         choose `train-neighbours`, `predicted` or `none` (`--signal` of `pipe predict` and `pipe explain`, `signal` of a \
         stage), or evaluate by the oracle protocol"
    )]
    NeedsLabels,
    #[error(
        "the local signal `train-neighbours` and `global: salience` need the training rows, which were not given"
    )]
    NeedsTrainingRows,
    #[error(
        "the model was trained on {model} features, but the rows have {rows}: they are not from the same data set"
    )]
    Features { model: usize, rows: usize },
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
    #[error("cannot start {threads} threads: {source}")]
    Threads { threads: usize, source: rayon::ThreadPoolBuildError },
}

/// A model that is ready to score rows.
pub struct Predictor {
    pub(crate) method: Method,
    pub(crate) map: FeatureMap,
    pub(crate) idf: Arc<Idf>,
    pub(crate) full_density: Option<f64>,
    pub(crate) engine: Box<dyn Engine + Send>,
    pub(crate) pool: rayon::ThreadPool,
}

impl Predictor {
    /// Prepares a model on a device.
    pub fn new(model: Model, device: Device, threads: usize) -> Result<Self, PredictError> {
        let pool = pool(threads).map_err(|source| PredictError::Threads { threads, source })?;
        let method = Method { device, ..model.method };
        let state = EngineState { weights: model.weights, moments: None, steps: 0 };
        let engine = engine(&method, &model.idf, state)?;
        Ok(Self {
            method,
            map: model.map,
            idf: Arc::new(model.idf),
            full_density: model.full_density,
            engine,
            pool,
        })
    }

    /// Returns the method, with the device that is used.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.engine.labels()
    }

    /// Scores rows and passes the scores of each batch, with the index of its first row, to `take`. `signal` is the
    /// local signal to use; the model's own is [`Method::local_in_prediction`].
    pub fn predict(
        &mut self,
        rows: Unlabelled,
        signal: LocalSignal,
        train: Option<Examples>,
        take: impl FnMut(usize, &BatchScores) + Send,
    ) -> Result<(), PredictError> {
        self.check(rows)?;
        let prepare = || SignalSource::new(&self.method, signal, train.map(Into::into));
        let source = self.pool.install(prepare).ok_or(PredictError::NeedsTrainingRows)?;
        self.predict_from(&source, rows, take)
    }

    /// The same as [`Self::predict`] with training rows that were prepared before.
    pub fn predict_from(
        &mut self,
        source: &SignalSource,
        rows: Unlabelled,
        take: impl FnMut(usize, &BatchScores) + Send,
    ) -> Result<(), PredictError> {
        self.check(rows)?;
        let idf = Arc::clone(&self.idf);
        let supply = self.supply(source, &idf, rows)?;
        self.predict_with(rows, &supply, take)
    }

    /// Prepares the signals of rows whose labels are not known.
    pub(crate) fn supply<'a>(
        &self,
        source: &'a SignalSource,
        idf: &'a Idf,
        rows: Unlabelled<'a>,
    ) -> Result<SignalSupply<'a>, PredictError> {
        if source.local() == LocalSignal::BatchLabels {
            return Err(PredictError::NeedsLabels);
        }
        let (method, full_density) = (&self.method, self.full_density);
        Ok(self.pool.install(|| source.supply(method, idf, full_density, rows)))
    }

    /// The same as [`Self::predict`] with signals that were prepared for these rows.
    fn predict_with(
        &mut self,
        rows: Unlabelled,
        supply: &SignalSupply,
        take: impl FnMut(usize, &BatchScores) + Send,
    ) -> Result<(), PredictError> {
        self.check(rows)?;
        let Self { method, map, engine, pool, .. } = self;
        pool.install(|| Ok(score::score(&mut **engine, map, supply, rows, method.batch, take)?))
    }

    /// Returns an error if the rows do not have the features that the model was trained on.
    pub(crate) fn check(&self, rows: Unlabelled) -> Result<(), PredictError> {
        let (model, rows) = (self.map.features(), rows.features.cols);
        if model == rows { Ok(()) } else { Err(PredictError::Features { model, rows }) }
    }
}
