//! Runs a plan: the ready queue, resources, executors, events. Knows nothing about machine learning or the terminal.

mod attempt;
mod child;
pub mod cluster;
#[cfg(test)]
mod command_tests;
mod computation;
mod descendants;
#[cfg(test)]
mod double;
pub mod event;
pub mod executor;
mod exit;
pub mod file_trace;
mod inspect;
mod journal;
pub mod libtorch;
mod listen;
pub mod local;
pub mod machine;
mod options;
mod outputs;
pub mod packages;
pub mod queue;
mod run;
mod stop;
mod survey;
#[cfg(test)]
mod tests;
mod vfork;
mod work_area;
mod worker_servers;
#[cfg(test)]
mod worker_tests;

pub use options::{Options, ResultGate};
pub use run::{RunError, run};
pub use stop::{Stop, Urgency};
pub use survey::{Outlook, Pulled, key_of, pull, survey};
