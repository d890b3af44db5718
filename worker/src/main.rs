//! `pipe-worker JOB`: runs one stage that may need libtorch. Started by `pipe`; see `docs/worker.md`.

use std::path::Path;
use std::process::ExitCode;

use pipe::stage::{registry, worker};

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(flag) if flag == "--version" => {
            println!(
                "pipe-worker {} (libtorch {})",
                env!("CARGO_PKG_VERSION"),
                env!("PIPE_LIBTORCH_VERSION")
            );
            ExitCode::SUCCESS
        }
        Some(job) => worker::main(Path::new(&job), &[registry::light_runners()]),
        None => {
            eprintln!(
                "usage: pipe-worker JOB\n`pipe run` starts it with a job file; it is not meant to be started by hand"
            );
            ExitCode::from(worker::Exit::BadJob as u8)
        }
    }
}
