//! Models on disk and what can be done with them.

pub mod model;
pub mod tensors;
