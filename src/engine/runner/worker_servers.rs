//! Gets worker processes from servers that have loaded libtorch already; see `pipe_core::fork_server`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use pipe_core::fork_server::{ForkRequest, SERVE, receive_answer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::child::{ChildProcess, Children, ServerProcess};

/// How long a server may take to answer. It takes long only if libtorch comes from a slow disk.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// The servers of a run. There is one for each program and environment, because libraries read the environment when they are
/// loaded.
#[derive(Default)]
pub(super) struct WorkerServers(Mutex<BTreeMap<ServerIdentity, Option<WorkerServer>>>);

/// A program, and the variables that it gets or must not get.
type ServerIdentity = (OsString, Vec<(OsString, Option<OsString>)>);

struct WorkerServer {
    socket: OwnedFd,
    /// Ended when this is dropped.
    _process: ServerProcess,
}

impl WorkerServers {
    /// Returns a process for a job, as if the command had been started with the job file as its argument. `None` if there is
    /// no server for the command, or if it does not answer; then the caller has to start the command.
    pub(super) fn fork<'a>(
        &self,
        children: &'a Children,
        command: &Command,
        job: &Path,
    ) -> Option<ChildProcess<'a>> {
        let environment =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
        let identity = (command.get_program().to_owned(), environment.collect());
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers.entry(identity).or_insert_with(|| WorkerServer::start(children, command).ok());
        let forked = server.as_ref()?.fork(children, job);
        if forked.is_err() {
            *server = None;
        }
        forked.ok()
    }
}

impl WorkerServer {
    fn start(children: &Children, command: &Command) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let mut server = Command::new(command.get_program());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => server.env(name, value),
                None => server.env_remove(name),
            };
        }
        // If it cannot be loaded, so cannot the worker that is started instead, which says why.
        server.arg(SERVE).stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { socket, _process: children.spawn_server(&mut server)? })
    }

    fn fork<'a>(&self, children: &'a Children, job: &Path) -> io::Result<ChildProcess<'a>> {
        let ((stdout, out), (stderr, err), (may_start, mut start)) = (io::pipe()?, io::pipe()?, io::pipe()?);
        let (out, err, may_start) = (out.into(), err.into(), may_start.into());
        ForkRequest { job: job.to_owned(), stdout: out, stderr: err, start: may_start }.send(&self.socket)?;
        let mut waiting = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut waiting, Some(&PATIENCE)))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let child = children.adopt(receive_answer(&self.socket)?, stdout, stderr)?;
        // Only now, so that it starts nothing before it has its mark and can be stopped.
        start.write_all(b".")?;
        Ok(child)
    }
}
