//! `pipe --version`: prints the versions of `pipe` and of the worker that it starts.

use super::exit::{Exit, Outcome};
use super::print_text;
use pipe_core::captured::captured;
use pipe_engine::runner::libtorch::Worker;

/// Runs `pipe --version`.
pub(super) fn version() -> Outcome {
    let worker = match Worker::find(&std::env::current_exe()?) {
        Err(problem) => format!("pipe-worker does not start: {problem}"),
        Ok(worker) => match captured(worker.command().arg("--version")) {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
            }
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr);
                format!("pipe-worker does not start: {}", message.trim_end())
            }
            Err(error) => format!("pipe-worker does not start: {error}"),
        },
    };
    print_text(&format!("pipe {}\n{worker}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(Exit::Done)
}
