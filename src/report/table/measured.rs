//! An evaluation record with its position in the experiment.

use pipe_core::digest::BlobId;
use pipe_ml::metric::record::EvaluationRecord;

/// The axis of the protocol, which every record has beside the axes of the matrix.
pub const PROTOCOL: &str = "protocol";
/// The axis of the evaluated part, which every record has beside the axes of the matrix.
pub const PART: &str = "part";
/// The axis of a fan-in over several stages.
pub const STAGE: &str = "stage";

/// An evaluation record with its axes.
#[derive(Debug, Clone)]
pub struct MeasuredRecord {
    /// Axes and their values, in the order of the axes.
    pub axes: Vec<(String, String)>,
    pub blob: BlobId,
    pub record: EvaluationRecord,
}

impl MeasuredRecord {
    /// Returns the value on an axis. An axis of the matrix takes precedence over the record's own properties.
    pub fn on(&self, axis: &str) -> Option<&str> {
        let written = self.axes.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str());
        written.or(match axis {
            PROTOCOL => Some(self.record.protocol().name()),
            PART => Some(self.record.part.name()),
            _ => None,
        })
    }
}
