//! The command line program. It never loads libtorch.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
