//! The parameters of the network: a sparse input layer, hidden layers, one output per label.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::BiasInit;

settings! {
    /// The parameters of the network.
    NetConfig / NetChanges {
        /// The widths of the hidden layers; empty for a linear model.
        hidden: Vec<usize>,
        activation: Activation,
        /// The share of hidden activations that are set to zero in training.
        dropout: f64,
        /// The features that reach the input layer.
        features: Features,
        /// The number of inputs with `cut` and `hash`. A data set with fewer features keeps them all.
        feature_count: usize,
        /// The initial bias of the output layer: a number, or `layer` to draw it like the weights of the layer.
        output_bias: BiasInit,
    }
}

/// The activation function of hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    Relu,
    Gelu,
}

/// Which features of the data set reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Features {
    /// Every feature has its own input.
    All,
    /// Only the features that occur in the most training rows.
    Cut,
    /// Features share inputs, by a signed hash of the feature number.
    Hash,
    /// No features, to measure what the thresholds alone achieve.
    None,
}

impl NetConfig {
    /// Returns the number of inputs of the network for a data set with `features` columns.
    pub fn inputs(&self, features: usize) -> usize {
        match self.features {
            Features::All => features,
            Features::Cut | Features::Hash => features.min(self.feature_count),
            // One input that no feature reaches, so that layers without inputs need not be handled everywhere.
            Features::None => 1,
        }
    }

    /// Returns the widths of all layers from the input to the output.
    pub fn widths(&self, features: usize, labels: usize) -> Vec<usize> {
        let mut widths = vec![self.inputs(features)];
        widths.extend(&self.hidden);
        widths.push(labels);
        widths
    }

    /// Returns the width of the last hidden layer, or the number of inputs without one.
    pub fn last_hidden(&self, features: usize) -> usize {
        self.hidden.last().copied().unwrap_or_else(|| self.inputs(features))
    }

    /// Returns the number of weights and biases of the network, without the thresholds.
    pub fn parameters(&self, features: usize, labels: usize) -> usize {
        self.widths(features, labels).windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum()
    }
}
