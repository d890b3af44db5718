//! Metrics: exact counts streamed over rows, their definitions, and how sure one can be of them.

pub mod audit;
pub mod block;
pub mod bootstrap;
pub mod calibration;
pub mod counts;
pub mod curves;
pub mod decisions;
pub mod evaluation;
pub mod exact;
pub mod frequency;
pub mod label;
pub mod marked;
pub mod measure;
pub mod outcomes;
pub mod propensity;
pub mod ranking;
pub mod record;
pub mod registry;
pub mod released;
pub mod spread;
#[cfg(test)]
mod tests;
mod threshold_bins;
pub mod top;
mod tradeoff;
