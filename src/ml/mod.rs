//! The science. Imports nothing of the runner.

pub mod config;
pub mod data;
pub mod history;
pub mod metric;
pub mod signal;
pub mod threshold;

#[cfg(test)]
mod golden;
