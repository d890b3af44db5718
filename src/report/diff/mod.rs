//! The differences between two states of a pipeline: parameters, metrics and outputs.

mod difference;
mod page;
mod snapshot;

pub use difference::{
    CellChange, Difference, MetricChange, MetricVerdict, OutputChange, ParamChange, PrintedChange,
    StageDifference,
};
pub use page::{FigurePair, page};
pub use snapshot::{Cell, Snapshot, StageSnapshot, cells};
