//! The science. Imports nothing of the runner.

pub mod config;
pub mod data;
pub mod loss;
pub mod net;
pub mod optim;
pub mod signal;

#[cfg(test)]
mod golden;
