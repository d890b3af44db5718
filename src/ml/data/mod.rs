//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod csr;
pub mod duplicates;
pub mod filter;
#[cfg(test)]
mod fixture;
pub mod random;
pub mod split;
pub mod stats;
pub mod stratify;
pub mod weight;
