//! Starts a program without a copy of the runner's memory map.
//!
//! `std::process::Command` forks as soon as the child has to do something between fork and exec. A fork copies the page tables of the
//! runner, and the runner then takes a page fault for each page that it writes to: that is half of the time of a stage that does
//! nothing, and it grows with the size of the pipeline. Here the child borrows the memory of the runner until it executes the
//! program, and the calling thread waits for that, as `posix_spawn` does.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, PipeReader};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, getpid};

use super::descendants::Mark;

/// More than the few calls of the child need.
const STACK: usize = 64 << 10;

/// What `Command` says instead of a word that contains NUL. `Command::spawn` refuses such a command.
const WORD_WITH_NUL: &str = "<string-with-nul>";

/// A program that was started, and what it prints.
pub(super) struct Started {
    pub pid: Pid,
    pub stdout: PipeReader,
    pub stderr: PipeReader,
}

/// Everything that the child needs, made before it starts: it must not allocate.
struct Execution {
    program: CString,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    directory: CString,
    /// What becomes standard input, output and error.
    streams: [RawFd; 3],
    mark: Mark,
    hard_limit: Option<u64>,
    runner: Pid,
    /// The error number if the program could not be executed.
    error: AtomicI32,
}

/// Starts a command whose environment was cleared, in a process group of its own, with a mark, and so that it ends with the calling
/// thread. Its standard input is empty. On an error nothing was started, and the caller can try `Command::spawn`, which also finds the right
/// words: this function does not know everything that a command can be.
pub(super) fn spawn(command: &Command, mark: Mark, hard_limit: Option<u64>) -> io::Result<Started> {
    let environment: Vec<CString> = command
        .get_envs()
        .filter_map(|(name, value)| Some([name.as_bytes(), b"=", value?.as_bytes()].concat()))
        .map(CString::new)
        .collect::<Result<_, _>>()?;
    let words = || std::iter::once(command.get_program()).chain(command.get_args());
    if words().any(|word| word == WORD_WITH_NUL) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let arguments: Vec<CString> = words().map(text).collect::<io::Result<_>>()?;
    let program = find_program(command).ok_or(io::ErrorKind::NotFound)?;
    let input = File::open("/dev/null")?;
    let ((stdout, output), (stderr, errors)) = (io::pipe()?, io::pipe()?);
    let streams = [input.as_raw_fd(), output.as_raw_fd(), errors.as_raw_fd()];
    if streams.iter().any(|&stream| stream <= libc::STDERR_FILENO) {
        return Err(io::Error::other("a standard stream of this process is closed"));
    }
    let execution = Execution {
        program: text(program.as_os_str())?,
        arguments: pointers(&arguments),
        environment: pointers(&environment),
        directory: text(command.get_current_dir().unwrap_or(Path::new(".")).as_os_str())?,
        streams,
        mark,
        hard_limit,
        runner: getpid(),
        error: AtomicI32::new(0),
    };
    let pid = clone(&execution)?;
    match execution.error.load(Ordering::SeqCst) {
        0 => Ok(Started { pid, stdout, stderr }),
        error => {
            let wait = || rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            let _ = rustix::io::retry_on_intr(wait);
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

fn text(word: &OsStr) -> io::Result<CString> {
    Ok(CString::new(word.as_bytes())?)
}

/// Returns the pointers to the texts, with a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Looks for the program in the directories of the command's own `PATH`. Relative ones are left to `Command`.
fn find_program(command: &Command) -> Option<PathBuf> {
    let program = Path::new(command.get_program());
    if program.as_os_str().as_bytes().contains(&b'/') {
        return Some(program.to_owned());
    }
    let path = command.get_envs().find(|(name, _)| *name == "PATH")?.1?;
    let is_executable = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let absolute = std::env::split_paths(path).take_while(|directory| directory.is_absolute());
    absolute.map(|directory| directory.join(program)).find(is_executable)
}

/// Starts the child and returns when it has executed the program or has failed to.
fn clone(execution: &Execution) -> io::Result<Pid> {
    let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let argument = ptr::from_ref(execution).cast_mut().cast::<c_void>();
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are live values of the type that is written. No signal may be handled by the child while it uses the memory
    // of the runner.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is aligned and lives until the child has left it, because the calling thread is suspended until the
    // child executes a program or exits; so does `execution`. `execute` allocates nothing, takes no lock, and does not return.
    let pid = unsafe { libc::clone(execute, top.cast(), flags, argument) };
    let failure = io::Error::last_os_error();
    // SAFETY: the set was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    Pid::from_raw(pid.max(0)).ok_or(failure)
}

/// The child: prepares the process and executes the program.
extern "C" fn execute(execution: *mut c_void) -> c_int {
    // SAFETY: it is the reference that `clone` was given, and the parent is suspended.
    let execution = unsafe { &*execution.cast::<Execution>() };
    let error = match prepare(execution) {
        Ok(()) => {
            let Execution { program, arguments, environment, .. } = execution;
            // SAFETY: the texts end with NUL, and the lists with a null pointer.
            unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            io::Error::last_os_error()
        }
        Err(error) => error,
    };
    execution.error.store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::SeqCst);
    // SAFETY: ends the child without running anything of the runner.
    unsafe { libc::_exit(127) }
}

/// Does what has to be done in the new process. Makes system calls only.
fn prepare(execution: &Execution) -> io::Result<()> {
    execution.mark.apply(execution.hard_limit);
    rustix::process::setpgid(None, None)?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The runner may have died before the line above; then nothing would end this process.
    if rustix::process::getppid() != Some(execution.runner) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    for (place, &stream) in (libc::STDIN_FILENO..).zip(&execution.streams) {
        // SAFETY: both descriptors are open in the child, which has its own table of them.
        check(unsafe { libc::dup2(stream, place) })?;
    }
    // SAFETY: the text ends with NUL.
    check(unsafe { libc::chdir(execution.directory.as_ptr()) })?;
    reset_signals()
}

/// Gives every signal its default action, unless it is ignored, and `SIGPIPE`, which Rust ignores, too. Then lets them through. A
/// signal that reached the child as a member of the runner's group, such as Ctrl-Z of a terminal, is discarded before: the runner got it
/// as well, and a child that stops here would never be continued, and would stop the runner with it.
fn reset_signals() -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the action is a live value of the type that is read and written, and all zeros are the default action. The child has
        // its own table of actions. Signals that are not for programs are errors.
        unsafe {
            if libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) != 0 {
                continue;
            }
            let handler = action.assume_init_ref().sa_sigaction;
            if handler != libc::SIG_IGN || signal == libc::SIGPIPE {
                action = MaybeUninit::zeroed();
                // To ignore a signal discards it if it is pending.
                action.assume_init_mut().sa_sigaction = libc::SIG_IGN;
                libc::sigaction(signal, action.as_ptr(), ptr::null_mut());
                action = MaybeUninit::zeroed();
                libc::sigaction(signal, action.as_ptr(), ptr::null_mut());
            }
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is a live value of the type that is written, and then read.
    check(unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
    })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::child::Children;
    use super::super::exit::ProcessExit;
    use super::*;

    /// Runs a command in a cleared environment and returns how it ended and what it printed.
    fn run(program: &str, arguments: &[&str], directory: &Path) -> io::Result<(ProcessExit, String)> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).env_clear().env("A", "b c");
        command.env("PATH", std::env::var_os("PATH").unwrap());
        let children = Children::default();
        let mut child = children.spawn_cleared(&mut command)?;
        let mut printed = String::new();
        for stream in [&mut child.stdout, &mut child.stderr] {
            stream.take().unwrap().read_to_string(&mut printed)?;
        }
        Ok((child.wait()?.0, printed))
    }

    #[test]
    fn a_program_sees_its_arguments_its_environment_and_its_directory_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let text = r#"pwd; echo "$A" "$1" "${HOME-none}"; echo *; cat; echo error >&2; exit 7"#;
        let (exit, printed) = run("sh", &["-c", text, "sh", "x y"], &directory).unwrap();
        assert_eq!(exit, ProcessExit::Code(7));
        let expected = format!("{}\nb c x y none\n*\nerror\n", directory.display());
        assert_eq!(printed, expected);
    }

    #[test]
    fn handlers_and_ignored_pipes_of_the_runner_do_not_reach_the_program() {
        let text = r#"cat /proc/self/status | grep -E "SigCgt|SigBlk"; kill -PIPE $$; echo survived"#;
        let (exit, printed) = run("sh", &["-c", text], Path::new("/")).unwrap();
        assert_eq!(exit, ProcessExit::Signal(libc::SIGPIPE));
        assert_eq!(printed.matches("0000000000000000").count(), 2, "{printed}");
    }

    #[test]
    fn a_word_with_nul_is_refused_and_not_replaced() {
        assert!(run("sh", &["-c", "echo \"$1\"", "sh", "a\0b"], Path::new("/")).is_err());
    }

    #[test]
    fn what_cannot_be_executed_is_an_error_and_a_script_without_interpreter_is_run() {
        let directory = tempfile::tempdir().unwrap();
        let error = run("no-such-program", &[], directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = run("sh", &[], &directory.path().join("nowhere")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let script = directory.path().join("script");
        std::fs::write(&script, "echo ran").unwrap();
        assert_eq!(
            run("./script", &[], directory.path()).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(
            run("./script", &[], directory.path()).unwrap(),
            (ProcessExit::Code(0), "ran\n".to_owned())
        );
    }
}
