//! A file system for tests that can lose its power, and that can be seen from two machines with a delay.

pub mod disk;
pub mod server;

pub use disk::Survival;
pub use server::{Power, Visibility};
