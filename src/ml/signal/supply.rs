//! Where the local signal of each batch comes from, prepared once for many batches.

use super::neighbours::{NeighbourIndex, Neighbours};
use super::propagate::propagate;
use super::sparse_rows::SparseRows;
use crate::config::signal::{LocalSignal, SignalConfig};
use crate::data::csr::Csr;
use crate::data::examples::{Examples, Unlabelled};

/// The local signal of a batch, or the order to make it from the model's own probabilities.
pub enum Local {
    Rows(SparseRows),
    Predicted,
}

pub enum LocalSupply<'a> {
    None,
    /// Eqs. 4-6 over the true labels of the batch.
    BatchLabels(SignalConfig),
    /// The labels of each row's neighbours among the training rows.
    Neighbours {
        found: Neighbours,
        labels: &'a Csr,
    },
    Predicted,
}

impl<'a> LocalSupply<'a> {
    /// For the training rows themselves, none of which is its own neighbour.
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

    /// For other rows. `BatchLabels` makes sense only to a caller that has their labels.
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

    /// The neighbours of `rows` among the training rows.
    pub fn neighbours(config: &SignalConfig, train: Examples<'a>, rows: Unlabelled) -> Self {
        let index = NeighbourIndex::new(train.features, train.rows);
        let found = index.of(rows.features, rows.rows, config.neighbours, config.weighting);
        Self::Neighbours { found, labels: train.labels }
    }

    /// The local signal of a batch: `positions` say which rows of the supply's it has.
    pub fn of(&self, positions: &[u32], targets: &SparseRows, labels: usize) -> Local {
        match self {
            Self::None => Local::Rows(SparseRows::empty(positions.len())),
            Self::Predicted => Local::Predicted,
            Self::BatchLabels(config) => {
                Local::Rows(propagate(targets, labels, config.leave_self_out, config.eps))
            }
            Self::Neighbours { found, labels } => {
                Local::Rows(found.signal(positions.iter().map(|&position| position as usize), labels))
            }
        }
    }
}
