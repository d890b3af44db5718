//! Reads the paths of observed system calls from the memory of their processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use libc::{c_int, c_long, seccomp_notif};
use rustix::event::{PollFd, PollFlags, poll};

use super::file_log::FileLog;
use super::listener::Listener;

/// Notes the files of a command until everything that it started has ended, or until the other end of `stopped` is closed.
pub(super) fn observe(socket: &UnixStream, stopped: &PipeReader, mut log: FileLog) -> io::Result<FileLog> {
    if !wait_for(socket, stopped)? {
        return Ok(log);
    }
    let Some(listener) = Listener::receive(socket)? else { return Ok(log) };
    while wait_for(listener.as_fd(), stopped)? {
        if let Some(call) = listener.next_call()? {
            note(&listener, &call, &mut log);
            listener.let_go_on(&call);
        }
    }
    Ok(log)
}

/// Waits until there is something to read. Returns whether there is; otherwise nothing more will come.
fn wait_for(source: impl AsFd, stopped: &PipeReader) -> io::Result<bool> {
    let mut sources = [PollFd::new(&source, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    loop {
        match poll(&mut sources, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    Ok(sources[0].revents().contains(PollFlags::IN))
}

/// Notes the files of one system call.
fn note(listener: &Listener, call: &seccomp_notif, log: &mut FileLog) {
    let caller = Caller { thread: call.pid };
    let files = files_of(&caller, c_long::from(call.data.nr), &call.data.args);
    // If the thread has ended, its number may belong to another one, whose memory was read.
    if !listener.still_waits(call) {
        return;
    }
    match files {
        Ok(CallFiles::Opened(path, flags)) => log.opened(&path, flags),
        Ok(CallFiles::Moved { from, to }) => log.moved(&from, &to),
        Ok(CallFiles::None) => {}
        Err(_) => log.missed_one(),
    }
}

/// The files that a system call names.
enum CallFiles {
    Opened(PathBuf, c_int),
    /// Renamed or linked.
    Moved {
        from: PathBuf,
        to: PathBuf,
    },
    None,
}

fn files_of(caller: &Caller, number: c_long, args: &[u64; 6]) -> io::Result<CallFiles> {
    let here = libc::AT_FDCWD as u64;
    let opened = |directory: u64, path: u64, flags: c_int| {
        Ok(match caller.path(directory, path)? {
            Some(path) => CallFiles::Opened(path, flags),
            None => CallFiles::None,
        })
    };
    let moved = |from: (u64, u64), to: (u64, u64)| {
        Ok(match (caller.path(from.0, from.1)?, caller.path(to.0, to.1)?) {
            (Some(from), Some(to)) => CallFiles::Moved { from, to },
            _ => CallFiles::None,
        })
    };
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => opened(here, args[0], args[1] as c_int),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => opened(here, args[0], libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link | libc::SYS_rename => moved((here, args[0]), (here, args[1])),
        libc::SYS_openat => opened(args[0], args[1], args[2] as c_int),
        libc::SYS_openat2 => opened(args[0], args[1], caller.word(args[2])? as c_int),
        libc::SYS_execve => opened(here, args[0], libc::O_RDONLY),
        libc::SYS_execveat => opened(args[0], args[1], libc::O_RDONLY),
        // `renameat` is the one that is left.
        _ => moved((args[0], args[1]), (args[2], args[3])),
    }
}

/// The thread that made a system call.
struct Caller {
    thread: u32,
}

impl Caller {
    /// Returns the absolute path of a file that a system call names by a directory and the address of a path, without
    /// following links; `None` if the call names no file.
    fn path(&self, directory: u64, address: u64) -> io::Result<Option<PathBuf>> {
        if address == 0 {
            return Ok(None);
        }
        let path = PathBuf::from(OsString::from_vec(self.text(address)?));
        if path.is_absolute() {
            // In our own view, these would be about this process.
            let own =
                ["/proc/self", "/proc/thread-self"].into_iter().find_map(|own| path.strip_prefix(own).ok());
            return Ok(Some(own.map(|rest| self.entry("").join(rest)).unwrap_or(path)));
        }
        let base = match directory as c_int {
            libc::AT_FDCWD => self.entry("cwd"),
            file => self.entry(&format!("fd/{file}")),
        };
        let base = fs::read_link(base)?;
        // The empty path is the open file itself, which is not opened by this call but may be executed.
        Ok(Some(if path.as_os_str().is_empty() { base } else { base.join(path) }))
    }

    fn entry(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.thread.to_string()).join(name)
    }

    fn memory(&self) -> io::Result<File> {
        File::open(self.entry("mem"))
    }

    /// Reads a text that ends with a zero byte.
    fn text(&self, address: u64) -> io::Result<Vec<u8>> {
        let mut text = vec![0; libc::PATH_MAX as usize];
        // This may be cut at the end of the mapping, which is no error if the text ends before.
        let length = self.memory()?.read_at(&mut text, address)?;
        text.truncate(length);
        let end = text.iter().position(|&byte| byte == 0);
        text.truncate(end.ok_or(io::ErrorKind::InvalidData)?);
        Ok(text)
    }

    fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.memory()?.read_exact_at(&mut bytes, address)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
