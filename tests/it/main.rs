//! One binary for all tests that look at the program from outside.

#![allow(clippy::unwrap_used, reason = "here a panic is a failed test")]

mod architecture;
mod browser;
mod bundle;
mod caching;
mod command_line;
mod damage;
mod honest;
mod judging;
mod placing;
mod processes;
mod provenance;
mod report;
mod serve;
mod setup;
mod shipped;
mod state;
mod support;
mod teacher;
mod training;
mod verify;
mod webdriver;
