//! Figures about predictions.

pub mod counts;
