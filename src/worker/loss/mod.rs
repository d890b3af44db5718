//! The loss of eqs. 1-3 and 7, in two implementations.
//!
//! [`reference`] is a libtorch expression that autograd differentiates on any device. [`fused`] is a hand-written
//! parallel pass on the CPU that computes the loss and every gradient; see [`crate::engine::cpu`] for the
//! measurements. Tests compare both with the same golden values.

pub mod fused;
pub mod kernel;
pub mod real;
pub mod reference;
pub mod terms;

#[cfg(test)]
mod golden_tests;
