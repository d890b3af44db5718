//! What computes a step and a batch of scores: [`cpu::CpuEngine`] with the fused pass, or the
//! generic libtorch expression on any device, [`torch::TorchEngine`]. Both start from, and can
//! be brought back to, the same [`State`].

use crate::loss::terms::LossValue;
use crate::net::buffer::Buffer;
use crate::net::features::FeatureMap;
use crate::net::input::BatchInputs;
use crate::net::weights::Weights;
use pipe_ml::config::optimiser::OptimiserKind;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{Local, LocalSupply};

pub mod bags;
pub mod cpu;
pub mod device;
pub mod held;
pub mod pool;
pub mod predicted;
pub mod score;
pub mod torch;

/// Everything that changes while a model learns.
#[derive(Clone)]
pub struct State {
    pub weights: Weights,
    /// First and second moments; none for SGD.
    pub moments: Option<Box<(Weights, Weights)>>,
    /// Optimiser steps done.
    pub steps: u64,
}

impl State {
    /// Before the first step.
    pub fn new(weights: Weights, optimiser: OptimiserKind) -> Self {
        let moments = (optimiser != OptimiserKind::Sgd).then(|| {
            let zeros = Weights::zeros(&weights.widths(), weights.lambda.len());
            Box::new((zeros.clone(), zeros))
        });
        Self { weights, moments, steps: 0 }
    }
}

/// The features of a batch.
pub enum Inputs {
    Gathered(BatchInputs),
    /// Rows of the data set that the engine holds.
    Held(Vec<u32>),
}

impl Inputs {
    pub fn rows(&self) -> usize {
        match self {
            Self::Gathered(inputs) => inputs.rows(),
            Self::Held(rows) => rows.len(),
        }
    }

    /// For an engine that holds no rows.
    fn gathered(&self) -> Result<&BatchInputs, tch::TchError> {
        match self {
            Self::Gathered(inputs) => Ok(inputs),
            Self::Held(_) => Err(tch::TchError::Torch("this engine holds no training rows".into())),
        }
    }
}

/// A batch on its way into an engine.
pub struct Batch {
    pub inputs: Inputs,
    /// The true labels, one row each, or no rows at all where they must not be known.
    pub targets: SparseRows,
    pub local: Local,
}

impl Batch {
    /// A batch to learn from, or for the oracle path; `positions` are places in the examples' rows.
    pub fn labelled(map: &FeatureMap, supply: &LocalSupply, examples: Examples, positions: &[u32]) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| examples.rows[position as usize]).collect();
        let targets = SparseRows::ones(rows.iter().map(|&row| examples.labels.row(row as usize)));
        let local = supply.of(positions, &targets, examples.labels.cols);
        Self { inputs: Inputs::Gathered(BatchInputs::new(map, examples.features, &rows)), targets, local }
    }

    /// As [`Batch::labelled`], of rows that the engine [holds](Engine::hold).
    pub fn of_held(supply: &LocalSupply, examples: Examples, positions: &[u32]) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| examples.rows[position as usize]).collect();
        let targets = SparseRows::ones(rows.iter().map(|&row| examples.labels.row(row as usize)));
        let local = supply.of(positions, &targets, examples.labels.cols);
        Self { inputs: Inputs::Held(rows), targets, local }
    }

    /// A batch whose labels are not known.
    pub fn unlabelled(
        map: &FeatureMap,
        supply: &LocalSupply,
        unlabelled: Unlabelled,
        positions: &[u32],
        labels: usize,
    ) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| unlabelled.rows[position as usize]).collect();
        let targets = SparseRows::default();
        let local = supply.of(positions, &targets, labels);
        Self { inputs: Inputs::Gathered(BatchInputs::new(map, unlabelled.features, &rows)), targets, local }
    }
}

/// What a batch is scored: above zero, a label is predicted.
#[derive(Default)]
pub struct Scores {
    pub rows: usize,
    /// Label-major, `stride` values per label.
    pub stride: usize,
    pub values: Buffer,
}

impl Scores {
    pub fn labels(&self) -> usize {
        self.values.len() / self.stride
    }

    /// The scores of one label for all rows.
    pub fn of_label(&self, label: usize) -> &[f32] {
        &self.values[label * self.stride..][..self.rows]
    }

    /// The predicted labels of each row, ascending.
    pub fn predicted(&self) -> Vec<Vec<u32>> {
        let mut predicted = vec![Vec::new(); self.rows];
        for label in 0..self.labels() {
            for (row, &score) in self.of_label(label).iter().enumerate() {
                if score > 0.0 {
                    predicted[row].push(label as u32);
                }
            }
        }
        predicted
    }

    pub fn score(&self, row: usize, label: usize) -> f32 {
        self.of_label(label)[row]
    }
}

/// What the scores of a batch are made of. Label-major, `stride` values per label.
#[derive(Default)]
pub struct Parts {
    pub rows: usize,
    pub stride: usize,
    pub logits: Buffer,
    /// Eq. 2, or the logits as they are.
    pub standardised: Buffer,
    /// Eq. 1.
    pub thresholds: Buffer,
}

impl Parts {
    pub fn resize(&mut self, labels: usize, rows: usize, stride: usize) {
        (self.rows, self.stride) = (rows, stride);
        for part in [&mut self.logits, &mut self.standardised, &mut self.thresholds] {
            part.resize(labels * stride);
        }
    }
}

pub trait Engine {
    fn labels(&self) -> usize;
    /// Keeps the features of all training rows, if that is of use to this engine and they fit; then it
    /// takes batches of [`Inputs::Held`].
    fn hold(&mut self, map: &FeatureMap, features: &Csr) -> bool {
        let _ = (map, features);
        false
    }
    /// One step of training. `step` counts from 0 over the whole run and names the dropout draws.
    fn step(&mut self, batch: &Batch, lr: f64, step: u64) -> Result<LossValue, tch::TchError>;
    fn scores(&mut self, batch: &Batch, scores: &mut Scores) -> Result<(), tch::TchError>;
    /// [`Engine::scores`] are the standardised logits less the thresholds of these, to the bit.
    fn parts(&mut self, batch: &Batch, parts: &mut Parts) -> Result<(), tch::TchError>;
    /// Borrowed where it lies in memory already, else brought over from the device.
    fn state(&self) -> Result<std::borrow::Cow<'_, State>, tch::TchError>;
    fn restore(&mut self, state: State) -> Result<(), tch::TchError>;
    fn into_state(self: Box<Self>) -> Result<State, tch::TchError>;
}
