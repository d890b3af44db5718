//! The parameters of the local signal, in training and in prediction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of the local signal KNN_l(x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalSignal {
    /// Eqs. 4-6 over the true labels of the batch, as in the paper. In prediction this needs the labels of the
    /// predicted rows, so only the oracle protocol allows it.
    BatchLabels,
    /// The labels of the nearest training rows by cosine similarity of the features.
    TrainNeighbours,
    /// Eqs. 4-6 with the model's own probabilities in place of the labels.
    Predicted,
    /// A neighbourhood that is learned together with the network: soft assignment to prototypes, each with a share of
    /// every label. It is the same in training and prediction.
    Prototypes,
    None,
}

/// How the labels of the nearest training rows are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    Uniform,
    /// Weighted by the square of the cosine.
    CosineSquared,
}

settings! {
    /// The parameters of the local signal.
    SignalConfig / SignalChanges {
        train: LocalSignal,
        predict: LocalSignal,
        /// Whether the labels of a row itself are left out of eqs. 4-6; the paper includes them.
        leave_self_out: bool,
        /// The number of neighbours that `train-neighbours` uses.
        neighbours: usize,
        weighting: Weighting,
        /// The number of prototypes that `prototypes` learns.
        #[serde(default, skip_serializing_if = "super::is_default")]
        prototypes: usize,
        /// The number of a row's largest probabilities that `predicted` keeps.
        predicted_labels: usize,
        /// The small number that is added to the denominator of eq. 5.
        eps: f64,
    }
}
