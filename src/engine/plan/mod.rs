//! The sealed graph of instances, the ingredients of their keys, and why something has to run. Pure.

pub mod graph;
pub mod key;
#[cfg(test)]
pub(crate) mod sample;
pub mod why;

pub use graph::{Cycle, Plan};
pub use why::{Change, Why};
