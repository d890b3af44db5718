//! Explains how a process ended.

use rustix::process::Signal;

use super::executor::ResourceUsage;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl ProcessExit {
    /// Reads the status that `wait` returns.
    pub(super) fn from_wait_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }

    pub(super) fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns whether SIGKILL ended the process, or its child if it is a shell.
    pub(super) fn is_kill(self) -> bool {
        [Self::Signal(libc::SIGKILL), Self::Code(128 + libc::SIGKILL)].contains(&self)
    }

    /// Says why the process failed. `out_of_memory` is whether the kernel counted an out-of-memory kill meanwhile; `None`
    /// if it does not report this.
    pub(super) fn explain(self, usage: ResourceUsage, out_of_memory: Option<bool>) -> String {
        match self {
            Self::Code(127) => "it ended with exit code 127: the shell did not find a program".to_owned(),
            Self::Code(126) => "it ended with exit code 126: a program could not be executed".to_owned(),
            // A shell reports its child's signal this way.
            Self::Code(code) if code == 128 + libc::SIGKILL => {
                format!("it ended with exit code {code}: {}", killed(usage, out_of_memory))
            }
            Self::Code(code) if signal_name(code - 128).is_some() => {
                format!("it ended with exit code {code}, as after the signal {}", name_of(code - 128))
            }
            Self::Code(code) => format!("it ended with exit code {code}"),
            Self::Signal(libc::SIGKILL) => killed(usage, out_of_memory),
            Self::Signal(signal) => {
                let hint = match signal {
                    libc::SIGSEGV | libc::SIGBUS => " (it accessed memory that it may not)",
                    libc::SIGABRT => " (it aborted itself; its last lines may say why)",
                    libc::SIGILL => " (it was built for another processor)",
                    libc::SIGXCPU => " (a limit on processor time, see `ulimit -t`)",
                    libc::SIGXFSZ => " (a limit on file size, see `ulimit -f`)",
                    _ => "",
                };
                format!("it was ended by the signal {}{hint}", name_of(signal))
            }
        }
    }
}

fn killed(usage: ResourceUsage, out_of_memory: Option<bool>) -> String {
    let peak = usage.max_rss_bytes as f64 / (1u64 << 20) as f64;
    let advice = "let it use less memory, run fewer stages at a time (`--jobs`), \
                  or state its `resources: { mem: ... }` so that it waits for free memory";
    match out_of_memory {
        Some(true) => format!(
            "it was killed because the machine ran out of memory (SIGKILL; it had used {peak:.0} MB): {advice}"
        ),
        _ => format!(
            "it was killed by SIGKILL, which pipe did not send: most likely the machine ran out of memory \
             (it had used {peak:.0} MB). If so, {advice}"
        ),
    }
}

fn name_of(signal: i32) -> String {
    signal_name(signal).map_or_else(|| signal.to_string(), str::to_owned)
}

fn signal_name(signal: i32) -> Option<&'static str> {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    names.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named() {
        let explain = |exit: ProcessExit| exit.explain(ResourceUsage::default(), None);
        assert!(explain(ProcessExit::Signal(11)).contains("SIGSEGV"));
        assert!(explain(ProcessExit::Signal(6)).contains("SIGABRT"));
        assert_eq!(
            explain(ProcessExit::Code(143)),
            "it ended with exit code 143, as after the signal SIGTERM"
        );
        assert_eq!(explain(ProcessExit::Code(3)), "it ended with exit code 3");
        assert!(explain(ProcessExit::Code(127)).contains("did not find a program"));
    }

    #[test]
    fn a_kill_that_we_did_not_send_is_explained_by_lack_of_memory() {
        let usage = ResourceUsage { max_rss_bytes: 300 << 20, ..ResourceUsage::default() };
        let likely = ProcessExit::Signal(9).explain(usage, None);
        assert!(likely.contains("most likely") && likely.contains("300 MB"), "{likely}");
        let certain = ProcessExit::Code(137).explain(usage, Some(true));
        assert!(!certain.contains("most likely") && certain.contains("ran out of memory"), "{certain}");
    }
}
