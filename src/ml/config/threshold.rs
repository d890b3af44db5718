//! The parameters of the learned thresholds, eq. 1: theta = lambda · alpha · global + (1 - lambda) · beta ·
//! local + bias.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::Init;

/// Which signals take part. A signal that is left out counts as zero; the factors lambda and
/// (1 - lambda) stay, as in the released code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    Adaptive,
    KnnOnly,
    IdfOnly,
    /// No learned threshold: theta = 0.5 everywhere.
    Static,
}

impl Variant {
    /// Returns whether the thresholds use the global signal.
    pub fn uses_global(self) -> bool {
        matches!(self, Self::Adaptive | Self::IdfOnly)
    }

    /// Returns whether the thresholds use the local signal.
    pub fn uses_local(self) -> bool {
        matches!(self, Self::Adaptive | Self::KnnOnly)
    }

    /// Returns whether the thresholds are learned.
    pub fn learns(self) -> bool {
        self != Self::Static
    }
}

/// The global signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GlobalSignal {
    /// Rarity of the label in the training rows, eq. 8.
    Idf,
    /// What the released code calls tf-idf: each true label of the row itself gets one over their
    /// number. It knows the answer, so that in prediction it is zero except on the oracle path.
    OwnLabels,
}

/// The function that limits the range of thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(description = "")]
pub enum Squash {
    None,
    Sigmoid,
}

settings! {
    /// The thresholds.
    ThresholdConfig / ThresholdChanges {
        global: GlobalSignal,
        squash: Squash,
        /// Where the effective lambda starts.
        lambda_init: f64,
        /// One lambda for each label instead of one for all.
        lambda_per_label: bool,
        /// Learn lambda through a sigmoid, so that it stays between 0 and 1.
        lambda_sigmoid: bool,
        /// A number, or `normal` for draws from N(0, 1).
        alpha_init: Init,
        beta_init: Init,
        bias_init: Init,
    }
}

impl ThresholdConfig {
    /// Returns the number of lambdas.
    pub fn lambdas(&self, labels: usize) -> usize {
        if self.lambda_per_label { labels } else { 1 }
    }

    /// Returns the number of learnable parameters of the thresholds.
    pub fn parameters(&self, labels: usize) -> usize {
        3 * labels + self.lambdas(labels)
    }
}
