//! Tests of the runner and the worker's harness together, as two processes.

#![allow(clippy::print_stdout, reason = "chatter on standard output is what is tested")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pipe_core::artifact::PlainFile;
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::harness;
use pipe_core::job::Job;
use pipe_core::kind::Program;
use pipe_core::slot::Out;
use pipe_core::stage::{JobBody, RunStage, Runner};
use pipe_core::work::{Stopped, Work};
use serde::Deserialize;

use super::Urgency;
use super::executor::{AttemptError, Executor, Task};
use super::local::{LocalProcess, Programs};

/// A job whose body says how it behaves.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WorkerAct {
    Chatter,
    Wait,
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

/// Not a test, but the main function of the worker processes below.
#[test]
#[ignore = "started by other tests as a worker process"]
fn as_a_process() {
    let Some(job) = std::env::var_os("PIPE_TEST_JOB") else { return };
    let runners: &[Runner] = &[Runner::of::<WorkerAct>()];
    let exit = harness::run(Path::new(&job), &[runners], &[]);
    std::process::exit(exit as i32);
}

/// Returns an executor with a `pipe` whose `pipe worker JOB` is the function above.
fn executor(directory: &Path) -> LocalProcess {
    use std::os::unix::fs::PermissionsExt;
    let pipe = directory.join("pipe");
    let test = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\nPIPE_TEST_JOB=\"$2\" exec '{}' --exact runner::worker_tests::as_a_process --ignored --nocapture -q\n",
        test.display()
    );
    std::fs::write(&pipe, script).unwrap();
    std::fs::set_permissions(&pipe, std::fs::Permissions::from_mode(0o755)).unwrap();
    LocalProcess::new(Programs { pipe, command: pipe_stages::command::argv })
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
        heard.contains(&WorkerEvent::Metric { name: "f1".into(), value: 0.5, protocol: None }),
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
