//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod artifact;
pub mod csr;
pub mod error;
pub mod report;
pub mod source;
pub mod text;
