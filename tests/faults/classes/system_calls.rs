//! System calls that fail, and SIGKILL at system calls, by strace.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Fault, lacks_program, lacks_worker};
use crate::golden::Golden;
use crate::process::Running;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// Groups of calls that do the same. Not in the list are
/// - `close`: strace answers in the kernel's place, so that the descriptor would stay open, which no kernel does;
/// - `mmap`, `brk`, `getrandom`: the standard library aborts without memory and without random numbers;
/// - `futex`, `exit` and calls that cannot fail.
pub(super) const GROUPS: [&str; 24] = [
    "open,openat,creat",
    "read,readv,pread64",
    "write,writev,pwrite64",
    "fsync,fdatasync,sync_file_range,syncfs",
    "rename,renameat,renameat2",
    "unlink,unlinkat,rmdir",
    "mkdir,mkdirat",
    "link,linkat",
    "symlink,symlinkat",
    "readlink,readlinkat",
    "stat,lstat,newfstatat,statx",
    "fstat",
    "getdents64",
    "ftruncate,fallocate",
    "flock,fcntl",
    "chmod,fchmod,fchmodat",
    "utimensat",
    "copy_file_range,sendfile,ioctl",
    "clone,clone3,fork,vfork",
    "execve",
    "wait4,waitid",
    "pipe,pipe2,dup,dup2,dup3",
    "poll,ppoll",
    "chdir,getcwd,access,faccessat2,lseek",
];

const ERRORS: [&str; 6] = ["ENOSPC", "EIO", "EACCES", "EMFILE", "ENOMEM", "EINTR"];

/// Calls of a group that fail in every process and thread of a command.
#[derive(Serialize, Deserialize)]
pub(super) struct SystemCall {
    pipeline: Pipeline,
    start: Start,
    command: Vec<String>,
    calls: String,
    error: String,
    /// Which call of each thread fails, from 1.
    nth: u32,
    /// Whether all later calls fail too.
    persistent: bool,
}

/// Returns the commands that are disturbed. Most trials disturb a run; other commands find everything up to date.
fn command(rng: &mut Rng, start: Start) -> Vec<String> {
    let run = "run pipeline.yaml --json";
    let others = ["cache gc --yes", "cache fsck --repair", "lock pipeline.yaml", "status pipeline.yaml"];
    let line = if start == Start::Fresh && rng.chance(50) { rng.pick(&others) } else { run };
    line.split(' ').map(str::to_owned).collect()
}

impl SystemCall {
    /// Draws from all combinations of a group, an error, a number, and once or for ever. Each comes once before any comes
    /// twice.
    fn of(pipeline: Pipeline, rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        let calls = golden.calls(pipeline)?;
        let numbers: Vec<(usize, u32)> = calls
            .iter()
            .enumerate()
            .flat_map(|(group, most)| (1..=*most).map(move |nth| (group, nth)))
            // The standard library ends a program whose very first `poll` fails, before `main`.
            .filter(|&(group, nth)| nth > 1 || !GROUPS[group].starts_with("poll"))
            .collect();
        let all = (numbers.len() * ERRORS.len() * 2) as u64;
        // A prime larger than any number of combinations visits all of them in a scattered order.
        let chosen = (n.wrapping_mul(1_000_003) % all) as usize;
        let (group, nth) = numbers[chosen % numbers.len()];
        let rest = chosen / numbers.len();
        let error = ERRORS[rest % ERRORS.len()];
        let start = rng.pick(&[Start::Cold, Start::Edited, Start::Edited, Start::Fresh]);
        Ok(Self {
            pipeline,
            start,
            command: command(rng, start),
            calls: GROUPS[group].to_owned(),
            error: error.to_owned(),
            nth,
            // After EINTR a program has to try again, so it would never end.
            persistent: rest / ERRORS.len() == 1 && error != "EINTR",
        })
    }

    /// Runs the command under strace.
    fn disturb<'a>(&self, golden: &'a Golden, what: &str) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, self.pipeline, self.start)?;
        let log = trial.place.path().join("trace");
        let when = if self.persistent { format!("{}+", self.nth) } else { self.nth.to_string() };
        let inject = format!("inject={}:{what}:when={when}", known(&self.calls));
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        let running = trace(&trial, &log, &known(&self.calls), &["-e", &inject], &words)?;
        let killed = what.starts_with("signal");
        let ended = trial.finish(running, killed)?;
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let mark = if killed { "+++ killed by SIGKILL" } else { "(INJECTED)" };
        trial.faults += log.lines().filter(|line| line.contains(mark)).count() as u64;
        if ended.code == Some(0) && self.command[0] == "run" {
            crate::oracle::check_results(&mut trial, "the disturbed run")?;
        }
        Ok(trial)
    }
}

/// Starts `pipe` under strace, which follows all its children.
fn trace(trial: &Trial, log: &Path, calls: &str, options: &[&str], words: &[&str]) -> Result<Running> {
    let log = log.to_string_lossy();
    let mut arguments = vec!["-f", "-q", "-o", &log];
    // It is faster, but strace 6.1 does not send signals with it.
    if !options.iter().any(|option| option.contains("signal=KILL")) {
        arguments.push("--seccomp-bpf");
    }
    arguments.push("-e");
    let calls = format!("trace={calls}");
    arguments.push(&calls);
    arguments.extend(options);
    let pipe = trial.golden.pipe.to_string_lossy();
    arguments.push(&pipe);
    arguments.extend(words);
    Running::start(trial.command(Path::new("strace"), &arguments))
}

/// Marks all calls of a group with `?`, so that strace ignores those that this processor does not have.
fn known(calls: &str) -> String {
    calls.split(',').map(|call| format!("?{call}")).collect::<Vec<_>>().join(",")
}

/// Counts the calls of each group that the busiest thread of an undisturbed run makes.
pub fn count(golden: &Golden, pipeline: Pipeline) -> Result<Vec<u32>> {
    let trial = Trial::new(golden, pipeline, Start::Cold)?;
    let log = trial.place.path().join("trace");
    let all = GROUPS.map(known).join(",");
    let ended = trace(&trial, &log, &all, &["-e", "signal=none"], &["run", "pipeline.yaml"])?.finish()?;
    anyhow::ensure!(ended.code == Some(0), "an undisturbed run under strace failed: {ended:?}");
    let mut counts = vec![std::collections::BTreeMap::<&str, u32>::new(); GROUPS.len()];
    let text = std::fs::read_to_string(&log)?;
    for line in text.lines().filter(|line| !line.contains(" resumed>")) {
        let (thread, rest) = line.split_once(' ').context("a line of strace without a thread")?;
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        if let Some(group) = GROUPS.iter().position(|group| group.split(',').any(|call| call == name)) {
            *counts[group].entry(thread).or_default() += 1;
        }
    }
    Ok(counts.into_iter().map(|threads| threads.into_values().max().unwrap_or(0)).collect())
}

impl Fault for SystemCall {
    const NAME: &'static str = "call";
    const TITLE: &'static str =
        "the N-th system call of a group fails, once or from then on, in every thread and child";
    const WEIGHT: u32 = 30;

    fn lacks(_: &Golden) -> Option<String> {
        lacks_program("strace")
    }

    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        Self::of(Pipeline::Commands, rng, n, golden)
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        self.disturb(golden, &format!("error={}", self.error))
    }
}

/// Failing system calls in a run that trains a network.
#[derive(Serialize, Deserialize)]
pub(super) struct CallInTraining(SystemCall);

impl Fault for CallInTraining {
    const NAME: &'static str = "call-training";
    const TITLE: &'static str = "the same while `pipe-worker` trains a network";
    const WEIGHT: u32 = 10;

    fn lacks(golden: &Golden) -> Option<String> {
        lacks_program("strace").or_else(|| lacks_worker(golden))
    }

    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        Ok(Self(SystemCall::of(Pipeline::Training, rng, n, golden)?))
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        self.0.inject(golden)
    }
}

/// SIGKILL at a system call, after which the user may edit the data.
#[derive(Serialize, Deserialize)]
pub(super) struct KillAtCall {
    call: SystemCall,
    then_edit: bool,
}

impl Fault for KillAtCall {
    const NAME: &'static str = "kill-call";
    const TITLE: &'static str =
        "SIGKILL at the N-th system call of a group; in half of the trials the user edits the data";
    const WEIGHT: u32 = 20;

    fn lacks(_: &Golden) -> Option<String> {
        lacks_program("strace")
    }

    fn draw(rng: &mut Rng, n: u64, golden: &Golden) -> Result<Self> {
        let call = SystemCall::of(Pipeline::Commands, rng, n, golden)?;
        Ok(Self {
            call: SystemCall { error: String::new(), persistent: false, ..call },
            then_edit: rng.chance(50),
        })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = self.call.disturb(golden, "signal=KILL")?;
        if self.then_edit {
            trial.edit_again()?;
        }
        Ok(trial)
    }
}
