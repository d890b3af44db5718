//! [`SignalSource`]: the training rows from which the signals of new rows are computed.

use std::borrow::Cow;
use std::sync::Arc;

use super::idf::Idf;
use super::neighbours::NeighbourIndex;
use super::salience::LabelCentroids;
use super::supply::{LocalSupply, SalienceSupply, SignalSupply};
use crate::config::method::Method;
use crate::config::signal::LocalSignal;
use crate::data::csr::Csr;
use crate::data::examples::{Examples, Unlabelled};

/// Training rows, borrowed or owned.
pub struct TrainingRows<'a> {
    pub features: Cow<'a, Csr>,
    pub labels: Cow<'a, Csr>,
    pub rows: Cow<'a, [u32]>,
}

impl<'a> From<Examples<'a>> for TrainingRows<'a> {
    fn from(train: Examples<'a>) -> Self {
        let Examples { features, labels, rows } = train;
        Self { features: Cow::Borrowed(features), labels: Cow::Borrowed(labels), rows: Cow::Borrowed(rows) }
    }
}

/// The signals of new rows, with what they need of the training rows.
pub struct SignalSource<'a> {
    local: LocalSignal,
    /// The rows among which neighbours are found, and their labels.
    neighbours: Option<(NeighbourIndex<'a>, Cow<'a, Csr>)>,
    centroids: Option<Arc<LabelCentroids>>,
}

impl<'a> SignalSource<'a> {
    /// Prepares a local signal, and the salience of labels if the method uses it. Returns `None` if they need the training
    /// rows and these are not given.
    pub fn new(method: &Method, local: LocalSignal, train: Option<TrainingRows<'a>>) -> Option<Self> {
        let Some(train) = train.filter(|_| method.needs_training_rows(local)) else {
            let is_complete = !method.needs_training_rows(local);
            return is_complete.then_some(Self { local, neighbours: None, centroids: None });
        };
        let examples = Examples { features: &train.features, labels: &train.labels, rows: &train.rows };
        let centroids = method.uses_salience().then(|| Arc::new(LabelCentroids::new(examples)));
        let neighbours = (local == LocalSignal::TrainNeighbours)
            .then(|| (NeighbourIndex::build(train.features, train.rows), train.labels));
        Some(Self { local, neighbours, centroids })
    }

    /// Returns the local signal.
    pub fn local(&self) -> LocalSignal {
        self.local
    }

    /// Returns the rows among which neighbours are found, and their labels.
    pub fn neighbours(&self) -> Option<(&NeighbourIndex<'a>, &Csr)> {
        self.neighbours.as_ref().map(|(index, labels)| (index, &**labels))
    }

    /// Prepares the signals of some rows. `full_density` is that of [`SignalSupply::full_density`] in training.
    pub fn supply<'b>(
        &'b self,
        method: &Method,
        idf: &'b Idf,
        full_density: Option<f64>,
        rows: Unlabelled<'b>,
    ) -> SignalSupply<'b> {
        let config = &method.signal;
        let local = match (self.local, &self.neighbours) {
            (LocalSignal::TrainNeighbours, Some((index, labels))) => {
                let found = index.of(rows.features, rows.rows, config.neighbours, config.weighting);
                LocalSupply::Neighbours { found, labels, full_density }
            }
            (LocalSignal::BatchLabels, _) => LocalSupply::BatchLabels(config.clone()),
            (LocalSignal::Predicted, _) => LocalSupply::Predicted,
            (LocalSignal::Prototypes, _) => LocalSupply::Prototypes,
            (LocalSignal::None | LocalSignal::TrainNeighbours, _) => LocalSupply::None,
        };
        let salience = self.centroids.as_ref().map(|centroids| SalienceSupply {
            centroids: Arc::clone(centroids),
            idf,
            rows,
            own: None,
        });
        SignalSupply { local, salience }
    }
}
