//! Glue per stage kind: typed artifacts in, a call into the domain, typed artifacts out.
//!
//! Adding a kind touches one new file here and the lists in [`registry`].

pub mod command;
pub mod kind;
pub mod registry;
pub mod work;
pub mod worker;
