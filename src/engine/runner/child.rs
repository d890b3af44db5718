//! Child processes of the runner. Each leads its own process group, ends when the runner ends, and can be stopped from
//! another thread. When it has ended, everything that it started is ended, too; see `descendants`.

use std::collections::BTreeSet;
use std::io::{self, PipeReader};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, getpid, getppid, getrlimit, kill_process_group, setpgid,
    waitid,
};

use super::descendants::{self, Mark, Marks};
use super::executor::ResourceUsage;
use super::exit::ProcessExit;
use super::stop::Urgency;
use super::vfork;

/// The running process groups. The id of a group is removed before its leader is reaped, so that a signal can never
/// reach another process that got the same id afterwards.
#[derive(Debug, Default)]
pub(super) struct Children {
    running: Mutex<Running>,
    marks: Marks,
}

#[derive(Debug, Default)]
struct Running {
    stopping: Option<Urgency>,
    groups: BTreeSet<i32>,
}

/// A child that has been started and must be waited for.
pub(super) struct ChildProcess<'a> {
    children: &'a Children,
    /// What it prints, if it was started with pipes for that.
    pub stdout: Option<PipeReader>,
    pub stderr: Option<PipeReader>,
    pid: Pid,
    mark: Mark,
    started: Instant,
}

/// A child that serves the runner and belongs to no stage. It outlives the thread that started it.
pub(super) struct ServerProcess(Child);

/// How often a program that is busy is tried again, and after which time.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Starts a command. A program that was just written is busy for a moment if another thread started a process meanwhile,
/// which holds the open file until it runs its own program.
fn start(command: &mut Command) -> io::Result<Child> {
    for _ in 0..BUSY_ATTEMPTS {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
    command.spawn()
}

impl Children {
    /// Starts the command. The child dies with the calling thread, which therefore has to wait for it.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<ChildProcess<'_>> {
        let runner = getpid();
        let mark = self.marks.next();
        let hard_limit = getrlimit(Resource::Locks).maximum;
        command.process_group(0);
        // SAFETY: between fork and exec only three system calls are made, without allocation and
        // without locks, which is allowed in the child of a process with threads.
        unsafe {
            command.pre_exec(move || {
                mark.apply(hard_limit);
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // The runner may have died before the line above; then nothing would end this process.
                if getppid() != Some(runner) {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        let started = Instant::now();
        let process = start(command)?;
        let pid = Pid::from_child(&process);
        self.register(pid);
        let stdout = process.stdout.map(|stream| PipeReader::from(OwnedFd::from(stream)));
        let stderr = process.stderr.map(|stream| PipeReader::from(OwnedFd::from(stream)));
        Ok(ChildProcess { children: self, stdout, stderr, pid, mark, started })
    }

    /// Like [`Children::spawn`], for a command whose environment was cleared and which prints to pipes, and without a fork where
    /// possible.
    pub(super) fn spawn_cleared(&self, command: &mut Command) -> io::Result<ChildProcess<'_>> {
        let mark = self.marks.next();
        let started = Instant::now();
        let Ok(process) = vfork::spawn(command, mark, getrlimit(Resource::Locks).maximum) else {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            return self.spawn(command);
        };
        self.register(process.pid);
        let (stdout, stderr) = (Some(process.stdout), Some(process.stderr));
        Ok(ChildProcess { children: self, stdout, stderr, pid: process.pid, mark, started })
    }

    /// Starts a command that ends when the value is dropped. It gets a mark, so that it also ends if the runner dies.
    pub(super) fn spawn_server(&self, command: &mut Command) -> io::Result<ServerProcess> {
        let mark = self.marks.next();
        let hard_limit = getrlimit(Resource::Locks).maximum;
        command.process_group(0);
        // SAFETY: between fork and exec only one system call is made, without allocation and without locks, which is
        // allowed in the child of a process with threads.
        unsafe {
            command.pre_exec(move || {
                mark.apply(hard_limit);
                Ok(())
            });
        }
        start(command).map(ServerProcess)
    }

    /// Takes over a process that a server has forked for a stage and that has not started its work. Fails if it is not a child of
    /// the runner.
    pub(super) fn adopt(
        &self,
        pid: Pid,
        stdout: PipeReader,
        stderr: PipeReader,
    ) -> io::Result<ChildProcess<'_>> {
        let started = Instant::now();
        setpgid(Some(pid), Some(pid))?;
        let mark = self.marks.next();
        mark.apply_to(pid);
        self.register(pid);
        Ok(ChildProcess { children: self, stdout: Some(stdout), stderr: Some(stderr), pid, mark, started })
    }

    /// Notes the group of a process, and passes on a request to stop that came before.
    fn register(&self, pid: Pid) {
        let mut running = self.lock();
        running.groups.insert(pid.as_raw_nonzero().get());
        if let Some(urgency) = running.stopping {
            signal(pid, urgency);
        }
    }

    pub(super) fn stop(&self, urgency: Urgency) {
        let mut running = self.lock();
        running.stopping = Some(urgency);
        for &group in &running.groups {
            if let Some(group) = Pid::from_raw(group) {
                signal(group, urgency);
            }
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a group. A group that has already ended is no error.
fn signal(group: Pid, urgency: Urgency) {
    let signal = match urgency {
        Urgency::Gently => Signal::TERM,
        Urgency::Now => Signal::KILL,
    };
    let _ = kill_process_group(group, signal);
}

impl ChildProcess<'_> {
    /// Returns whether it has ended; it stays a zombie until [`ChildProcess::wait`].
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(self.pid), options)?.is_some())
    }

    /// Kills its whole group, also after the process itself has ended.
    pub(super) fn kill(&self) {
        signal(self.pid, Urgency::Now);
    }

    /// Waits for its end, kills what it left running, and returns how it ended and what it used. Fails if a process that it
    /// left running cannot be ended: it could still write to the outputs.
    pub(super) fn wait(self) -> io::Result<(ProcessExit, ResourceUsage)> {
        while let Err(error) = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let seconds = self.started.elapsed().as_secs_f64();
        signal(self.pid, Urgency::Now);
        let ended = descendants::end_all(self.mark, self.pid);
        let group = self.pid.as_raw_nonzero().get();
        self.children.lock().groups.remove(&group);
        let reaped = reap(group, seconds);
        ended.and(reaped)
    }
}

fn reap(pid: i32, seconds: f64) -> io::Result<(ProcessExit, ResourceUsage)> {
    let mut status = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live values of the types that wait4 writes; the process is a
    // child of this process that no other thread waits for.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, used.as_mut_ptr()) };
    if reaped != pid {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed is a valid rusage, and wait4 has filled it in.
    let used = unsafe { used.assume_init() };
    let seconds_of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let usage = ResourceUsage {
        seconds,
        cpu_seconds: seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
        max_rss_bytes: used.ru_maxrss as u64 * 1024,
    };
    Ok((ProcessExit::from_wait_status(status), usage))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sh(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn the_exit_code_and_the_usage_are_returned() {
        let children = Children::default();
        let child =
            children.spawn(&mut sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3")).unwrap();
        let (exit, usage) = child.wait().unwrap();
        assert_eq!(exit, ProcessExit::Code(3));
        assert!(usage.cpu_seconds > 0.0 && usage.seconds > 0.0, "{usage:?}");
        assert!(usage.max_rss_bytes > 100 << 10 && usage.max_rss_bytes < 1 << 30, "{usage:?}");
        let (exit, _) = children.spawn(&mut sh("kill -SEGV $$")).unwrap().wait().unwrap();
        assert_eq!(exit, ProcessExit::Signal(libc::SIGSEGV));
    }

    #[test]
    fn a_stop_reaches_the_whole_group_and_children_that_start_later() {
        let children = Children::default();
        let child = children.spawn(&mut sh("sleep 60 & sleep 60; wait")).unwrap();
        children.stop(Urgency::Gently);
        assert_eq!(child.wait().unwrap().0, ProcessExit::Signal(libc::SIGTERM));
        let late = children.spawn(&mut sh("sleep 60")).unwrap();
        assert_eq!(late.wait().unwrap().0, ProcessExit::Signal(libc::SIGTERM));
        assert!(children.lock().groups.is_empty());
    }

    #[test]
    fn a_child_that_ignores_the_gentle_signal_is_killed_by_the_urgent_one() {
        let children = Children::default();
        let child = children.spawn(&mut sh("trap '' TERM; while :; do sleep 0.01; done")).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        children.stop(Urgency::Gently);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!child.has_ended().unwrap());
        children.stop(Urgency::Now);
        assert_eq!(child.wait().unwrap().0, ProcessExit::Signal(libc::SIGKILL));
    }

    #[test]
    fn background_processes_of_a_command_end_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let children = Children::default();
        let text = format!("sleep 60 & echo $! > {}", pid_file.display());
        children.spawn(&mut sh(&text)).unwrap().wait().unwrap();
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        for _ in 0..200 {
            if state().is_empty() || state().contains(") Z") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("still there: {}", state());
    }

    /// Returns the process id that a command wrote to a file, when it is there.
    fn pid_in(file: &std::path::Path) -> i32 {
        for _ in 0..1000 {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().parse().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{} was not written", file.display());
    }

    fn runs(pid: i32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    }

    /// A command whose background process leaves its group, its session, its environment and its parent.
    fn daemon(pid_file: &std::path::Path, then: &str) -> Command {
        let inner = format!("env -i setsid sh -c 'echo $$ > {}; exec sleep 60'", pid_file.display());
        sh(&format!("({inner} > /dev/null 2>&1 &); {then}"))
    }

    #[test]
    fn a_process_that_left_its_group_ends_with_its_own_command_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let [long, short] = ["long", "short"].map(|name| directory.path().join(name));
        let children = Children::default();
        let lasting = children.spawn(&mut daemon(&long, "sleep 60")).unwrap();
        let (long, short_file) = (pid_in(&long), short);
        let until_written = format!("until [ -s {} ]; do sleep 0.01; done", short_file.display());
        let (exit, _) = children.spawn(&mut daemon(&short_file, &until_written)).unwrap().wait().unwrap();
        assert_eq!(exit, ProcessExit::Code(0));
        assert!(!runs(pid_in(&short_file)), "its command has ended");
        assert!(runs(long), "its command still runs");
        lasting.kill();
        lasting.wait().unwrap();
        assert!(!runs(long));
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let children = Children::default();
        let pid = std::thread::scope(|scope| {
            scope.spawn(|| children.spawn(&mut sh("exec sleep 60")).unwrap().pid).join().unwrap()
        });
        // No thread waited for it: the kernel has to kill it.
        let (exit, _) = reap(pid.as_raw_nonzero().get(), 0.0).unwrap();
        assert_eq!(exit, ProcessExit::Signal(libc::SIGKILL));
    }
}
