//! Scores of training rows, each made without the labels of its own row.
//!
//! Fusion and cuts are fitted on these scores. If the scores had seen the labels, everything fitted on them would be
//! overconfident.

pub mod candidates;
pub mod table;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a score means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScoreScale {
    /// A fit of 0 and 1 by least squares, which may lie outside of both.
    Response,
    /// A share of training rows, from 0 to 1; most are 0.
    Share,
    LogOdds,
    /// A probability that is not calibrated; 0 for labels that were not found.
    Probability,
}

/// How the scores were made without the labels of their own rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScoreOrigin {
    LeaveOneOut {},
    /// By the trees that did not draw the row.
    OutOfBag {},
    OutOfFold {
        folds: usize,
    },
    /// Computed from other tables, whose scores have not seen the labels either.
    Fused {},
}
