//! A server that forks a new worker process for each job.
//!
//! Loading libtorch takes 0.3 s, most of it to register operators, which no option of the linker avoids. The runner
//! therefore starts `pipe-worker --serve` once. For each job, the server forks a process that has libtorch already, and is
//! otherwise like a worker that was started on its own: the runner is its parent, so that the runner signals it, waits for
//! it and reads what it used.
//!
//! The server never starts a thread and calls nothing in libtorch, because a fork copies only the calling thread, and
//! CUDA cannot be used after a fork if it was before. If anything goes wrong here, the runner starts a worker without the
//! server.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, getppid, set_parent_process_death_signal, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::job::Job;

/// The argument that makes a worker program a server. Its standard input is then a socket.
pub const SERVE: &str = "--serve";

/// The longest path in a request, which is the longest that Linux accepts.
const LONGEST_PATH: usize = 4096;

/// A request of the runner for a worker process. The server answers with the id of the process.
pub struct ForkRequest {
    /// The job file.
    pub job: PathBuf,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The process waits until it can read a byte here, and ends if there is none.
    pub start: OwnedFd,
}

impl ForkRequest {
    /// Sends the request to a server.
    pub fn send(&self, server: impl AsFd) -> io::Result<()> {
        let files = [self.stdout.as_fd(), self.stderr.as_fd(), self.start.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("the files of a worker do not fit into a message"));
        }
        let job = [IoSlice::new(self.job.as_os_str().as_bytes())];
        sendmsg(server, &job, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives a request; `None` if the runner has closed the socket.
    fn receive(runner: impl AsFd) -> io::Result<Option<Self>> {
        let mut path = [0; LONGEST_PATH];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut path)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = rustix::io::retry_on_intr(|| recvmsg(&runner, &mut buffers, &mut control, flags))?.bytes;
        if length == 0 {
            return Ok(None);
        }
        let files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let files: Result<[OwnedFd; 3], _> = files.flatten().collect::<Vec<_>>().try_into();
        let [stdout, stderr, start] =
            files.map_err(|_| io::Error::other("a request has the wrong number of files"))?;
        let job = OsString::from_vec(path[..length].to_vec()).into();
        Ok(Some(Self { job, stdout, stderr, start }))
    }

    /// Makes the calling process the worker of the request. Returns its job file.
    fn take_over(self, runner: Option<Pid>) -> io::Result<PathBuf> {
        File::from(self.start).read_exact(&mut [0])?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != runner {
            return Err(io::Error::other("the runner has ended"));
        }
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(&self.stdout)?;
        dup2_stderr(&self.stderr)?;
        // A job that cannot be read is reported by the harness.
        if let Ok(job) = Job::read(&self.job) {
            std::env::set_current_dir(job.scratch)?;
        }
        Ok(self.job)
    }
}

/// Forks a process for each request on standard input. Returns only in these processes, with the path of the job file; the
/// server ends when the runner closes the socket.
pub fn serve() -> PathBuf {
    let runner = getppid();
    match serve_until_forked() {
        Ok(Some(request)) => request.take_over(runner).unwrap_or_else(|_| exit(1)),
        Ok(None) => exit(0),
        Err(_) => exit(1),
    }
}

/// Returns the request in the process that was forked for it, and `None` in the server when the socket is closed.
fn serve_until_forked() -> io::Result<Option<ForkRequest>> {
    let socket = io::stdin();
    while let Some(request) = ForkRequest::receive(&socket)? {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("a process with several threads cannot be forked"));
        }
        let (reader, writer) = io::pipe()?;
        let Some(parent) = fork()? else {
            drop(reader);
            fork_and_end(writer);
            return Ok(Some(request));
        };
        drop(writer);
        let worker = read_pid(reader);
        // When its parent has ended, the worker is a child of the runner, which adopts orphans.
        waitpid(Some(parent), WaitOptions::empty())?;
        send(&socket, &worker?, SendFlags::NOSIGNAL)?;
    }
    Ok(None)
}

/// Forks a process and ends the calling one. Returns only in the forked process.
fn fork_and_end(mut writer: PipeWriter) {
    if let Some(worker) = fork().unwrap_or_else(|_| exit(1)) {
        let sent = writer.write_all(&worker.as_raw_nonzero().get().to_ne_bytes());
        exit(i32::from(sent.is_err()));
    }
}

fn read_pid(mut reader: PipeReader) -> io::Result<[u8; 4]> {
    let mut pid = [0; 4];
    reader.read_exact(&mut pid)?;
    Ok(pid)
}

/// Reads a server's answer to a request: the id of the new process, which waits for permission to start.
pub fn receive_answer(server: impl AsFd) -> io::Result<Pid> {
    let mut pid = [0; 4];
    let (length, _) = rustix::io::retry_on_intr(|| recv(&server, &mut pid[..], RecvFlags::empty()))?;
    let pid = (length == 4).then(|| Pid::from_raw(i32::from_ne_bytes(pid))).flatten();
    pid.ok_or_else(|| io::Error::other("the server of workers has ended"))
}

/// Returns the id of the new process, or `None` in the new process.
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: `serve_until_forked` checks that this process has only one thread, so that the copy of its memory is
    // consistent: no lock is held by a thread that does not exist in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends the process at once, without the clean-up of libraries that only a process with a job needs.
fn exit(code: i32) -> ! {
    // SAFETY: this ends the process and touches no memory.
    unsafe { libc::_exit(code) }
}
