//! Standard output and standard error that are closed, or on a full disk.

use std::fs::File;
use std::process::Command;

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran};

/// Returns a command that writes its status to a full disk.
fn with_full_stderr(test: &PipelineTest, line: &str) -> Command {
    let mut command = test.command(&line.split_whitespace().collect::<Vec<_>>());
    command.stderr(full());
    command
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_standard_error_on_a_full_disk_changes_no_exit_code() {
    let test = fits();
    for (line, code) in [
        ("run pipeline.yaml", 0),
        ("lock pipeline.yaml", 0),
        ("export pipeline.yaml -o bundle", 0),
        ("init other.yaml", 0),
        ("data info bibtex", 0),
        ("logs pipeline.yaml table", 0),
        ("run pipeline.yaml --serve", 0),
        ("run missing.yaml", 2),
        ("run", 0),
        ("plan pipeline.yaml --nonsense", 2),
        ("--nonsense", 2),
        ("show pipeline.yaml", 2),
    ] {
        let status = with_full_stderr(&test, line).stdout(std::process::Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
    let empty = PipelineTest::empty();
    assert_eq!(with_full_stderr(&empty, "run").status().unwrap().code(), Some(2));
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error() {
    let test = PipelineTest::new(FITS);
    for line in [
        "--help",
        "run --help",
        "--version",
        "run pipeline.yaml",
        "run pipeline.yaml --json",
        "plan pipeline.yaml",
        "get pipeline.yaml table",
        "logs pipeline.yaml fit[static]",
        "completions bash",
        "schema",
    ] {
        let mut command = test.command(&line.split_whitespace().collect::<Vec<_>>());
        let output = command.stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{line}: {stderr}");
    }
    test.typed("plan pipeline.yaml --check").ok();
}

#[test]
fn a_closed_stream_is_like_one_that_nobody_reads() {
    let test = PipelineTest::new(FITS);
    for line in ["run pipeline.yaml", "lock pipeline.yaml", "--help", "plan pipeline.yaml"] {
        for closed in [">&-", "2>&-", ">&- 2>&-"] {
            let mut shell = Command::new("sh");
            shell.current_dir(test.path()).arg("-c");
            shell.arg(format!("{} {line} {closed}", env!("CARGO_BIN_EXE_pipe")));
            Ran::finish(shell).ok();
        }
    }
}
