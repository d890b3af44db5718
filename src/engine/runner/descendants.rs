//! Finds the processes that descend from a stage, wherever they went.
//!
//! Killing the process group of a stage does not reach a process that left the group (`setsid`, a daemon). Therefore the
//! process of a stage carries a mark that all its descendants inherit: the soft limit `RLIMIT_LOCKS`, which Linux has not
//! enforced since version 2.4. With it,
//! - the runner ends what a stage left behind before its outputs are read. The runner is a "child subreaper": a process
//!   whose parent has ended becomes a child of the runner, which finds it in the list of its own children;
//! - a watcher ends everything if the runner is killed. It is a process that only waits for that.
//!
//! This cannot reach a process that changes the limit, that runs as another user, or that a server outside started for the
//! stage (`systemd-run`, `docker`, `at`). Where the kernel does not list children (`CONFIG_PROC_CHILDREN`), only the
//! group of a stage ends with it.

use std::ffi::CStr;
use std::fs;
use std::io::{self, PipeWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

/// The bits of a mark that are the same for all stages of a runner; the lower bits count the stages.
const RUNNER: u64 = 0x7fff_ffff_0000_0000;

/// How long a killed process may take to end. It takes long only if the kernel waits for a device or a server.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What distinguishes a stage's processes from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Marks the calling process and its future descendants. Makes one system call and does not allocate.
    pub(super) fn apply(self, hard_limit: Option<u64>) {
        // Without the mark, everything but the processes that leave the group is still found.
        let _ = rustix::process::setrlimit(
            Resource::Locks,
            Rlimit { current: Some(self.0), maximum: hard_limit },
        );
    }

    /// Marks a child that has not started anything yet.
    pub(super) fn apply_to(self, child: Pid) {
        let limit = libc::rlimit { rlim_cur: self.0, rlim_max: libc::RLIM_INFINITY };
        let limit = match Self::limit_of(child) {
            Some(old) => libc::rlimit { rlim_max: old.rlim_max, ..limit },
            None => limit,
        };
        // SAFETY: the limit is a live value, and the old one is not asked for.
        let _ = unsafe {
            libc::prlimit(
                child.as_raw_nonzero().get(),
                libc::RLIMIT_LOCKS,
                &raw const limit,
                std::ptr::null_mut(),
            )
        };
    }

    /// Returns the mark of a process; `None` if it is gone.
    fn of(pid: Pid) -> Option<Self> {
        Self::limit_of(pid).map(|limit| Self(limit.rlim_cur))
    }

    fn limit_of(pid: Pid) -> Option<libc::rlimit> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: no limit is set, and the other pointer is to a live value of the type that prlimit writes.
        let read = unsafe {
            libc::prlimit(pid.as_raw_nonzero().get(), libc::RLIMIT_LOCKS, std::ptr::null(), &raw mut limit)
        };
        (read == 0).then_some(limit)
    }
}

/// Gives a mark to each stage of a runner.
#[derive(Debug)]
pub(super) struct Marks {
    runner: u64,
    given: AtomicU32,
    watcher: OnceLock<Option<Watcher>>,
}

impl Default for Marks {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let digest = blake3::hash(format!("{} {:p} {}", now.as_nanos(), &now, getpid()).as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
        let runner = u64::from_le_bytes([a, b, c, d, e, f, g, h]) & RUNNER;
        Self { runner, given: AtomicU32::new(0), watcher: OnceLock::new() }
    }
}

impl Marks {
    /// Returns a new mark. Before the first one, the runner prepares to find marked processes.
    pub(super) fn next(&self) -> Mark {
        self.watcher.get_or_init(|| {
            // If this fails, a process that leaves its group is not found; the rest works.
            let _ = rustix::process::set_child_subreaper(Some(getpid()));
            Watcher::start(self.runner).ok()
        });
        Mark(self.runner | u64::from(self.given.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Kills and reaps every process with the mark among the children of the runner until there is none but `leader`, the process of
/// the stage. Its process group must have been killed before.
///
/// Processes with other marks are those of other stages, which other threads reap. So no process id with this mark can be
/// used again meanwhile.
pub(super) fn end_all(mark: Mark, leader: Pid) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        let mut left = None;
        let descends = |child: &Pid| *child != leader && Mark::of(*child) == Some(mark);
        for child in adopted_children().into_iter().filter(descends) {
            let reaped = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            if matches!(reaped, Ok(None)) {
                let _ = kill_process(child, Signal::KILL);
                left = Some(child);
            }
        }
        let Some(left) = left else { return Ok(()) };
        if waited >= PATIENCE {
            let pid = left.as_raw_nonzero();
            return Err(io::Error::other(format!("the process {pid}, which it started, cannot be ended")));
        }
        std::thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
    }
}

/// Returns the processes that became children of the runner when their parents ended. The kernel gives them to the main
/// thread, which may have started a stage itself.
fn adopted_children() -> Vec<Pid> {
    let main = getpid().as_raw_nonzero();
    let list = fs::read_to_string(format!("/proc/self/task/{main}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A process that kills everything with a mark of the runner when the runner has died.
#[derive(Debug)]
struct Watcher {
    pid: Pid,
    /// The watcher reads the other end, which is closed when the runner dies. Present until the drop.
    runner_lives: Option<PipeWriter>,
}

impl Watcher {
    fn start(runner: u64) -> io::Result<Self> {
        let (ends, runner_lives) = io::pipe()?;
        // SAFETY: the child of a process with threads may only make system calls; `watch` allocates nothing, takes no lock
        // and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            pid => match Pid::from_raw(pid) {
                Some(pid) => Ok(Self { pid, runner_lives: Some(runner_lives) }),
                None => watch(ends.as_raw_fd(), runner),
            },
        }
    }
}

impl Drop for Watcher {
    /// Tells the watcher that there is nothing to do, and waits for its end.
    fn drop(&mut self) {
        if let Some(mut runner_lives) = self.runner_lives.take() {
            // If this fails, the watcher takes the end of the pipe for the death of the runner, whose stages have ended.
            let _ = runner_lives.write_all(b".");
        }
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
    }
}

/// The watcher: waits until the runner says that it ends, or dies.
fn watch(runner: RawFd, marks: u64) -> ! {
    // SAFETY: these are plain system calls. The files that are closed belong to the runner, of which this process is a copy:
    // it must not hold its locks and streams. Nothing here uses them, or returns to code that does.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"pipe-watcher".as_ptr());
        libc::chdir(c"/".as_ptr());
        libc::dup2(runner, 0);
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
            // Linux before 5.9.
            for file in 1..4096 {
                libc::close(file);
            }
        }
        let mut byte = 0_u8;
        loop {
            match libc::read(0, (&raw mut byte).cast(), 1) {
                0 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(0),
            }
        }
        // A process that is being started may be missed once. One that has ended, but is not reaped, is found for ever.
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < 3 && rounds < 1000 {
            quiet = if kill_marked(marks) { 0 } else { quiet + 1 };
            rounds += 1;
            libc::usleep(2000);
        }
        libc::_exit(0)
    }
}

/// Kills every process on the machine that has a mark of the runner. Returns whether there was one. Does not allocate.
fn kill_marked(marks: u64) -> bool {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(processes) = rustix::fs::open(c"/proc", flags, Mode::empty()) else { return false };
    let mut entries = RawDir::new(processes, &mut buffer);
    let mut found = false;
    while let Some(Ok(entry)) = entries.next() {
        if let Some(pid) = parse_pid(entry.file_name())
            && let Some(Mark(mark)) = Mark::of(pid)
            && mark >> 32 == marks >> 32
        {
            found = true;
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    found
}

fn parse_pid(name: &CStr) -> Option<Pid> {
    let mut number = 0_i32;
    for byte in name.to_bytes() {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(i32::from(byte - b'0'))?;
    }
    Pid::from_raw(number)
}
