//! The science. Imports nothing of the runner.

pub mod data;
