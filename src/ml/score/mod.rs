//! Scores of training rows, each made without that row's own label. They are what fusion and cuts are fitted
//! on: whatever is fitted on scores that have seen the answer promises more than it can keep.

pub mod candidates;
pub mod table;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a score means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// A fit of 0 and 1 by least squares, which may lie outside of both.
    Response,
    /// A share of neighbours, from 0 to 1; most are 0.
    Share,
    LogOdds,
}

/// How it came that no score has seen its row's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Made {
    LeaveOneOut {},
    OutOfFold {
        folds: usize,
    },
    /// From other tables, whose scores have not seen the labels either.
    Fused {},
}
