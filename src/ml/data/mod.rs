//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod arff;
pub mod artifact;
pub mod citeulike;
pub mod compress;
pub mod csr;
pub mod dense;
pub mod describe;
pub mod detect;
pub mod duplicates;
pub mod error;
pub mod examples;
pub mod fetch;
pub mod filter;
#[cfg(test)]
mod fixture;
pub mod libsvm;
mod lines;
pub mod locate;
mod names;
mod number;
pub mod prepare;
pub mod random;
pub mod read;
pub mod registry;
pub mod report;
pub mod source;
pub mod source_path;
pub mod split;
pub mod split_data;
mod splits;
pub mod stats;
pub mod stratify;
pub mod synthetic;
pub mod table;
pub mod text;
pub mod vectorise;
pub mod weight;
