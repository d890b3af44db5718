//! `pipe-worker JOB`: runs one stage that may need libtorch. Started by `pipe`; see `docs/worker.md`.

use std::path::Path;
use std::process::ExitCode;

use pipe::stage::{registry, worker};
use pipe_worker::stages::RUNNERS;

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
            let facts = [("worker", env!("CARGO_PKG_VERSION")), ("libtorch", env!("PIPE_LIBTORCH_VERSION"))];
            worker::main(Path::new(&job), &[registry::light_runners(), RUNNERS], &facts)
        }
        None => {
            eprintln!(
                "usage: pipe-worker JOB\n`pipe run` starts it with a job file; it is not meant to be started by hand"
            );
            ExitCode::from(worker::Exit::BadJob as u8)
        }
    }
}
