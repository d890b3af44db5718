//! Data sets: sparse matrices, readers for the formats that users have, splits, generation.

pub mod arff;
pub mod artifact;
pub mod citeulike;
pub mod compress;
pub mod csr;
pub mod dense;
pub mod detect;
pub mod error;
pub mod libsvm;
mod lines;
mod names;
mod number;
pub mod read;
pub mod report;
pub mod source;
mod splits;
pub mod table;
pub mod text;
pub mod vectorise;
