//! The command line program. It never loads libtorch.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipe::cli::main()
}
