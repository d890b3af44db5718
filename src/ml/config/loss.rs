//! The parameters of the loss, eqs. 2, 3 and 7.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number_or_word::PosWeight;

/// How the B x L terms of the loss (rows of the batch times labels) become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    Sum,
    /// The mean over all B x L terms.
    Mean,
    /// The sum over the labels, averaged over the rows of the batch, as in eq. 3.
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
    /// The parameters of the loss.
    LossConfig / LossChanges {
        /// Whether the logits of each row are standardised first, as in eq. 2.
        standardise: bool,
        /// The small number that is added to the standard deviation in eq. 2.
        standardise_eps: f64,
        /// The weight of the margin loss, lambda_m.
        margin_weight: f64,
        /// The margin, Delta in eq. 7.
        margin: f64,
        /// How much more a positive counts than a negative: a number; `sqrt` or `log` of the ratio of negatives to
        /// positives of each label; or `none`.
        pos_weight: PosWeight,
        reduction: Reduction,
    }
}
