//! Tests of stages that run as processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::*;
use crate::plan::sample;
use crate::spec::pipeline::{Input, Instance};
use pipe_core::event::LogLevel;
use pipe_core::job::{Job, JobInput};

struct Bench {
    directory: tempfile::TempDir,
    instance: Instance,
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), instance: sample::stage("it", &[]) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn task(&self, body: Value) -> Task<'_> {
        fs::create_dir(self.path("work")).unwrap();
        fs::create_dir(self.path("tmp")).unwrap();
        let job = Job {
            key: None,
            instance: "it".into(),
            kind: self.instance.kind.into(),
            body,
            inputs: BTreeMap::new(),
            outputs: BTreeMap::from([("the-table".into(), self.path("work/t.csv"))]),
            scratch: self.path("work"),
            checkpoints: self.path("checkpoints"),
            threads: 3,
        };
        let directory = self.directory.path().to_owned();
        let (stdout, stderr) = (self.path("stdout"), self.path("stderr"));
        let Instance { program, inputs, environment, .. } = &self.instance;
        let fan_ins = inputs.iter().filter(|input| input.many).map(|input| input.slot.clone()).collect();
        let (packages, gpus) = (None, Vec::new());
        Task { job, program: *program, fan_ins, environment, packages, directory, stdout, stderr, gpus }
    }

    /// A `pipe` that is a shell script.
    fn executor(&self, worker: &str) -> LocalProcess {
        let pipe = self.path("pipe");
        fs::write(&pipe, format!("#!/bin/sh\n{worker}\n")).unwrap();
        fs::set_permissions(&pipe, fs::Permissions::from_mode(0o755)).unwrap();
        LocalProcess::new(Programs {
            pipe,
            command: |body| serde_json::from_value(body.clone()),
            needs_worker: |job| !job.inputs.is_empty(),
        })
    }

    fn command(&mut self, script: &str) -> (Result<ResourceUsage, AttemptError>, String) {
        self.instance.program = Program::Command;
        let task = self.task(json!(["sh", "-c", script]));
        let ended = self.executor("").execute(&task, &mut |_| {});
        (ended, fs::read_to_string(self.path("stdout")).unwrap_or_default())
    }

    fn worker(&self, script: &str) -> (Result<ResourceUsage, AttemptError>, Vec<WorkerEvent>) {
        let mut heard = Vec::new();
        let executor = self.executor(script).warn_after_silence(Duration::from_millis(50));
        let ended = executor.execute(&self.task(Value::Null), &mut |event| heard.push(event));
        (ended, heard)
    }
}

fn failed(outcome: Result<ResourceUsage, AttemptError>) -> String {
    match outcome {
        Err(AttemptError::Failed { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_sees_nothing_but_what_it_declared() {
    let mut bench = Bench::new();
    bench.instance.environment = vec![("SHOWN".into(), Some("yes".into())), ("UNSET".into(), None)];
    let (outcome, stdout) = bench.command("env | cut -d= -f1 | sort; ls -A; pwd");
    assert!(outcome.is_ok(), "{outcome:?}");
    let work = bench.path("work").canonicalize().unwrap();
    let expected = format!(
        "HOME\nLANG\nPATH\nPIPE_OUT_THE_TABLE\nPIPE_THREADS\nPWD\nSHOWN\nTMPDIR\nTZ\n{}\n",
        work.display()
    );
    // Some shells export what others do not.
    let stdout: String =
        stdout.lines().filter(|l| !["OLDPWD", "SHLVL", "_"].contains(l)).map(|l| format!("{l}\n")).collect();
    assert_eq!(stdout, expected);
}

#[test]
fn inputs_are_found_by_name_and_a_fan_in_by_axes() {
    let mut bench = Bench::new();
    fs::write(bench.path("blob"), "content").unwrap();
    let input = |slot: &str, many| Input { slot: slot.into(), many, sources: Vec::new() };
    bench.instance.inputs = vec![input("my-data", false), input("folds", true)];
    bench.instance.program = Program::Command;
    let script =
        r#"cat "$PIPE_IN_MY_DATA"; cat in/my-data; ls "$PIPE_IN_FOLDS"; cat "in/folds/seed=1,path=a%2Fb""#;
    let mut task = bench.task(json!(["sh", "-c", script]));
    let artifact = |axes: &[(&str, &str)]| JobInput {
        axes: axes.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect(),
        artifact: "file".into(),
        path: bench.path("blob"),
        blob: None,
    };
    let folds = vec![artifact(&[("seed", "0")]), artifact(&[("seed", "1"), ("path", "a/b")]), artifact(&[])];
    task.job.inputs = BTreeMap::from([("my-data".into(), vec![artifact(&[])]), ("folds".into(), folds)]);
    let ended = bench.executor("").execute(&task, &mut |_| {});
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(
        fs::read_to_string(&task.stdout).unwrap(),
        "contentcontent3\nseed=0\nseed=1,path=a%2Fb\ncontent"
    );
}

#[test]
fn a_command_that_fails_says_how() {
    assert_eq!(failed(Bench::new().command("exit 7").0), "it ended with exit code 7");
    assert!(failed(Bench::new().command("kill -ABRT $$").0).contains("SIGABRT"));
    assert!(failed(Bench::new().command("kill -KILL $$").0).contains("ran out of memory"));
    let mut bench = Bench::new();
    bench.instance.program = Program::Command;
    let ended = bench.executor("").execute(&bench.task(json!(["no-such-program"])), &mut |_| {});
    assert!(failed(ended).contains("`no-such-program` was not found"));
}

#[test]
fn the_usage_of_a_command_is_measured() {
    let mut bench = Bench::new();
    bench.instance.program = Program::Command;
    let task = bench.task(json!(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]));
    let usage = bench.executor("").execute(&task, &mut |_| {}).unwrap();
    assert!(usage.seconds > 0.0 && usage.cpu_seconds > 0.0 && usage.max_rss_bytes > 0, "{usage:?}");
}

#[test]
fn a_worker_gets_its_job_and_its_events_are_reported() {
    let script = r#"[ "$1" = worker ] && grep -q '"instance": "it"' "$2" && echo '{"event":"metric","name":"a","value":1}'
        echo hello; echo '{"event":"done"}'"#;
    let (outcome, heard) = Bench::new().worker(script);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(
        heard,
        [
            WorkerEvent::Metric { name: "a".into(), value: 1.0, protocol: None, epoch: None },
            WorkerEvent::Log { level: LogLevel::Info, message: "hello".into() },
            WorkerEvent::Done,
        ]
    );
}

#[test]
fn a_worker_explains_its_failure_or_its_exit_code_does() {
    let say = |text: &str| failed(Bench::new().worker(text).0);
    assert_eq!(say(r#"echo '{"event":"failed","message":"no labels"}'; exit 1"#), "no labels");
    assert_eq!(say(r#"echo '{"event":"done"}'; exit 4"#), "it ended with exit code 4");
    assert_eq!(say("exit 0"), "the worker ended without saying that it was done");
}

#[test]
fn a_silent_worker_causes_one_warning() {
    let (outcome, heard) = Bench::new().worker(r#"sleep 0.3; echo '{"event":"done"}'"#);
    assert!(outcome.is_ok(), "{outcome:?}");
    let [WorkerEvent::Log { level: LogLevel::Warning, message }, WorkerEvent::Done] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert!(message.contains("silent"), "{message}");
}

#[test]
fn a_missing_pipe_worker_is_explained() {
    let mut bench = Bench::new();
    bench.instance.program = Program::Worker;
    let message = failed(bench.worker("").0);
    assert!(message.contains("`make build` builds both"), "{message}");
    fs::write(bench.path("pipe-worker"), "#!/bin/sh\necho '{\"event\":\"done\"}'\n").unwrap();
    fs::set_permissions(bench.path("pipe-worker"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir(bench.path("work")).unwrap();
    fs::remove_dir(bench.path("tmp")).unwrap();
    assert!(bench.worker("").0.is_ok());
}

#[test]
fn a_stage_of_either_program_runs_in_pipe_unless_its_job_needs_the_worker() {
    let mut bench = Bench::new();
    bench.instance.program = Program::Either;
    let executor = bench.executor("echo '{\"event\":\"done\"}'");
    let mut task = bench.task(Value::Null);
    assert!(executor.execute(&task, &mut |_| {}).is_ok());
    task.job.inputs.insert("model".to_owned(), Vec::new());
    let ended = executor.execute(&task, &mut |_| {});
    assert!(failed(ended).contains("pipe-worker"));
}
