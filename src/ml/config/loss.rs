//! The parameters of the loss, eqs. 2, 3 and 7.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::PosWeight;

/// How the terms of the B x L elements become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    Sum,
    /// Over all B x L elements.
    Mean,
    /// Eq. 3: the sum over labels, averaged over the rows of the batch.
    SumLabelsMeanBatch,
}

impl Reduction {
    /// Returns the factor of the term of each element.
    pub fn factor(self, rows: usize, labels: usize) -> f64 {
        match self {
            Self::Sum => 1.0,
            Self::Mean => 1.0 / (rows * labels) as f64,
            Self::SumLabelsMeanBatch => 1.0 / rows as f64,
        }
    }
}

settings! {
    /// The loss.
    LossConfig / LossChanges {
        /// Standardise the logits of each row first, eq. 2.
        standardise: bool,
        /// The small number added to the standard deviation in eq. 2.
        standardise_eps: f64,
        /// lambda_m, the weight of the margin loss.
        margin_weight: f64,
        /// Delta of eq. 7.
        margin: f64,
        /// A number, `sqrt` or `log` of the class ratio per label, or `none`.
        pos_weight: PosWeight,
        reduction: Reduction,
    }
}
