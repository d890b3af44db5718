//! One binary for all tests that look at the program from outside.

#![allow(clippy::unwrap_used, reason = "here a panic is a failed test")]

mod architecture;
mod bundle;
mod caching;
mod commands;
mod damage;
mod placing;
mod processes;
mod provenance;
mod setup;
mod shipped;
mod support;
mod training;
mod verify;
