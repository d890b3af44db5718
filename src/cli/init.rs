//! `pipe init`: writes a small pipeline that runs as it is.

use std::fs::OpenOptions;
use std::io::Write;

use super::args::InitArgs;
use super::exit::{Exit, Failure, Outcome};
use super::print_status;

const EXAMPLE: &str = include_str!("init.yaml");

/// Runs `pipe init`. Never overwrites: the file is created, or the command fails.
pub(super) fn init(args: &InitArgs) -> Outcome {
    let file = &args.file;
    let failure = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; name another file: `pipe init FILE`",
            _ => "",
        };
        Failure::bad_input(format!("cannot write {}: {error}{hint}", file.display()))
    };
    if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failure)?;
    }
    let mut handle = OpenOptions::new().write(true).create_new(true).open(file).map_err(failure)?;
    handle.write_all(EXAMPLE.as_bytes()).map_err(failure)?;
    print_status(&format!("wrote {0}\nnext: pipe run {0}", file.display()));
    Ok(Exit::Done)
}
