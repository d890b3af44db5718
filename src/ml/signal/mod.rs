//! The two signals behind a threshold: how rare a label is in the training rows (global), and how
//! common it is among rows like this one (local). Everything is sparse; nothing needs libtorch.

pub mod batch;
pub mod dot_index;
pub mod idf;
pub mod neighbours;
pub mod propagate;
pub mod sparse_rows;
pub mod supply;

#[cfg(test)]
mod golden_tests;
