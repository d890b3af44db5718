//! The science. Imports nothing of the runner.

pub mod data;
pub mod metric;
pub mod threshold;
