//! Everything that the program prints: results to standard output, status to standard error.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::exit::{Exit, Failure, Outcome};

/// Prints a line to standard error. If standard error is closed or full, nobody can be told; the exit code still says
/// how the command ended.
pub(super) fn print_status(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a result to standard output. A reader that went away (`pipe ... | head`) is not an error.
pub(super) fn print_text(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    outcome(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints the content of a file to standard output.
pub(super) fn print_file(path: &Path) -> Outcome {
    let mut file = File::open(path)?;
    let mut out = io::stdout().lock();
    outcome(io::copy(&mut file, &mut out).and_then(|_| out.flush()))
}

/// Prints a value as JSON to standard output.
pub(super) fn print_json(value: &impl serde::Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
    print_text(&format!("{text}\n"))
}

/// Writes a result to the file that the user named, and prints its path; `-` is standard output.
pub(super) fn write_result(path: &Path, text: &str) -> Outcome {
    if path == Path::new("-") {
        return print_text(text);
    }
    let failure = |error| Failure::bad_input(format!("cannot write {}: {error}", path.display()));
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failure)?;
    }
    std::fs::write(path, text).map_err(failure)?;
    print_text(&format!("{}\n", path.display()))
}

/// Returns the outcome of writing to standard output.
pub(super) fn outcome(written: io::Result<()>) -> Outcome {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::bad_input(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}
