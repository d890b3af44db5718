//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod csr;
pub mod examples;
