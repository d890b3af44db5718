//! Runs a plan: the ready queue, resources, executors, events. No ML, no terminal.

mod child;
pub mod event;
pub mod executor;
mod exit;
mod listen;
pub mod local;
pub mod machine;
pub mod queue;
pub mod stop;
