//! `pipe`: declarative, content-hashed experiment pipelines for multi-label classification.
//!
//! The layers and what each may import are in `docs/architecture.md`; `tests/` checks them.

pub mod cli;
pub mod digest;
pub mod lock;
pub mod ml;
pub mod plan;
pub mod protocol;
pub mod report;
pub mod runner;
pub mod spec;
pub mod stage;
pub mod store;
