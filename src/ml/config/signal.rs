//! The parameters of the local signal, in training and in prediction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of the local signal KNN_l(x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalSignal {
    /// Eqs. 4-6 over the true labels of the batch: the paper's. In prediction this needs the
    /// labels of the rows that are to be predicted, and is refused outside the oracle path.
    BatchLabels,
    /// The labels of the nearest training rows by cosine of the features.
    TrainNeighbours,
    /// Eqs. 4-6 with the model's own probabilities in place of the labels.
    Predicted,
    None,
}

/// How the labels of the nearest training rows are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    Uniform,
    /// By the square of the cosine.
    CosineSquared,
}

settings! {
    /// The local signal.
    SignalConfig / SignalChanges {
        train: LocalSignal,
        predict: LocalSignal,
        /// Leave a row's own labels out of eqs. 4-6; the paper has them in.
        leave_self_out: bool,
        /// How many neighbours `train-neighbours` looks for.
        neighbours: usize,
        weighting: Weighting,
        /// How many of a row's largest probabilities `predicted` keeps.
        predicted_labels: usize,
        /// The small number below the line of eq. 5.
        eps: f64,
    }
}
