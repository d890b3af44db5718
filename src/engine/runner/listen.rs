//! Reads the two output streams of a process until both are closed or the process has died.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::ChildProcess;
use pipe_core::event::{LogLevel, WorkerEvent};

/// Takes the bytes of a stream.
pub(super) trait StreamSink {
    fn on_bytes(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Called when nothing has been read for a while, with the length of the silence.
    fn on_silence(&mut self, _silence: Duration) {}
}

/// How long a dead process goes unnoticed if another process holds its streams open.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The capacity of a pipe on Linux.
const PIPE_CAPACITY: usize = 64 << 10;

/// Reads both streams of a child, which was started with pipes for them.
pub(super) fn drain(
    child: &mut ChildProcess<'_>,
    stdout: &mut dyn StreamSink,
    stderr: &mut dyn StreamSink,
) -> io::Result<()> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let mut buffer = [0; 8 << 10];
    let mut heard = Instant::now();
    let mut dead = false;
    // What a dead process wrote is in the pipes already; another process may write for ever.
    let mut left = 2 * PIPE_CAPACITY / buffer.len();
    while (out.is_some() || err.is_some()) && left > 0 {
        let patience = if dead { Duration::ZERO } else { LOOK_AGAIN };
        left -= usize::from(dead);
        let [out_ready, err_ready] = wait_for_data(&out, &err, patience)?;
        if out_ready {
            heard = Instant::now();
            pass_on(&mut out, &mut buffer, stdout)?;
        }
        if err_ready {
            pass_on(&mut err, &mut buffer, stderr)?;
        }
        if !out_ready {
            stdout.on_silence(heard.elapsed());
        }
        if !out_ready && !err_ready {
            if dead {
                break;
            }
            dead = child.has_ended()?;
            if dead {
                child.kill();
            }
        }
    }
    Ok(())
}

fn pass_on(stream: &mut Option<PipeReader>, buffer: &mut [u8], sink: &mut dyn StreamSink) -> io::Result<()> {
    let Some(open) = stream else { return Ok(()) };
    match open.read(buffer) {
        Ok(0) => *stream = None,
        Ok(count) => sink.on_bytes(&buffer[..count])?,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Returns which of the two streams can be read without waiting.
fn wait_for_data(
    out: &Option<PipeReader>,
    err: &Option<PipeReader>,
    at_most: Duration,
) -> io::Result<[bool; 2]> {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    let streams = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)];
    let mut waiting: Vec<PollFd> =
        streams.iter().flatten().map(|stream| PollFd::from_borrowed_fd(*stream, PollFlags::IN)).collect();
    match poll(&mut waiting, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut answers = waiting.iter().map(|stream| !stream.revents().is_empty());
    Ok(streams.map(|stream| stream.is_some() && answers.next().unwrap_or(false)))
}

/// Writes a stream to a file, which is created with the first byte.
pub(super) struct Kept<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Kept<'a> {
    pub(super) fn at(path: &'a Path) -> Self {
        Self { path, file: None }
    }
}

impl StreamSink for Kept<'_> {
    fn on_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes),
            none => none.insert(File::create(self.path)?).write_all(bytes),
        }
    }
}

/// A longer line is not an event; it is cut, so that it cannot fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// The beginning of the warning about a silent worker, which says nothing about a result.
pub(super) const SILENT: &str = "its worker has been silent for";

/// Turns the bytes of a worker into lines, and lines into events.
pub(super) struct Events<'a> {
    report: &'a mut dyn FnMut(WorkerEvent),
    line: Vec<u8>,
    /// The silence that causes a warning; `None` after the warning.
    tolerated: Option<Duration>,
    /// Whether the worker said that it was done.
    pub done: bool,
    pub failed: Option<String>,
}

impl<'a> Events<'a> {
    pub(super) fn new(report: &'a mut dyn FnMut(WorkerEvent), tolerated: Duration) -> Self {
        Self { report, line: Vec::new(), tolerated: Some(tolerated), done: false, failed: None }
    }

    /// Handles the last line, even without a line end.
    pub(super) fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        match serde_json::from_slice(&line) {
            Ok(WorkerEvent::Alive) => {}
            Ok(event) => {
                match &event {
                    WorkerEvent::Done => self.done = true,
                    WorkerEvent::Failed { message } => self.failed = Some(message.clone()),
                    _ => {}
                }
                (self.report)(event);
            }
            Err(_) => {
                let message = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !message.is_empty() {
                    (self.report)(WorkerEvent::Log { level: LogLevel::Info, message });
                }
            }
        }
    }
}

impl StreamSink for Events<'_> {
    fn on_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > LONGEST_LINE {
                self.end();
            }
        }
        Ok(())
    }

    fn on_silence(&mut self, silence: Duration) {
        if self.tolerated.is_some_and(|tolerated| silence >= tolerated) {
            self.tolerated = None;
            let message = format!(
                "{SILENT} {:.0} s and sends no sign of life; \
                 the machine may be out of memory, or the process stopped",
                silence.as_secs_f64()
            );
            (self.report)(WorkerEvent::Log { level: LogLevel::Warning, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn events_survive_being_cut_anywhere_and_garbage_becomes_log_lines() {
        let text = concat!(
            "{\"event\":\"alive\"}\n",
            "{\"event\":\"metric\",\"name\":\"f1\",\"value\":0.5}\n",
            "hello from C++\n",
            "{\"event\":\"unheard of\"}\n",
            "\n",
            "{\"event\":\"done\"}",
        );
        for size in 1..text.len() {
            let mut heard = Vec::new();
            let mut report = |event| heard.push(event);
            let mut events = Events::new(&mut report, LONG);
            for piece in text.as_bytes().chunks(size) {
                events.on_bytes(piece).unwrap();
            }
            events.end();
            assert!(events.done && events.failed.is_none());
            let log = |message: &str| WorkerEvent::Log { level: LogLevel::Info, message: message.into() };
            assert_eq!(
                heard,
                [
                    WorkerEvent::Metric { name: "f1".into(), value: 0.5, protocol: None, epoch: None },
                    log("hello from C++"),
                    log("{\"event\":\"unheard of\"}"),
                    WorkerEvent::Done,
                ]
            );
        }
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let mut lines = 0;
        let mut report = |_| lines += 1;
        let mut events = Events::new(&mut report, LONG);
        for _ in 0..5 {
            events.on_bytes(&vec![b'x'; LONGEST_LINE / 2 + 1]).unwrap();
            assert!(events.line.len() <= LONGEST_LINE);
        }
        assert_eq!(lines, 2);
    }

    #[test]
    fn a_silent_stream_creates_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stdout");
        let mut kept = Kept::at(&path);
        assert!(!path.exists());
        kept.on_bytes(b"one ").unwrap();
        kept.on_bytes(b"two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
    }
}
