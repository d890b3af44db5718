//! Glue per stage kind: typed artifacts in, a call into the domain, typed artifacts out.
//!
//! Adding a kind touches one new file here and the lists in [`registry`].

pub mod audit;
pub mod command;
pub mod dataset;
pub mod evaluate;
pub mod fit;
pub mod fuse;
pub mod idf;
pub mod load;
pub mod one_or_many;
pub mod plot;
pub mod predict;
pub mod registry;
pub mod report;
#[cfg(test)]
mod scored;
pub mod synthetic;
pub mod table;
pub mod threshold;
pub mod train;
#[cfg(test)]
mod trial;
pub mod vectorise;
