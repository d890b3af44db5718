//! The network of `train`, or the one without hidden layers that is logistic regression: log-odds.

use std::path::Path;

use anyhow::Result;
use pipe::ml::config::device::Device;
use pipe::ml::config::method::Method;
use pipe::ml::data::examples::{Examples, Unlabelled};
use pipe::ml::signal::idf::Idf;
use pipe::stage::work::Stopped;

use super::{LeftOut, Lesson, Means, Scorer};
use crate::model::Model;
use crate::model::predict::Predictor;
use crate::train::trainer::{Run, TrainError, train};

pub struct Network {
    model: Model,
    predictor: Predictor,
}

impl Network {
    pub fn fit(lesson: &Lesson, method: &Method, means: &mut Means) -> Result<Self> {
        let rows: Vec<u32> = (0..lesson.features.rows() as u32).collect();
        let idf = Idf::of_rows(&lesson.labels, &rows, 1.0);
        let run = Run {
            method,
            train: Examples { features: &lesson.features, labels: &lesson.labels, rows: &rows },
            validation: None,
            idf: &idf,
            checkpoints: means.checkpoints,
            threads: means.threads,
        };
        let trained = match train(run, means.host) {
            Err(TrainError::Stopped { .. }) => return Err(Stopped.into()),
            other => other?,
        };
        Self::new(trained.model, method.device, means.threads)
    }

    pub fn load(directory: &Path, device: Device, threads: usize) -> Result<Self> {
        Self::new(Model::load(directory)?, device, threads)
    }

    fn new(model: Model, device: Device, threads: usize) -> Result<Self> {
        Ok(Self { predictor: Predictor::new(model.clone(), device, threads)?, model })
    }
}

impl Scorer for Network {
    fn features(&self) -> usize {
        self.model.features()
    }

    fn labels(&self) -> usize {
        self.model.labels()
    }

    fn score(&mut self, rows: Unlabelled, into: &mut [f32]) -> Result<()> {
        let labels = self.labels();
        let signal = self.model.method.local_in_prediction();
        self.predictor.predict(rows, signal, None, |first, scores| {
            for label in 0..labels {
                for (row, &score) in scores.of_label(label).iter().enumerate() {
                    into[(first + row) * labels + label] = score;
                }
            }
        })?;
        Ok(())
    }

    fn left_out(&self) -> Option<&dyn LeftOut> {
        None
    }

    fn save(&self, directory: &Path) -> Result<()> {
        Ok(self.model.save(directory)?)
    }
}
