//! Optimisers over the parameters on the CPU.

pub mod adamw;
pub mod optimiser;

#[cfg(test)]
mod golden_tests;
