//! Starts programs, waits for them with a limit, and finds processes that outlived them.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// No command of a trial takes this long on a healthy machine. One that does counts as a hang.
const LIMIT: Duration = Duration::from_secs(90);

/// A program that was started, in a process group of its own.
pub struct Running {
    child: Child,
    command: String,
    stdout: File,
    stderr: File,
}

/// A program that ended, and what it wrote.
#[derive(Debug)]
pub struct Ended {
    /// The command line, for messages.
    pub command: String,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Whether the program had to be killed because it did not end.
    pub hung: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Running {
    /// Starts a program. Its output goes to files without a name, so that no reader can block it.
    pub fn start(mut command: Command) -> Result<Self> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let text = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start `{text}`"))?;
        Ok(Self { child, command: text, stdout, stderr })
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits at most this long. Returns whether the program has ended.
    pub fn wait_for(&mut self, time: Duration) -> Result<bool> {
        if self.child.try_wait()?.is_some() {
            return Ok(true);
        }
        let end = Instant::now() + time;
        let handle = pidfd_open(pid(self.id())?, PidfdFlags::empty())?;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }

    /// Waits for the end, and kills the process group if it does not come.
    pub fn finish(mut self) -> Result<Ended> {
        let hung = !self.wait_for(LIMIT)?;
        if hung {
            let _ = rustix::process::kill_process_group(pid(self.id())?, Signal::KILL);
        }
        let status: ExitStatus = self.child.wait()?;
        let text = |mut file: File| -> Result<String> {
            let mut bytes = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Ended {
            command: self.command,
            code: status.code(),
            signal: status.signal(),
            hung,
            stdout: text(self.stdout)?,
            stderr: text(self.stderr)?,
        })
    }
}

impl Ended {
    /// Returns the instances for which `pipe run --json` reported this event.
    pub fn instances(&self, event: &str) -> std::collections::BTreeSet<String> {
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
        let of_kind = self.stdout.lines().filter_map(parse).filter(|value| value["event"] == event);
        of_kind.filter_map(|value| value["instance"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the last lines of standard error and the failures among the events, for messages.
    pub fn tail(&self) -> String {
        let failures = [r#""event":"failed""#, r#""event":"error""#, r#""level":"warning""#];
        let is_failure = |line: &&str| failures.iter().any(|failure| line.contains(failure));
        let lines: Vec<&str> = self.stdout.lines().filter(is_failure).chain(self.stderr.lines()).collect();
        lines[lines.len().saturating_sub(6)..].join("\n")
    }

    /// Returns whether the dynamic linker gave up before the program began.
    pub fn was_not_loaded(&self) -> bool {
        self.code == Some(127) && self.stderr.contains("error while loading shared libraries")
    }
}

fn pid(id: u32) -> Result<Pid> {
    Pid::from_raw(id as i32).context("0 is not the id of a process")
}

/// Sends a signal to one process. It is no error if the process has ended.
pub fn send(id: u32, signal: Signal) {
    if let Ok(pid) = pid(id) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the children of a process.
pub fn children(parent: u32) -> Vec<u32> {
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name of the program, in parentheses, may contain blanks.
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        after_name.split(' ').nth(1).and_then(|id| id.parse().ok()) == Some(parent)
    };
    all().into_iter().filter(is_child).collect()
}

/// Returns the processes that work in this directory, or whose arguments or environment name it, with their commands.
pub fn working_below(directory: &Path) -> Vec<(u32, String)> {
    let name = directory.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for id in all() {
        let read = |file: &str| {
            let bytes = std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let works_here =
            std::fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
        let command = read("cmdline");
        if id != std::process::id()
            && (works_here || command.contains(&name) || read("environ").contains(&name))
        {
            found.push((id, command));
        }
    }
    found
}

fn all() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns whether a program is in one of the directories of PATH.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Runs a tool of the system to its end. Returns its message if it fails.
pub fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start `{program}`"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "`{program} {}` failed: {}",
        arguments.join(" "),
        message.trim()
    );
    Ok(())
}
