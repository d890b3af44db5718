//! The science. Imports nothing of the runner.

pub mod config;
pub mod data;
pub mod signal;
