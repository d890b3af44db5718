//! What every part of `pipe` agrees on: digests, the ingredients of keys, what a runner and a worker say to each
//! other, and the interface of a stage kind.

pub mod digest;
pub mod harness;
pub mod key;
pub mod kind;
pub mod name;
pub mod protocol;
pub mod reference;
pub mod scalar;
pub mod stage;
pub mod strict_json;
pub mod suggest;
pub mod work;
