//! Tests that run the real program; one binary, because linking is slow.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a skipped test prints why")]

mod architecture;
mod browser;
mod bundle;
mod caching;
mod claims;
mod cluster;
mod command_line;
mod damage;
mod documentation;
mod evaluation;
mod fake_worker;
mod figures;
mod final_model;
mod lock_files;
mod models;
mod own_data;
mod packages;
mod placed_files;
mod processes;
mod programs;
mod provenance;
mod remote;
mod report;
mod serve;
mod serve_model;
mod setup_scripts;
mod shipped_pipelines;
mod small_data;
mod support;
mod training;
mod undeclared_inputs;
mod user_files;
mod variants;
mod verify;
mod webdriver;
