//! The science. Imports nothing of the runner.

pub mod artifacts;
pub mod composite;
pub mod config;
pub mod data;
pub mod explanation;
pub mod fusion;
pub mod history;
pub mod metric;
pub mod score;
pub mod signal;
pub mod softplus;
pub mod threshold;

#[cfg(test)]
mod golden;
