//! `pipe-worker JOB`: runs one stage that may need libtorch. Started by `pipe`; see `docs/worker.md`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use pipe_core::harness;
use pipe_core::protocol::Job;
use pipe_stages::registry;
use pipe_worker::engine::device::TF32;
use pipe_worker::stages::{JOBS, STAGES};
use serde_json::Value;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(flag) if flag == "--version" => {
            println!(
                "pipe-worker {} (libtorch {}, CUDA devices: {})",
                env!("CARGO_PKG_VERSION"),
                env!("PIPE_LIBTORCH_VERSION"),
                tch::Cuda::device_count(),
            );
            ExitCode::SUCCESS
        }
        Some(job) => {
            start_again_for_tf32(Path::new(&job));
            let facts = [("worker", env!("CARGO_PKG_VERSION")), ("libtorch", env!("PIPE_LIBTORCH_VERSION"))];
            harness::main(Path::new(&job), &[registry::light_runners(), STAGES, JOBS], &facts)
        }
        None => {
            eprintln!(
                "usage: pipe-worker JOB\n`pipe run` starts it with a job file; it is not meant to be started by hand"
            );
            ExitCode::from(harness::Exit::BadJob as u8)
        }
    }
}

/// libtorch reads the switch for TF32 once, when it is loaded: a job that asks for it gets a process that
/// had the switch from its start. Where that fails, the stage says so.
fn start_again_for_tf32(job: &Path) {
    let asked = Job::read(job).is_ok_and(|job| asks_for_tf32(&job.body));
    if asked && std::env::var_os(TF32).is_none() {
        let program = std::env::current_exe().unwrap_or_else(|_| "pipe-worker".into());
        let error = Command::new(program).arg(job).env(TF32, "1").exec();
        eprintln!("cannot start again with {TF32}=1: {error}");
    }
}

fn asks_for_tf32(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name == "precision" && value == "tf32" || asks_for_tf32(value))
        }
        Value::Array(values) => values.iter().any(asks_for_tf32),
        _ => false,
    }
}
