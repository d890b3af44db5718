//! The science. Imports nothing of the runner.

pub mod config;
pub mod data;
pub mod engine;
pub mod loss;
pub mod metric;
pub mod model;
pub mod net;
pub mod optim;
pub mod signal;
pub mod threshold;
pub mod train;

#[cfg(test)]
mod golden;
