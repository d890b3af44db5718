//! The network of `train` as a scorer; without hidden layers it is logistic regression. Its scores are log-odds.

use std::path::Path;

use anyhow::Result;
use pipe_core::work::Stopped;
use pipe_ml::config::device::Device;
use pipe_ml::config::method::Method;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::explanation::{Cause, CauseSubject, Evidence};
use pipe_ml::scorer::{CAUSES, ModelSize, SCORE, Scorer, stored_rows};
use pipe_ml::signal::dot_index::entries;
use pipe_ml::signal::idf::Idf;
use pipe_ml::signal::neighbours::NeighbourIndex;
use pipe_ml::signal::supply::LocalSupply;

use super::{FitContext, FittedModel, LeaveOneOut, TrainingData};
use crate::engine::BatchScores;
use crate::loss::terms::STATIC_THRESHOLD;
use crate::model::Model;
use crate::model::predict::Predictor;
use crate::train::trainer::{TrainError, TrainingRun, train};

/// A trained network that gives scores.
pub struct NetworkScorer {
    model: Model,
    predictor: Predictor,
    /// The training rows, if the thresholds look at neighbours among them.
    neighbours: Option<TrainingNeighbours>,
}

/// Training rows among which neighbours are found.
struct TrainingNeighbours {
    data: TrainingData,
    index: NeighbourIndex<'static>,
}

impl TrainingNeighbours {
    fn new(data: TrainingData) -> Self {
        let rows = (0..data.features.rows() as u32).collect();
        Self { index: NeighbourIndex::owning(data.features.clone(), rows), data }
    }
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
        let neighbours = looks_at_neighbours(method).then(|| TrainingNeighbours::new(data.clone()));
        Self::new(trained.model, neighbours, method.device, context.threads)
    }

    /// Opens a saved model.
    pub fn load(directory: &Path, size: ModelSize, device: Device, threads: usize) -> Result<Self> {
        let model = Model::load(directory)?;
        size.check(directory, model.features(), model.labels())?;
        let neighbours = if looks_at_neighbours(&model.method) {
            let (features, labels) = stored_rows::open(directory, size)?;
            Some(TrainingNeighbours::new(TrainingData { features, labels }))
        } else {
            None
        };
        Self::new(model, neighbours, device, threads)
    }

    /// Prepares a trained model for scoring.
    fn new(
        model: Model,
        neighbours: Option<TrainingNeighbours>,
        device: Device,
        threads: usize,
    ) -> Result<Self> {
        Ok(Self { predictor: Predictor::new(model.clone(), device, threads)?, model, neighbours })
    }
}

fn looks_at_neighbours(method: &Method) -> bool {
    method.local_in_prediction() == LocalSignal::TrainNeighbours
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
        let Method { signal, .. } = &self.model.method;
        match &self.neighbours {
            Some(TrainingNeighbours { data, index }) => {
                let search = || index.of(rows.features, rows.rows, signal.neighbours, signal.weighting);
                let found = self.predictor.pool.install(search);
                let supply = LocalSupply::Neighbours { found, labels: &data.labels };
                self.predictor.predict_with(rows, &supply, take)?;
            }
            None => self.predictor.predict(rows, self.model.method.local_in_prediction(), None, take)?,
        }
        Ok(())
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
        if let Some(TrainingNeighbours { data, .. }) = &self.neighbours {
            stored_rows::write(directory, &data.features, &data.labels)?;
        }
        Ok(())
    }
}
