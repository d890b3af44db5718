//! One binary for all tests that look at the program from outside.

#![allow(clippy::unwrap_used, reason = "here a panic is a failed test")]

mod architecture;
mod caching;
mod commands;
mod damage;
mod judging;
mod placing;
mod processes;
mod setup;
mod shipped;
mod support;
mod training;
mod verify;
