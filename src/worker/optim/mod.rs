//! Optimisers of the CPU engine.
//!
//! They are written by hand because they work on the engine's own memory and because `lazy-adamw` updates only the
//! rows of the input layer that occur in a batch; see [`crate::engine::cpu`] for the measurements.

pub mod adamw;
mod deferred;
pub mod optimiser;
pub mod table;

#[cfg(test)]
mod golden_tests;
