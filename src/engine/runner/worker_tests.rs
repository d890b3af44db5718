//! Tests of the runner and the worker's harness together, as two processes.

#![allow(clippy::print_stdout, reason = "chatter on standard output is what is tested")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Context;
use pipe_core::artifact::PlainFile;
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::fork_server;
use pipe_core::harness;
use pipe_core::job::Job;
use pipe_core::kind::Program;
use pipe_core::slot::Out;
use pipe_core::stage::{JobBody, RunStage, Runner};
use pipe_core::work::{Stopped, Work};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::Urgency;
use super::executor::{AttemptError, Executor, Task};
use super::local::{LocalProcess, Programs};

/// A job whose body says how it behaves.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WorkerAct {
    Chatter,
    Wait,
    /// Writes a [`Description`].
    Describe,
    /// Leaves a process behind that has left the group, and writes its id.
    Daemon,
    Crash,
    /// Writes the id of its process, and never ends.
    Linger,
    /// Computes for ever, without checking whether it should stop.
    Compute,
}

/// What a worker sees of its own process.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    /// Whether a server forked it.
    served: bool,
    pid: u32,
    parent: u32,
    group: u32,
    directory: PathBuf,
    threads: String,
    input: PathBuf,
    /// How many files are open.
    files: usize,
}

const OUT: Out<PlainFile> = Out::new("out", "out.txt");

impl JobBody for WorkerAct {
    const KIND: &'static str = "act";
}

impl RunStage for WorkerAct {
    type Stage = Self;

    fn run(act: &Self, work: &mut Work) -> anyhow::Result<()> {
        match act {
            Self::Chatter => {
                // As a C++ library would: past Rust's own standard output.
                std::fs::write("/proc/self/fd/1", "noise without a line end")?;
                println!("more noise");
                work.metric("f1", 0.5);
                work.save(OUT, &PlainFile(b"x".to_vec()))
            }
            Self::Describe => {
                let process = Description {
                    served: FORKED_FOR.get().is_some(),
                    pid: std::process::id(),
                    parent: std::os::unix::process::parent_id(),
                    group: rustix::process::getpgrp().as_raw_nonzero().get() as u32,
                    directory: std::env::current_dir()?,
                    threads: std::env::var("OMP_NUM_THREADS")?,
                    input: std::fs::read_link("/proc/self/fd/0")?,
                    files: std::fs::read_dir("/proc/self/fd")?.count(),
                };
                work.save(OUT, &PlainFile(serde_json::to_vec(&process)?))
            }
            Self::Daemon => {
                let text = "(setsid sh -c 'echo $$ > out; exec sleep 60' > /dev/null 2>&1 &); until [ -s out ]; do :; done";
                Command::new("sh").args(["-c", text]).status()?;
                Ok(())
            }
            Self::Crash => std::process::abort(),
            Self::Linger => {
                std::fs::write("worker", format!("{}\n", std::process::id()))?;
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            Self::Compute => {
                work.end_at_once_when_stopped()?;
                work.info("computing");
                loop {
                    std::hint::spin_loop();
                }
            }
            Self::Wait => {
                work.info("waiting");
                while !work.should_stop() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::fs::write(work.job().checkpoints.join("epoch"), "3").context("checkpoint")?;
                Err(Stopped.into())
            }
        }
    }
}

/// The job that a server forked the process for.
static FORKED_FOR: OnceLock<PathBuf> = OnceLock::new();

/// A server must have no other thread. Every test runs in a thread of its own, so that a server of tests serves before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static SERVE_BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn serve() {
        if std::env::var_os("PIPE_TEST_JOB").is_some_and(|job| job == fork_server::SERVE) {
            let _ = FORKED_FOR.set(fork_server::serve());
        }
    }
    serve
};

/// Not a test, but the main function of the worker processes below.
#[test]
#[ignore = "started by other tests as a worker process"]
fn as_a_process() {
    let started_for = || std::env::var_os("PIPE_TEST_JOB").map(PathBuf::from);
    let Some(job) = FORKED_FOR.get().cloned().or_else(started_for) else { return };
    let runners: &[Runner] = &[Runner::of::<WorkerAct>()];
    let exit = harness::run(&job, &[runners], &[]);
    std::process::exit(exit as i32);
}

/// Returns an executor with a `pipe` whose `pipe worker JOB` is the function above. So is its `pipe-worker JOB`; and
/// `pipe-worker --serve` writes its process id to `server` and serves.
fn executor(directory: &Path) -> LocalProcess {
    use std::os::unix::fs::PermissionsExt;
    let test = std::env::current_exe().unwrap();
    let options = "--exact runner::worker_tests::as_a_process --ignored --nocapture -q";
    let server = directory.join("server");
    for (name, before) in [
        ("pipe", "shift".to_owned()),
        ("pipe-worker", format!("if [ \"$1\" = --serve ]; then echo $$ > '{}'; fi", server.display())),
    ] {
        let program = directory.join(name);
        let script =
            format!("#!/bin/sh\n{before}\nPIPE_TEST_JOB=\"$1\" exec '{}' {options}\n", test.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let pipe = directory.join("pipe");
    LocalProcess::new(Programs { pipe, command: pipe_stages::command::argv, needs_worker: |_| false })
}

fn task(directory: &Path, act: &str) -> Task<'static> {
    let path = |name: &str| -> PathBuf { directory.join(name) };
    let job = Job {
        key: None,
        instance: "act".into(),
        kind: "act".into(),
        body: act.into(),
        inputs: BTreeMap::new(),
        outputs: BTreeMap::from([("out".into(), path("out"))]),
        scratch: directory.to_owned(),
        checkpoints: directory.to_owned(),
        threads: 1,
    };
    Task {
        job,
        program: Program::Pipe,
        fan_ins: BTreeSet::new(),
        environment: &[],
        packages: None,
        directory: directory.to_owned(),
        stdout: path("stdout"),
        stderr: path("stderr"),
        gpus: Vec::new(),
    }
}

#[test]
fn other_output_to_standard_output_does_not_disturb_events() {
    let directory = tempfile::tempdir().unwrap();
    let task = task(directory.path(), "chatter");
    let mut heard = Vec::new();
    let ended = executor(directory.path()).execute(&task, &mut |event| heard.push(event));
    assert!(ended.is_ok(), "{ended:?} {}", std::fs::read_to_string(&task.stderr).unwrap());
    assert!(
        heard.contains(&WorkerEvent::Metric { name: "f1".into(), value: 0.5, protocol: None, epoch: None }),
        "{heard:?}"
    );
    let said =
        |event: &WorkerEvent| matches!(event, WorkerEvent::Log { message, .. } if message.contains("noise"));
    assert!(!heard.iter().any(said), "{heard:?}");
    assert!(std::fs::read_to_string(&task.stderr).unwrap().contains("more noise"));
}

#[test]
fn a_gentle_stop_lets_the_stage_write_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let task = task(directory.path(), "wait");
    let executor = executor(directory.path());
    let ended = executor.execute(&task, &mut |event| {
        if event == (WorkerEvent::Log { level: LogLevel::Info, message: "waiting".into() }) {
            executor.stop(Urgency::Gently);
        }
    });
    assert_eq!(ended, Err(AttemptError::Stopped { checkpoint: false }));
    assert_eq!(std::fs::read_to_string(directory.path().join("epoch")).unwrap(), "3");
}

#[test]
fn a_gentle_stop_ends_a_stage_without_a_checkpoint_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    let mut stopped = None;
    let ended = executor.execute(&torch_task(directory.path(), "compute"), &mut |event| {
        if event == (WorkerEvent::Log { level: LogLevel::Info, message: "computing".into() }) {
            stopped = Some(Instant::now());
            executor.stop(Urgency::Gently);
        }
    });
    assert_eq!(ended, Err(AttemptError::Stopped { checkpoint: false }));
    let seconds = stopped.unwrap().elapsed().as_secs_f64();
    assert!(seconds < 5.0, "it took {seconds} s");
}

/// Returns a job for `pipe-worker`.
fn torch_task(directory: &Path, act: &str) -> Task<'static> {
    Task { program: Program::Worker, ..task(directory, act) }
}

fn describe(executor: &LocalProcess, task: &Task) -> Description {
    let ended = executor.execute(task, &mut |_| {});
    assert!(ended.is_ok(), "{ended:?} {}", std::fs::read_to_string(&task.stderr).unwrap_or_default());
    serde_json::from_slice(&std::fs::read(&task.job.outputs["out"]).unwrap()).unwrap()
}

fn process_in(file: &Path) -> Pid {
    let written = || std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok();
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(pid) = written() {
            return Pid::from_raw(pid).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{} contains no process id", file.display());
}

fn runs(pid: Pid) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z")
}

#[test]
fn a_forked_worker_is_like_one_that_was_started() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    let started = describe(&executor, &task(directory.path(), "describe"));
    let forked = describe(&executor, &torch_task(directory.path(), "describe"));
    let again = describe(&executor, &torch_task(directory.path(), "describe"));
    assert_eq!([started.served, forked.served, again.served], [false, true, true]);
    assert_ne!(forked.pid, again.pid);
    for worker in [forked, again] {
        assert_eq!(worker.group, worker.pid);
        let own = Description { served: false, pid: started.pid, group: started.group, ..worker };
        assert_eq!(own, started);
    }
    assert_eq!((started.parent, started.input), (std::process::id(), "/dev/null".into()));
}

#[test]
fn workers_with_another_number_of_threads_come_from_another_server() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    for threads in [1, 3, 1] {
        let mut task = torch_task(directory.path(), "describe");
        task.job.threads = threads;
        let forked = describe(&executor, &task);
        assert_eq!((forked.served, forked.threads), (true, threads.to_string()));
    }
}

#[test]
fn a_crash_of_a_forked_worker_fails_only_its_own_stage() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    match executor.execute(&torch_task(directory.path(), "crash"), &mut |_| {}) {
        Err(AttemptError::Failed { error, .. }) => assert!(error.contains("SIGABRT"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(describe(&executor, &torch_task(directory.path(), "describe")).served);
}

#[test]
fn workers_start_on_their_own_after_their_server_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    assert!(describe(&executor, &torch_task(directory.path(), "describe")).served);
    kill_process(process_in(&directory.path().join("server")), Signal::KILL).unwrap();
    assert!(!describe(&executor, &torch_task(directory.path(), "describe")).served);
}

#[test]
fn a_server_that_dies_does_not_disturb_the_worker_that_it_forked() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    let ended = executor.execute(&torch_task(directory.path(), "wait"), &mut |event| {
        if matches!(event, WorkerEvent::Log { .. }) {
            kill_process(process_in(&directory.path().join("server")), Signal::KILL).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            executor.stop(Urgency::Gently);
        }
    });
    assert_eq!(ended, Err(AttemptError::Stopped { checkpoint: false }));
    assert_eq!(std::fs::read_to_string(directory.path().join("epoch")).unwrap(), "3");
}

#[test]
fn what_a_forked_worker_left_behind_ends_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let ended = executor(directory.path()).execute(&torch_task(directory.path(), "daemon"), &mut |_| {});
    assert!(ended.is_ok(), "{ended:?}");
    assert!(!runs(process_in(&directory.path().join("out"))));
}

#[test]
fn the_server_ends_with_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let executor = executor(directory.path());
    describe(&executor, &torch_task(directory.path(), "describe"));
    let server = process_in(&directory.path().join("server"));
    assert!(runs(server));
    drop(executor);
    assert!(!runs(server));
}

/// A process that is killed, also if the test fails.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Not a test, but the main function of a runner that is killed below.
#[test]
#[ignore = "started by another test as a runner"]
fn as_a_runner() {
    let Some(directory) = std::env::var_os("PIPE_TEST_RUNNER").map(PathBuf::from) else { return };
    let _ = executor(&directory).execute(&torch_task(&directory, "linger"), &mut |_| {});
}

#[test]
fn a_forked_worker_and_its_server_end_when_the_runner_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let runner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runner::worker_tests::as_a_runner", "--ignored", "-q"])
        .env("PIPE_TEST_RUNNER", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let runner = Killed(runner);
    let worker = process_in(&directory.path().join("worker"));
    let server = process_in(&directory.path().join("server"));
    assert!(runs(worker) && runs(server));
    drop(runner);
    let deadline = Instant::now() + Duration::from_secs(20);
    while runs(worker) || runs(server) {
        assert!(Instant::now() < deadline, "worker: {}, server: {}", runs(worker), runs(server));
        std::thread::sleep(Duration::from_millis(5));
    }
}
