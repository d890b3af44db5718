//! The parameters of the learned thresholds, eq. 1: theta = lambda · alpha · global + (1 - lambda) · beta ·
//! local + bias, and its variants.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::Init;

/// The signals that the thresholds use. A signal that is not used counts as zero, and the factors lambda and (1 -
/// lambda) remain, as in the released code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    Adaptive,
    KnnOnly,
    IdfOnly,
    /// No learned thresholds: theta is 0.5 for all labels.
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

/// The source of the global signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GlobalSignal {
    /// The rarity of the label in the training rows, eq. 8.
    Idf,
    /// The salience of the label for the row, times its rarity: the cosine of the row and the sum of the training rows
    /// that have the label. A training row itself is left out of the sum.
    Salience,
    /// What the released code calls tf-idf: one over the number of the row's true labels for each of these labels, and
    /// 0 for the others. It depends on the true labels, so in prediction it is 0 except under the oracle protocol.
    OwnLabels,
}

/// The function that limits the range of thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Squash {
    None,
    Sigmoid,
}

settings! {
    /// The parameters of the thresholds.
    ThresholdConfig / ThresholdChanges {
        global: GlobalSignal,
        squash: Squash,
        /// The initial value of the effective lambda.
        lambda_init: f64,
        /// Whether each label has its own lambda.
        lambda_per_label: bool,
        /// Whether the weight of the local signal shrinks where the nearest training rows are far away, so that the
        /// threshold falls back to the global signal. The default is no.
        #[serde(default, skip_serializing_if = "super::is_default")]
        fallback: bool,
        /// Whether lambda is learned through a sigmoid, so that it stays between 0 and 1.
        lambda_sigmoid: bool,
        /// The initial value of alpha: a number, or `normal` for draws from N(0, 1).
        alpha_init: Init,
        /// The initial value of beta, like that of alpha.
        beta_init: Init,
        /// The initial value of the bias, like that of alpha.
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
