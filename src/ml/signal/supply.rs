//! [`SignalSupply`]: the signals of each batch, prepared once for many batches.

use std::sync::Arc;

use rayon::prelude::*;

use super::idf::Idf;
use super::neighbours::{NeighbourIndex, Neighbours};
use super::propagate::propagate;
use super::salience::LabelCentroids;
use super::sparse_rows::SparseRows;
use crate::config::method::Method;
use crate::config::signal::{LocalSignal, SignalConfig};
use crate::data::csr::Csr;
use crate::data::examples::{Examples, Unlabelled};

/// The local signal of a batch, or the instruction to compute it from the probabilities or the prototypes of the model.
pub enum LocalSignalBatch {
    Rows(SparseRows),
    Predicted,
    Prototypes,
}

/// The signals of a batch that differ between its rows.
pub struct SignalBatch {
    pub local: LocalSignalBatch,
    /// The salience of the labels times their IDF, or no rows at all if the thresholds do not use it.
    pub salience: SparseRows,
    /// c(x) of each row, or nothing if the thresholds do not fall back.
    pub density: Vec<f64>,
}

impl From<LocalSignalBatch> for SignalBatch {
    fn from(local: LocalSignalBatch) -> Self {
        Self { local, salience: SparseRows::default(), density: Vec::new() }
    }
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
        /// The density that counts as one, if the thresholds fall back.
        full_density: Option<f64>,
    },
    Predicted,
    Prototypes,
}

/// The prepared source of the salience of labels for rows.
pub struct SalienceSupply<'a> {
    pub centroids: Arc<LabelCentroids>,
    pub idf: &'a Idf,
    pub rows: Unlabelled<'a>,
    /// The labels of these rows if they are training rows, which are left out of their own centroids.
    pub own: Option<&'a Csr>,
}

/// The prepared source of all signals.
pub struct SignalSupply<'a> {
    pub local: LocalSupply<'a>,
    pub salience: Option<SalienceSupply<'a>>,
}

impl<'a> From<LocalSupply<'a>> for SignalSupply<'a> {
    fn from(local: LocalSupply<'a>) -> Self {
        Self { local, salience: None }
    }
}

impl<'a> SignalSupply<'a> {
    /// Prepares the signals of the training rows. A row is never its own neighbour.
    pub fn in_training(method: &Method, idf: &'a Idf, train: Examples<'a>) -> Self {
        let config = &method.signal;
        let local = match method.local_in_training() {
            LocalSignal::None => LocalSupply::None,
            LocalSignal::BatchLabels => LocalSupply::BatchLabels(config.clone()),
            LocalSignal::Predicted => LocalSupply::Predicted,
            LocalSignal::Prototypes => LocalSupply::Prototypes,
            LocalSignal::TrainNeighbours => {
                let index = NeighbourIndex::new(train.features, train.rows);
                let found = index.of_own_rows(config.neighbours, config.weighting);
                let full_density = method.threshold.fallback.then(|| found.mean_density());
                LocalSupply::Neighbours { found, labels: train.labels, full_density }
            }
        };
        let salience = method.uses_salience().then(|| SalienceSupply {
            centroids: Arc::new(LabelCentroids::new(train)),
            idf,
            rows: train.unlabelled(),
            own: Some(train.labels),
        });
        Self { local, salience }
    }

    /// Returns the density of a neighbourhood that counts as one: the mean over the training rows.
    pub fn full_density(&self) -> Option<f64> {
        match self.local {
            LocalSupply::Neighbours { full_density, .. } => full_density,
            _ => None,
        }
    }

    /// Returns the signals of a batch, which has the rows at `positions` of the prepared rows.
    pub fn of(&self, positions: &[u32], targets: &SparseRows, labels: usize) -> SignalBatch {
        let queries = || positions.iter().map(|&position| position as usize);
        let (mut density, mut salience) = (Vec::new(), SparseRows::default());
        let local = match &self.local {
            LocalSupply::None => LocalSignalBatch::Rows(SparseRows::empty(positions.len())),
            LocalSupply::Predicted => LocalSignalBatch::Predicted,
            LocalSupply::Prototypes => LocalSignalBatch::Prototypes,
            LocalSupply::BatchLabels(config) => {
                LocalSignalBatch::Rows(propagate(targets, labels, config.leave_self_out, config.eps))
            }
            LocalSupply::Neighbours { found, labels, full_density } => {
                if let Some(full) = full_density {
                    density.extend(queries().map(|query| share_of(found.density(query), *full)));
                }
                LocalSignalBatch::Rows(found.signal(queries(), labels))
            }
        };
        if let Some(supply) = &self.salience {
            let rows: Vec<_> = positions.par_iter().map(|&position| supply.of(position as usize)).collect();
            for row in rows {
                salience.push(row);
            }
        }
        SignalBatch { local, salience, density }
    }
}

/// Returns c(x): a density as a share of the density that counts as one, at most 1.
fn share_of(density: f64, full: f64) -> f64 {
    if full > 0.0 { (density / full).min(1.0) } else { 0.0 }
}

impl SalienceSupply<'_> {
    /// Returns the salience of the labels for a row, times their IDF.
    fn of(&self, position: usize) -> Vec<(u32, f64)> {
        let row = self.rows.rows[position] as usize;
        let own = self.own.map_or(&[][..], |labels| labels.row(row));
        let found = self.centroids.of(self.rows.features, row, own);
        found.into_iter().map(|(label, cosine)| (label, cosine * self.idf.values[label as usize])).collect()
    }
}
