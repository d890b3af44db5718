//! The acyclic graph of instances, the parts of their keys, and the reasons why instances have to run. Reads no files.

pub mod graph;
pub mod key;
#[cfg(test)]
pub(crate) mod sample;
pub mod shorten;
pub mod why;

pub use graph::Plan;
pub use why::{Change, Why};
