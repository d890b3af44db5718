//! The parameters of the optimiser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::Limit;

/// An optimisation algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserKind {
    /// AdamW exactly as PyTorch computes it.
    Adamw,
    /// AdamW that updates a row of the input layer only for batches that contain its feature, without decay or momentum
    /// in between. It is much faster with many features, but not the same algorithm.
    LazyAdamw,
    Sgd,
}

settings! {
    /// The parameters of the optimiser.
    OptimiserConfig / OptimiserChanges {
        kind: OptimiserKind,
        /// The learning rate.
        lr: f64,
        /// The decay of the mean of the gradient.
        beta1: f64,
        /// The decay of the mean of the squared gradient.
        beta2: f64,
        /// The constant that is added to the root of the mean of the squared gradient.
        eps: f64,
        /// Decoupled weight decay of all parameters, including the thresholds.
        weight_decay: f64,
        /// The norm to which the gradient of all parameters together is clipped, or `none`.
        clip: Limit,
    }
}
