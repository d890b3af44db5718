//! Engines compute training steps and scores.
//!
//! [`cpu::CpuEngine`] runs on the CPU. It is written by hand because it takes a step several times faster than
//! PyTorch (docs/speed.md) and gives the same bits for any number of threads.
//! [`torch::TorchEngine`] leaves the gradients to libtorch's autograd and works on any device: it is what runs on
//! CUDA, and the reference that the CPU engine is tested against. [`device::engine`] chooses. Both engines start
//! from, and can be set back to, the same [`EngineState`].

use crate::loss::terms::LossValue;
use crate::net::buffer::Buffer;
use crate::net::features::FeatureMap;
use crate::net::input::BatchInputs;
use crate::net::weights::Weights;
use pipe_ml::config::optimiser::OptimiserKind;
use pipe_ml::data::csr::Csr;
use pipe_ml::data::examples::{Examples, Unlabelled};
use pipe_ml::signal::sparse_rows::SparseRows;
use pipe_ml::signal::supply::{SignalBatch, SignalSupply};

pub mod cpu;
pub mod device;
pub mod device_rows;
pub mod feature_bags;
pub mod pool;
pub mod predicted_signal;
pub mod score;
pub mod torch;
pub mod transfer;

/// Everything that changes during training.
#[derive(Clone)]
pub struct EngineState {
    pub weights: Weights,
    /// First and second moments; `None` for SGD.
    pub moments: Option<Box<(Weights, Weights)>>,
    /// The number of optimiser steps done.
    pub steps: u64,
}

impl EngineState {
    /// Returns the state before the first step.
    pub fn new(weights: Weights, optimiser: OptimiserKind) -> Self {
        let moments = (optimiser != OptimiserKind::Sgd).then(|| {
            let zeros = weights.zeros_like(weights.inputs);
            Box::new((zeros.clone(), zeros))
        });
        Self { weights, moments, steps: 0 }
    }
}

/// The features of a batch, or where the engine finds them.
pub enum BatchFeatures {
    /// The features themselves.
    Gathered(BatchInputs),
    /// Row numbers of the data set that the engine [holds](Engine::hold).
    Held(Vec<u32>),
}

impl BatchFeatures {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Gathered(inputs) => inputs.rows(),
            Self::Held(rows) => rows.len(),
        }
    }

    /// Returns the features, for an engine that holds no rows.
    fn gathered(&self) -> Result<&BatchInputs, tch::TchError> {
        match self {
            Self::Gathered(inputs) => Ok(inputs),
            Self::Held(_) => Err(tch::TchError::Torch("this engine holds no training rows".into())),
        }
    }
}

/// The input of an engine for one batch.
pub struct Batch {
    pub inputs: BatchFeatures,
    /// The true labels of each row, or no rows at all if the labels must not be known.
    pub targets: SparseRows,
    pub signals: SignalBatch,
}

impl Batch {
    /// Returns a batch with labels, for training or for the oracle protocol. `positions` are indices into
    /// `examples.rows`.
    pub fn labelled(map: &FeatureMap, supply: &SignalSupply, examples: Examples, positions: &[u32]) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| examples.rows[position as usize]).collect();
        let targets = SparseRows::ones(rows.iter().map(|&row| examples.labels.row(row as usize)));
        let signals = supply.of(positions, &targets, examples.labels.cols);
        Self {
            inputs: BatchFeatures::Gathered(BatchInputs::new(map, examples.features, &rows)),
            targets,
            signals,
        }
    }

    /// Prepares a batch to learn from, so that the step itself has less to do.
    pub fn for_a_step(self) -> Self {
        if let BatchFeatures::Gathered(inputs) = &self.inputs {
            inputs.groups();
        }
        self
    }

    /// Returns the same batch as [`Batch::labelled`], for an engine that [holds](Engine::hold) the rows.
    pub fn of_held(supply: &SignalSupply, examples: Examples, positions: &[u32]) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| examples.rows[position as usize]).collect();
        let targets = SparseRows::ones(rows.iter().map(|&row| examples.labels.row(row as usize)));
        let signals = supply.of(positions, &targets, examples.labels.cols);
        Self { inputs: BatchFeatures::Held(rows), targets, signals }
    }

    /// Returns a batch whose labels are not known.
    pub fn unlabelled(
        map: &FeatureMap,
        supply: &SignalSupply,
        unlabelled: Unlabelled,
        positions: &[u32],
        labels: usize,
    ) -> Self {
        let rows: Vec<u32> = positions.iter().map(|&position| unlabelled.rows[position as usize]).collect();
        let targets = SparseRows::default();
        let signals = supply.of(positions, &targets, labels);
        Self {
            inputs: BatchFeatures::Gathered(BatchInputs::new(map, unlabelled.features, &rows)),
            targets,
            signals,
        }
    }
}

/// The scores of a batch: standardised logits less thresholds. A label is predicted if its score is above zero.
#[derive(Default)]
pub struct BatchScores {
    pub rows: usize,
    /// Label-major, `stride` values per label.
    pub stride: usize,
    pub values: Buffer,
}

impl BatchScores {
    /// Returns the number of labels.
    pub fn labels(&self) -> usize {
        self.values.len() / self.stride
    }

    /// Returns the scores of one label for all rows.
    pub fn of_label(&self, label: usize) -> &[f32] {
        &self.values[label * self.stride..][..self.rows]
    }

    /// Returns the predicted labels of each row, ascending.
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

    /// Returns the score of a row for a label.
    pub fn score(&self, row: usize, label: usize) -> f32 {
        self.of_label(label)[row]
    }
}

/// The parts of the scores of a batch. Label-major, `stride` values per label.
#[derive(Default)]
pub struct ScoreParts {
    pub rows: usize,
    pub stride: usize,
    /// Whether the logits are wanted as well. Only explanations show them.
    pub with_logits: bool,
    pub logits: Buffer,
    /// The standardised logits (eq. 2), or the logits themselves if the method does not standardise.
    pub standardised: Buffer,
    /// The thresholds (eq. 1).
    pub thresholds: Buffer,
}

impl ScoreParts {
    /// Changes the size; the values are unspecified afterwards.
    pub fn resize(&mut self, labels: usize, rows: usize, stride: usize) {
        (self.rows, self.stride) = (rows, stride);
        self.logits.resize(if self.with_logits { labels * stride } else { 0 });
        self.standardised.resize(labels * stride);
        self.thresholds.resize(labels * stride);
    }
}

/// Computes training steps and scores of one model.
pub trait Engine {
    /// Returns the number of labels.
    fn labels(&self) -> usize;

    /// Keeps the features of all training rows, if that helps this engine and they fit into memory. Returns whether
    /// it does; then the engine accepts batches of [`BatchFeatures::Held`].
    fn hold(&mut self, map: &FeatureMap, features: &Csr) -> bool {
        let _ = (map, features);
        false
    }

    /// Takes one training step and adds the loss before it, times the rows of the batch, to the sum of the losses.
    /// `step` counts from 0 over the whole run and identifies the dropout draws.
    fn step(&mut self, batch: &Batch, lr: f64, step: u64) -> Result<(), tch::TchError>;

    /// Returns the sum of the losses. On a GPU, this waits until all steps are done.
    fn loss_sum(&self) -> Result<LossValue, tch::TchError>;

    /// Sets the sum of the losses: to zero for a new epoch, or to that of a checkpoint.
    fn set_loss_sum(&mut self, sum: LossValue) -> Result<(), tch::TchError>;

    /// Returns whether results can be read after every step without making the device wait for the host.
    fn is_in_host_memory(&self) -> bool;

    /// Computes the scores of a batch.
    fn scores(&mut self, batch: &Batch, scores: &mut BatchScores) -> Result<(), tch::TchError>;

    /// Computes the parts of the scores of a batch. The result of [`Engine::scores`] equals their standardised
    /// logits less their thresholds, to the bit.
    fn score_parts(&mut self, batch: &Batch, parts: &mut ScoreParts) -> Result<(), tch::TchError>;

    /// Completes work that a step has left for later, so that [`Engine::state`] need not copy the state to do so.
    fn settle(&mut self) {}

    /// Returns the state: borrowed if it is complete and in host memory, otherwise copied.
    fn state(&self) -> Result<std::borrow::Cow<'_, EngineState>, tch::TchError>;

    /// Continues from another state.
    fn restore(&mut self, state: EngineState) -> Result<(), tch::TchError>;

    /// Returns the state and ends the engine.
    fn into_state(self: Box<Self>) -> Result<EngineState, tch::TchError>;
}
