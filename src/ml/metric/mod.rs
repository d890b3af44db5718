//! Metrics: their definitions, exact counts over rows, and confidence intervals.
//!
//! [`registry::Metric`] lists all metrics. [`measure::Measure`] computes them block by block on all threads;
//! [`evaluation::Evaluator`] does the same row by row on one thread. [`bootstrap::Bootstrap`] resamples rows to get
//! confidence intervals. [`marked::Marked`] keeps a value together with the protocol under which it was measured.

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
pub mod rest;
pub mod spread;
#[cfg(test)]
mod tests;
mod threshold_bins;
pub mod top;
mod tradeoff;
