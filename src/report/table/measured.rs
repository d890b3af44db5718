//! One evaluation record, and where it stands in the experiment.

use pipe_core::digest::BlobId;
use pipe_ml::metric::marked::Protocol;
use pipe_ml::metric::record::Record;

/// Beside the axes of the matrix, records can be told apart by these.
pub const PROTOCOL: &str = "protocol";
pub const PART: &str = "part";
/// The axis of a fan-in over several stages.
pub const STAGE: &str = "stage";

#[derive(Debug, Clone)]
pub struct Measured {
    /// Axes and their values, in the order of the axes.
    pub axes: Vec<(String, String)>,
    pub blob: BlobId,
    pub record: Record,
}

impl Measured {
    /// The value on an axis. An axis of the matrix goes before the record's own properties.
    pub fn on(&self, axis: &str) -> Option<&str> {
        let written = self.axes.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str());
        written.or(match axis {
            PROTOCOL => Some(protocol_name(self.record.protocol())),
            PART => Some(self.record.part.name()),
            _ => None,
        })
    }
}

pub fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Honest => "honest",
        Protocol::Oracle => "oracle",
    }
}
