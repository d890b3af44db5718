//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod artifact;
pub mod compress;
pub mod csr;
pub mod error;
mod number;
pub mod report;
pub mod source;
pub mod text;
