//! The two signals behind a learned threshold: the rarity of a label in the training rows (global, [`idf`],
//! and [`salience`] for a row) and its frequency among similar rows (local, [`neighbours`] and [`propagate`]). All computations are
//! sparse.

pub mod batch;
pub mod dot_index;
pub mod idf;
pub mod neighbours;
pub mod propagate;
pub mod salience;
pub mod source;
pub mod sparse_rows;
pub mod supply;

#[cfg(test)]
mod golden_tests;
