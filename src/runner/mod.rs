//! Runs a plan: the ready queue, resources, executors, events. No ML, no terminal.

pub mod event;
pub mod queue;
