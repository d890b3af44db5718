//! The loss of eqs. 1-3 and 7, twice: [`reference`] is the generic libtorch expression, which
//! autograd differentiates on any device; [`fused`] is one parallel pass on the CPU that gives
//! the loss and every gradient. The tests hold both to the same numbers.

pub mod fused;
pub mod kernel;
pub mod real;
pub mod reference;
pub mod terms;
pub mod widest;

#[cfg(test)]
mod golden_tests;
