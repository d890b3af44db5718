//! The sealed graph of instances, the ingredients of their keys, and why something has to run. Pure.

pub mod key;
