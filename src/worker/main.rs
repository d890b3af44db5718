//! `pipe-worker JOB` runs one stage that may need libtorch. `pipe-worker --serve` forks a process for each job. `pipe`
//! starts both; see `docs/worker.md`.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use pipe_core::fork_server::{self, SERVE};
use pipe_core::harness;
use pipe_core::job::Job;
use pipe_stages::registry;
use pipe_worker::engine::device::TF32;
use pipe_worker::stages::{JOBS, JUDGING_STAGES, STAGES};
use serde_json::Value;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(flag) if flag == "--version" => {
            let printed = writeln!(
                std::io::stdout(),
                "pipe-worker {} (libtorch {}, CUDA devices: {})",
                env!("CARGO_PKG_VERSION"),
                env!("PIPE_LIBTORCH_VERSION"),
                tch::Cuda::device_count(),
            );
            if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Some(argument) => {
            let job = if argument == SERVE { fork_server::serve() } else { argument.into() };
            restart_for_tf32(&job);
            let facts = [("worker", env!("CARGO_PKG_VERSION")), ("libtorch", env!("PIPE_LIBTORCH_VERSION"))];
            end(harness::run(&job, &[registry::light_runners(), STAGES, JUDGING_STAGES, JOBS], &facts))
        }
        None => {
            print_status(
                "usage: pipe-worker JOB\n`pipe run` starts this program with a job file; do not start it by hand",
            );
            ExitCode::from(harness::Exit::BadJob as u8)
        }
    }
}

/// Ends the process at once. libtorch would take 0.2 s to remove its operators one by one, and to copy the memory that a
/// forked worker shares with its server.
fn end(exit: harness::Exit) -> ! {
    unsafe extern "C" {
        fn fflush(stream: *mut c_void) -> c_int;
        fn _exit(code: c_int) -> !;
    }
    let _ = std::io::stdout().flush();
    // SAFETY: no stream stands for all streams of the C library, and nothing is left to do: the stage has closed its files.
    unsafe {
        fflush(std::ptr::null_mut());
        _exit(exit as c_int)
    }
}

/// Prints a line to standard error; it does not matter if that is closed or full.
fn print_status(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Replaces this process with one that has the TF32 variable set, if the job asks for TF32.
///
/// libtorch reads the variable only once, while it is being loaded, so that it must be set when the process starts.
/// If the restart fails, the stage reports the missing variable.
fn restart_for_tf32(job: &Path) {
    let wanted = Job::read(job).is_ok_and(|job| asks_for_tf32(&job.body));
    if wanted && std::env::var_os(TF32).is_none() {
        let program = std::env::current_exe().unwrap_or_else(|_| "pipe-worker".into());
        let error = Command::new(program).arg(job).env(TF32, "1").exec();
        print_status(&format!("cannot restart with {TF32}=1: {error}"));
    }
}

/// Returns whether any field named `precision`, at any depth, is `tf32`.
fn asks_for_tf32(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name == "precision" && value == "tf32" || asks_for_tf32(value))
        }
        Value::Array(values) => values.iter().any(asks_for_tf32),
        _ => false,
    }
}
