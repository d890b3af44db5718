//! [`LocalSupply`]: the local signal of each batch, prepared once for many batches.

use super::neighbours::{NeighbourIndex, Neighbours};
use super::propagate::propagate;
use super::sparse_rows::SparseRows;
use crate::config::signal::{LocalSignal, SignalConfig};
use crate::data::csr::Csr;
use crate::data::examples::{Examples, Unlabelled};

/// The local signal of a batch, or the instruction to compute it from the probabilities of the model.
pub enum LocalSignalBatch {
    Rows(SparseRows),
    Predicted,
}

/// The prepared source of the local signal.
pub enum LocalSupply<'a> {
    None,
    /// Eqs. 4-6 over the true labels of the batch.
    BatchLabels(SignalConfig),
    /// The labels of the nearest training rows of each row.
    Neighbours {
        found: Neighbours,
        labels: &'a Csr,
    },
    Predicted,
}

impl<'a> LocalSupply<'a> {
    /// Prepares the signal of the training rows. A row is never its own neighbour.
    pub fn in_training(signal: LocalSignal, config: &SignalConfig, train: Examples<'a>) -> Self {
        match signal {
            LocalSignal::None => Self::None,
            LocalSignal::BatchLabels => Self::BatchLabels(config.clone()),
            LocalSignal::Predicted => Self::Predicted,
            LocalSignal::TrainNeighbours => {
                let index = NeighbourIndex::new(train.features, train.rows);
                let found = index.of_own_rows(config.neighbours, config.weighting);
                Self::Neighbours { found, labels: train.labels }
            }
        }
    }

    /// Prepares the signal of other rows. `BatchLabels` can be used only if their labels are known.
    pub fn in_prediction(
        signal: LocalSignal,
        config: &SignalConfig,
        train: Examples<'a>,
        rows: Unlabelled,
    ) -> Self {
        match signal {
            LocalSignal::TrainNeighbours => Self::neighbours(config, train, rows),
            other => Self::in_training(other, config, train),
        }
    }

    /// Finds the neighbours of `rows` among the training rows.
    pub fn neighbours(config: &SignalConfig, train: Examples<'a>, rows: Unlabelled) -> Self {
        let index = NeighbourIndex::new(train.features, train.rows);
        let found = index.of(rows.features, rows.rows, config.neighbours, config.weighting);
        Self::Neighbours { found, labels: train.labels }
    }

    /// Returns the local signal of a batch, which has the rows at `positions` of the prepared rows.
    pub fn of(&self, positions: &[u32], targets: &SparseRows, labels: usize) -> LocalSignalBatch {
        match self {
            Self::None => LocalSignalBatch::Rows(SparseRows::empty(positions.len())),
            Self::Predicted => LocalSignalBatch::Predicted,
            Self::BatchLabels(config) => {
                LocalSignalBatch::Rows(propagate(targets, labels, config.leave_self_out, config.eps))
            }
            Self::Neighbours { found, labels } => LocalSignalBatch::Rows(
                found.signal(positions.iter().map(|&position| position as usize), labels),
            ),
        }
    }
}
