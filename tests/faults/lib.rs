//! Injects faults into the programs `pipe` and `pipe-worker`, and checks that they recover. See docs/faults.md.

pub mod bucket;
pub mod campaign;
pub mod classes;
pub mod golden;
pub mod mount;
pub mod oracle;
pub mod power;
pub mod process;
pub mod project;
pub mod rng;
pub mod table;
pub mod trial;
