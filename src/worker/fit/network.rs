//! The network of `train` as a scorer; without hidden layers it is logistic regression. Its scores are log-odds.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Result;
use pipe_core::work::Stopped;
use pipe_ml::config::device::Device;
use pipe_ml::config::method::Method;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::explanation::{Cause, CauseSubject, Evidence};
use pipe_ml::scorer::{CAUSES, ModelSize, SCORE, Scorer, stored_rows};
use pipe_ml::signal::dot_index::entries;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::source::{SignalSource, TrainingRows};

use super::{FitContext, FittedModel, LeaveOneOut, TrainingData};
use crate::engine::BatchScores;
use crate::loss::terms::STATIC_THRESHOLD;
use crate::model::Model;
use crate::model::predict::{PredictError, Predictor};
use crate::train::trainer::{TrainError, TrainingRun, train};

/// A trained network that gives scores.
pub struct NetworkScorer {
    model: Model,
    predictor: Predictor,
    source: SignalSource<'static>,
    /// The training rows, if the thresholds look at them.
    train: Option<TrainingData>,
}

impl NetworkScorer {
    /// Trains a network.
    pub fn fit(data: &TrainingData, method: &Method, context: &mut FitContext) -> Result<Self> {
        // Only here, because an empty directory would look like a checkpoint.
        if let Some(checkpoints) = context.checkpoints {
            std::fs::create_dir_all(checkpoints)?;
        }
        let rows: Vec<u32> = (0..data.features.rows() as u32).collect();
        let idf = Idf::of_rows(&data.labels, &rows, 1.0);
        let run = TrainingRun {
            method,
            train: Examples { features: &data.features, labels: &data.labels, rows: &rows },
            validation: None,
            idf: &idf,
            checkpoints: context.checkpoints,
            threads: context.threads,
        };
        let trained = match train(run, context.host) {
            Err(TrainError::Stopped { .. }) => return Err(Stopped.into()),
            other => other?,
        };
        let train = looks_at_training_rows(method).then(|| data.clone());
        Self::new(trained.model, train, method.device, context.threads)
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, device: Device, threads: usize) -> Result<Self> {
        let model = Model::load(directory)?;
        size.check(directory, model.features(), model.labels())?;
        let train = if looks_at_training_rows(&model.method) {
            let (features, labels) = stored_rows::open(directory, size)?;
            Some(TrainingData { features, labels })
        } else {
            None
        };
        Self::new(model, train, device, threads)
    }

    /// Prepares a trained model for scoring.
    fn new(model: Model, train: Option<TrainingData>, device: Device, threads: usize) -> Result<Self> {
        let predictor = Predictor::new(model.clone(), device, threads)?;
        let rows = train.clone().map(|TrainingData { features, labels }| TrainingRows {
            rows: (0..features.rows() as u32).collect(),
            features: Cow::Owned(features),
            labels: Cow::Owned(labels),
        });
        let local = model.method.local_in_prediction();
        let prepare = || SignalSource::new(&model.method, local, rows);
        let source = predictor.pool.install(prepare).ok_or(PredictError::NeedsTrainingRows)?;
        Ok(Self { predictor, model, source, train })
    }
}

fn looks_at_training_rows(method: &Method) -> bool {
    method.needs_training_rows(method.local_in_prediction())
}

impl Scorer for NetworkScorer {
    fn features(&self) -> usize {
        self.model.features()
    }

    fn labels(&self) -> usize {
        self.model.labels()
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        let labels = self.labels();
        let take = |first: usize, scores: &BatchScores| {
            for label in 0..labels {
                for (row, &score) in scores.of_label(label).iter().enumerate() {
                    into[(first + row) * labels + label] = score;
                }
            }
        };
        Ok(self.predictor.predict_from(&self.source, rows, take)?)
    }

    fn evidence(&self, features: &Csr, row: usize, label: u32) -> Evidence {
        let Model { method, map, weights, .. } = &self.model;
        if !weights.layers.is_empty() {
            return Evidence::none(
                SCORE,
                "a network with hidden layers, whose score is not a sum over features",
            );
        }
        if method.loss.standardise || method.variant.learns() {
            return Evidence::none(
                SCORE,
                "a network with standardised logits or learnt thresholds, whose score is not a sum over features",
            );
        }
        let weight = |input: u32| weights.table[input as usize * weights.width + label as usize];
        let known = entries(features, row).filter_map(|(feature, x)| {
            map.input(feature).map(|(input, sign)| (feature, sign * x, weight(input)))
        });
        let known: Vec<(u32, f32, f32)> = known.collect();
        let mut values: Vec<f64> =
            known.iter().map(|&(_, x, weight)| f64::from(x) * f64::from(weight)).collect();
        values.push(weights.input_bias[label as usize].into());
        values.push(-STATIC_THRESHOLD);
        Evidence::new(SCORE, "x * weight, over the features of the row", &values, CAUSES, |at| {
            match known.get(at) {
                Some(&(feature, x, weight)) => {
                    let inputs = [("x", x.into()), ("weight", weight.into())];
                    Cause::new(CauseSubject::Feature { feature, name: None }, &inputs, values[at])
                }
                None => {
                    let name = if at == known.len() { "bias" } else { "static threshold" };
                    Cause::new(CauseSubject::Constant { name: name.to_owned() }, &[], values[at])
                }
            }
        })
    }
}

impl FittedModel for NetworkScorer {
    fn scorer(&mut self) -> &mut dyn Scorer {
        self
    }

    fn left_out(&self) -> Option<&dyn LeaveOneOut> {
        None
    }

    fn save(&self, directory: &Path) -> Result<()> {
        self.model.save(directory)?;
        if let Some(data) = &self.train {
            stored_rows::write(directory, &data.features, &data.labels)?;
        }
        Ok(())
    }
}
