//! The jobs of `pipe predict` and `pipe explain`. [`crate::judge`] runs them; no pipeline contains them, and their results
//! are not cached.

use serde::{Deserialize, Serialize};

use pipe_core::artifact::PlainFile;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::JobBody;
use pipe_ml::artifacts::ModelDirectory;
use pipe_ml::config::device::Device;
use pipe_ml::config::signal::LocalSignal;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::transform::NewRows;
use pipe_ml::explanation::Explanation;
use pipe_ml::explanation::cut::CutRule;

/// The model of a job, of any kind.
pub const MODEL: Slot<ModelDirectory> = Slot::new("model");
/// The data set that the model was fitted on.
pub const DATA: Slot<SplitData> = Slot::new("data");
/// A file of new rows.
pub const ROWS: Slot<PlainFile> = Slot::new("rows");

/// The job of `pipe predict`: reads [`MODEL`], [`DATA`] and [`ROWS`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predict {
    pub format: PredictionFormat,
    /// Lists this many of the best labels of each row, predicted or not; the predicted labels unless stated.
    pub top: Option<usize>,
    pub read: NewRows,
    pub signal: Option<LocalSignal>,
    pub device: Device,
}

impl Predict {
    /// The predicted labels.
    pub const PREDICTIONS: Out<PlainFile> = Out::new("predictions", "predictions");
}

impl JobBody for Predict {
    const KIND: &'static str = "predict";
}

/// The format of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictionFormat {
    /// One JSON object per row.
    Jsonl,
    /// One line per row and label.
    Csv,
}

/// The job of `pipe explain`: reads [`MODEL`], [`DATA`] and, if given, [`ROWS`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    pub row: usize,
    /// The part of the data set that contains the row, unless there are [`ROWS`].
    pub part: PartName,
    /// The name or number of a label; the predicted labels and the best few others unless stated.
    pub label: Option<String>,
    /// The rule that made the model's cuts, if the stage that did it is known.
    pub cut: Option<CutRule>,
    pub read: NewRows,
    pub signal: Option<LocalSignal>,
    pub device: Device,
}

impl Explain {
    /// The explanation.
    pub const EXPLANATION: Out<Explanation> = Out::new("explanation", "explanation.json");
}

impl JobBody for Explain {
    const KIND: &'static str = "explain";
}
