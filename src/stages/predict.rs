//! The jobs of `pipe predict` and `pipe explain`. `pipe-worker` runs them; no pipeline names them, and nothing of
//! them is cached.

use serde::{Deserialize, Serialize};

use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::split_data::PartName;
use pipe_ml::data::transform::NewRows;
use pipe_ml::explanation::cut::CutRule;

/// Inputs `model`, `data` and `rows` (a file); output `predictions`, a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predict {
    pub format: PredictionFormat,
    /// The best so many labels of each row, predicted or not; else the predicted ones.
    pub top: Option<usize>,
    pub read: NewRows,
    pub signal: Option<LocalSignal>,
    pub device: Device,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictionFormat {
    Jsonl,
    Csv,
}

/// Inputs `model`, `data` and perhaps `rows`; output `explanation`, a
/// [`pipe_ml::explanation::Explanation`] as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    pub row: usize,
    /// Where the row is looked for unless there are `rows`.
    pub part: PartName,
    /// A name or a number; else the predicted labels and the best few others.
    pub label: Option<String>,
    /// What made the model's cuts, where the stage that did is known.
    pub cut: Option<CutRule>,
    pub read: NewRows,
    pub signal: Option<LocalSignal>,
    pub device: Device,
}

pub const PREDICT: &str = "predict";
pub const EXPLAIN: &str = "explain";
