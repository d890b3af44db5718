//! Reads, plans, runs, stores and locks pipelines, without knowing any stage kind by name.

pub mod lock;
pub mod plan;
pub mod runner;
pub mod spec;
pub mod store;
