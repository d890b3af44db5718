//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod artifact;
pub mod csr;
pub mod duplicates;
pub mod error;
pub mod filter;
#[cfg(test)]
mod fixture;
pub mod prepare;
pub mod random;
pub mod report;
pub mod split;
pub mod split_data;
pub mod stats;
pub mod stratify;
pub mod synthetic;
pub mod weight;
