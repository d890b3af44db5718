//! Hears what a worker says: events, one per line, until the worker closes its end or dies.

use std::io::{self, Read};
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::child::ChildProcess;
use crate::protocol::{LogLevel, WorkerEvent};

/// How the worker says it ended.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    pub done: bool,
    pub failed: Option<String>,
}

/// How long a dead worker whose output is still held open by a stranger goes unnoticed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A line longer than this is no event of ours; it is cut, so that it cannot fill the memory.
const LONGEST_LINE: usize = 1 << 20;

pub fn until_the_end(
    mut stdout: ChildStdout,
    child: &ChildProcess<'_>,
    silence: Duration,
    report: &mut dyn FnMut(WorkerEvent),
) -> io::Result<Said> {
    let mut ear = Ear::default();
    let mut buffer = vec![0; 16 << 10];
    let mut heard = Instant::now();
    let mut warned = false;
    loop {
        if wait_for_data(&stdout, LOOK_AGAIN.min(silence))? {
            let count = stdout.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            heard = Instant::now();
            ear.hear(&buffer[..count], report);
        } else if child.has_ended()? {
            break;
        } else if !warned && heard.elapsed() >= silence {
            warned = true;
            let message = format!(
                "its worker has said nothing for {:.0} s, not even that it lives; \
                 the machine may be out of memory, or the process stopped",
                silence.as_secs_f64()
            );
            report(WorkerEvent::Log { level: LogLevel::Warning, message });
        }
    }
    ear.end(report);
    Ok(ear.said)
}

fn wait_for_data(stdout: &ChildStdout, at_most: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    let mut descriptors = [PollFd::new(stdout, PollFlags::IN)];
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Puts bytes together into lines and lines into events.
#[derive(Default)]
struct Ear {
    line: Vec<u8>,
    said: Said,
}

impl Ear {
    fn hear(&mut self, bytes: &[u8], report: &mut dyn FnMut(WorkerEvent)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > LONGEST_LINE {
                self.understand(report);
            }
        }
    }

    fn end(&mut self, report: &mut dyn FnMut(WorkerEvent)) {
        self.understand(report);
    }

    fn understand(&mut self, report: &mut dyn FnMut(WorkerEvent)) {
        let line = std::mem::take(&mut self.line);
        match serde_json::from_slice(&line) {
            Ok(WorkerEvent::Alive) => {}
            Ok(WorkerEvent::Done) => self.said.done = true,
            Ok(WorkerEvent::Failed { message }) => self.said.failed = Some(message),
            Ok(event) => report(event),
            Err(_) => {
                let message = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !message.is_empty() {
                    report(WorkerEvent::Log { level: LogLevel::Info, message });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let (mut ear, mut heard) = (Ear::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                ear.hear(piece, &mut |event| heard.push(event));
            }
            ear.end(&mut |event| heard.push(event));
            let log = |message: &str| WorkerEvent::Log { level: LogLevel::Info, message: message.into() };
            assert_eq!(
                heard,
                [
                    WorkerEvent::Metric { name: "f1".into(), value: 0.5 },
                    log("hello from C++"),
                    log("{\"event\":\"unheard of\"}"),
                ]
            );
            assert_eq!(ear.said, Said { done: true, failed: None });
        }
    }

    #[test]
    fn an_endless_line_does_not_fill_the_memory() {
        let mut ear = Ear::default();
        let mut lines = 0;
        for _ in 0..5 {
            ear.hear(&vec![b'x'; LONGEST_LINE / 2 + 1], &mut |_| lines += 1);
            assert!(ear.line.len() <= LONGEST_LINE);
        }
        assert_eq!(lines, 2);
    }
}
