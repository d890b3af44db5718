//! Runs a program and captures what it prints.

use std::io::{self, Read};
use std::process::{Command, Output, Stdio};
use std::thread;

/// Runs a program without standard input until it ends, and returns what it printed.
///
/// Unlike [`Command::output`], this does not panic if what the program prints cannot be read.
pub fn captured(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Both at once: a program whose output nobody reads waits for ever.
    let stderr = thread::Builder::new().spawn(|| read(stderr));
    let stdout = read(stdout);
    if stdout.is_err() || stderr.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let stderr = stderr?.join().unwrap_or_else(|_| Err(io::Error::other("the reader ended early")));
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

fn read(stream: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_captured_however_long_they_are() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; exit 3"]);
        let output = captured(&mut command).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (200_000, 300_000));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        assert!(captured(&mut Command::new("no-such-program")).is_err());
    }
}
