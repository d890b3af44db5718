//! Observes which files a command opens, in order to find inputs that it does not declare.
//!
//! The command runs under a seccomp filter that hands every system call that opens, executes, links or renames a file to
//! a thread of the runner, which notes the path and lets the call go on unchanged. The filter is inherited by everything
//! that the command starts. Unlike with ptrace, no process is stopped, nobody's parent changes, and waiting for and
//! killing processes works as without it.
//!
//! `docs/commands.md` says what counts as an input and what this cannot see.

mod calls;
mod file_log;
mod listener;
mod rule;
mod undeclared;

use std::io::{self, PipeWriter};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use file_log::FileLog;
use listener::Filter;
use rule::InputRule;

pub use listener::unavailable;
pub use undeclared::{UndeclaredFiles, input_lines, listed};

/// A command whose file accesses are being observed.
pub(super) struct FileTrace {
    stop: PipeWriter,
    thread: JoinHandle<io::Result<FileLog>>,
    project: PathBuf,
}

/// The directories and files that decide whether something is an undeclared input.
pub(super) struct Surroundings<'a> {
    pub project: &'a Path,
    /// The directory of the attempt, which belongs to the command.
    pub work_area: &'a Path,
    pub inputs: Vec<&'a Path>,
}

impl FileTrace {
    /// Prepares a command that has not been started, and starts the thread that observes it.
    pub(super) fn prepare(command: &mut Command, surroundings: &Surroundings<'_>) -> io::Result<Self> {
        let project = surroundings.project.canonicalize()?;
        let rule = InputRule::new(&project, surroundings.work_area, &surroundings.inputs)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (stopped, stop) = io::pipe()?;
        let filter = Filter::new();
        // SAFETY: between fork and exec, `install_and_send` makes only system calls, without allocation and without locks.
        unsafe { command.pre_exec(move || filter.install_and_send(&theirs)) };
        let observe = move || calls::observe(&ours, &stopped, FileLog::new(rule));
        let thread = std::thread::Builder::new().name("file trace".to_owned()).spawn(observe)?;
        Ok(Self { stop, thread, project })
    }

    /// Ends the observation and returns the undeclared files. Called when everything that the command started has ended.
    pub(super) fn finish(self) -> io::Result<UndeclaredFiles> {
        drop(self.stop);
        let log = self.thread.join().map_err(|_| io::Error::other("its files could not be observed"))??;
        log.finish(&self.project)
    }
}
