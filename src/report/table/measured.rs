//! An evaluation record with its position in the experiment.

use std::collections::BTreeMap;

use pipe_core::digest::BlobId;
use pipe_ml::data::split_data::PartName;
use pipe_ml::metric::evaluation::Evaluation;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;

/// The axis of the protocol, which every record has beside the axes of the matrix.
pub const PROTOCOL: &str = "protocol";
/// The axis of the evaluated part, which every record has beside the axes of the matrix.
pub const PART: &str = "part";
/// The part of values that a program reports: which rows it judged is not known.
pub const EXTERNAL: &str = "external";
/// The axis of a fan-in over several stages.
pub const STAGE: &str = "stage";

/// An evaluation record with its axes.
#[derive(Debug, Clone)]
pub struct MeasuredRecord {
    /// Axes and their values, in the order of the axes.
    pub axes: Vec<(String, String)>,
    pub blob: BlobId,
    pub record: EvaluationRecord,
    /// Whether a program reported the values, so that `pipe` has not seen the decisions behind them.
    pub external: bool,
}

impl MeasuredRecord {
    /// Returns a record of values that a program reports.
    pub fn reported(axes: Vec<(String, String)>, blob: BlobId, values: BTreeMap<Metric, f64>) -> Self {
        let evaluation = Evaluation::reported(values);
        let record = EvaluationRecord { part: PartName::Test, evaluation, intervals: None };
        Self { axes, blob, record, external: true }
    }

    /// Returns the name of the evaluated part.
    pub fn part(&self) -> &'static str {
        if self.external { EXTERNAL } else { self.record.part.name() }
    }

    /// Returns the value on an axis. An axis of the matrix takes precedence over the record's own properties.
    pub fn on(&self, axis: &str) -> Option<&str> {
        let written = self.axes.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str());
        written.or(match axis {
            PROTOCOL => Some(self.record.protocol().name()),
            PART => Some(self.part()),
            _ => None,
        })
    }
}
