//! The parameters of the optimiser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::Limit;

/// An optimisation algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum OptimiserKind {
    /// AdamW exactly as PyTorch computes it.
    Adamw,
    /// AdamW, but a row of the input layer is touched only by batches that have its feature: no
    /// decay and no momentum in between. Much faster with many features; not the same algorithm.
    LazyAdamw,
    Sgd,
}

settings! {
    /// The optimiser.
    OptimiserConfig / OptimiserChanges {
        kind: OptimiserKind,
        lr: f64,
        beta1: f64,
        beta2: f64,
        eps: f64,
        /// Decoupled weight decay, on every parameter, thresholds included.
        weight_decay: f64,
        /// The largest norm of all gradients together, or `none`.
        clip: Limit,
    }
}
