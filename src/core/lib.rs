//! What every part of `pipe` agrees on: digests, key parts, jobs and events between runner and
//! worker, the protocol of a measured value, and the interface of a stage kind.

pub mod digest;
pub mod escape;
pub mod event;
pub mod float;
pub mod harness;
pub mod issue;
pub mod job;
pub mod key;
pub mod kind;
pub mod name;
pub mod paint;
pub mod protocol;
pub mod quote;
pub mod reference;
pub mod scalar;
pub mod stage;
pub mod strict_json;
pub mod suggest;
pub mod work;
