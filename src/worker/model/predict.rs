//! Scoring of rows whose labels are not known. No function here takes the labels of the scored rows.

use super::Model;
use crate::engine::device::{DeviceError, engine};
use crate::engine::pool::pool;
use crate::engine::{BatchScores, Engine, EngineState, score};
use crate::net::features::FeatureMap;
use pipe_ml::config::device::Device;
use pipe_ml::config::method::Method;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::signal::supply::LocalSupply;

/// The reason why rows cannot be scored.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    #[error(
        "the local signal `batch-labels` is computed from the true labels of the rows to be predicted: \
         choose `train-neighbours`, `predicted` or `none` (`--signal` of `pipe predict` and `pipe explain`, `signal` of a \
         stage), or evaluate by the oracle protocol"
    )]
    NeedsLabels,
    #[error("the local signal `train-neighbours` needs the training rows, which were not given")]
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
        Ok(Self { method, map: model.map, engine, pool })
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
        let supply = match (signal, train) {
            (LocalSignal::BatchLabels, _) => return Err(PredictError::NeedsLabels),
            (LocalSignal::TrainNeighbours, None) => return Err(PredictError::NeedsTrainingRows),
            (LocalSignal::TrainNeighbours, Some(train)) => {
                self.pool.install(|| LocalSupply::neighbours(&self.method.signal, train, rows))
            }
            (LocalSignal::Predicted, _) => LocalSupply::Predicted,
            (LocalSignal::None, _) => LocalSupply::None,
        };
        self.predict_with(rows, &supply, take)
    }

    /// The same as [`Self::predict`] with a local signal that was prepared for these rows.
    pub fn predict_with(
        &mut self,
        rows: Unlabelled,
        supply: &LocalSupply,
        take: impl FnMut(usize, &BatchScores) + Send,
    ) -> Result<(), PredictError> {
        self.check(rows)?;
        let Self { method, map, engine, pool } = self;
        pool.install(|| Ok(score::score(&mut **engine, map, supply, rows, method.batch, take)?))
    }

    /// Returns an error if the rows do not have the features that the model was trained on.
    pub(crate) fn check(&self, rows: Unlabelled) -> Result<(), PredictError> {
        let (model, rows) = (self.map.features(), rows.features.cols);
        if model == rows { Ok(()) } else { Err(PredictError::Features { model, rows }) }
    }
}
