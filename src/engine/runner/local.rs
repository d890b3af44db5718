//! Runs stages as processes on this machine.
//!
//! A built-in kind runs in a worker (`pipe worker JOB` or `pipe-worker JOB`), which answers with
//! events; `docs/worker.md` describes the protocol. A `command` runs as itself, in a directory
//! and an environment that hold nothing but what it declared; the kind's documentation says what.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::child::{ChildProcess, Children};
use super::executor::{Broken, Ended, Executor, Task, Usage};
use super::exit::Exit;
use super::listen::{self, Ear, Events, Kept};
use super::machine;
use super::stop::Urgency;
use pipe_core::event::WorkerEvent;
use pipe_core::job::Axes;
use pipe_core::kind::Program;

/// How the programs that stages run in are found.
pub struct Programs {
    /// `pipe` itself.
    pub pipe: PathBuf,
    /// The words to execute for the body of a command stage.
    pub command: fn(&serde_json::Value) -> Result<Vec<String>, serde_json::Error>,
}

pub struct LocalProcess {
    programs: Programs,
    /// A worker that says nothing for this long, not even that it lives, is worth a warning.
    silence: Duration,
    children: Children,
    memory_kills: OnceLock<Option<AtomicU64>>,
    perturbed: bool,
}

/// Workers say every few seconds that they live; this is many beats.
const SILENCE: Duration = Duration::from_secs(60);

/// Half an hour off, and a language in which `i` is not the small `I` and numbers have commas.
const PERTURBED: [(&str, &str); 3] =
    [("TZ", "Asia/Kolkata"), ("LC_ALL", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")];

impl LocalProcess {
    pub fn new(programs: Programs) -> Self {
        let (children, memory_kills) = (Children::default(), OnceLock::new());
        Self { programs, silence: SILENCE, children, memory_kills, perturbed: false }
    }

    /// Changes what no result may depend on: workers see another time zone and locale, and the members
    /// of a fan-in are linked in reverse order. What `pipe` promises to a command stays as it is.
    pub fn perturbed(self) -> Self {
        Self { perturbed: true, ..self }
    }

    pub fn warn_after_silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    fn run_command(&self, task: &Task) -> Result<Usage, Trouble> {
        let words = (self.programs.command)(&task.job.body).map_err(|e| Trouble::failed(e.to_string()))?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Trouble::failed("there is no program to run"));
        };
        let temporary = task.directory.join("tmp");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&task.job.scratch)
            .env_clear()
            .env("HOME", &temporary)
            .env("TMPDIR", &temporary)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("PIPE_THREADS", task.job.threads.to_string());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        link_inputs(task, &mut command, self.perturbed)?;
        for (name, path) in &task.job.outputs {
            command.env(variable("PIPE_OUT_", name), path);
        }
        for (name, value) in &task.instance.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut stdout = Kept::at(&task.stdout);
        let (exit, usage) = self.run(task, &mut command, program, &mut stdout)?;
        if exit.is_success() { Ok(usage) } else { Err(self.explain(exit, usage)) }
    }

    fn run_worker(&self, task: &Task, report: &mut dyn FnMut(WorkerEvent)) -> Result<Usage, Trouble> {
        let job = task.directory.join("job.json");
        let text = serde_json::to_vec_pretty(&task.job).map_err(|e| Trouble::failed(e.to_string()))?;
        fs::write(&job, text).map_err(|e| Trouble::io("write", &job, &e))?;
        let mut command = match task.instance.program {
            Program::Worker => Command::new(self.find_worker()?),
            _ => {
                let mut command = Command::new(&self.programs.pipe);
                command.arg("worker");
                command
            }
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let threads = task.job.threads.to_string();
        command
            .arg(&job)
            .current_dir(&task.job.scratch)
            .env("OMP_NUM_THREADS", &threads)
            .env("MKL_NUM_THREADS", &threads);
        if self.perturbed {
            command.envs(PERTURBED);
        }
        let mut said = Events::new(report, self.silence);
        let (exit, usage) = self.run(task, &mut command, &program, &mut said)?;
        said.end();
        match (said.failed, exit.is_success(), said.done) {
            (Some(message), ..) => Err(Trouble(self.broken(message), usage)),
            (None, false, _) => Err(self.explain(exit, usage)),
            (None, true, false) => Err(Trouble(
                Broken::Failed("the worker ended without saying that it was done".to_owned()),
                usage,
            )),
            (None, true, true) => Ok(usage),
        }
    }

    /// Starts the command, listens to it, and waits for its end.
    fn run(
        &self,
        task: &Task,
        command: &mut Command,
        program: &str,
        stdout: &mut dyn Ear,
    ) -> Result<(Exit, Usage), Trouble> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(task, command, program)?;
        let heard = listen::until_the_end(&mut child, stdout, &mut Kept::at(&task.stderr));
        // Nobody reads its output any more, so it could wait for ever.
        if heard.is_err() {
            child.kill();
        }
        let ended = child.wait().map_err(|e| Trouble::failed(format!("waiting for its process failed: {e}")));
        heard.map_err(|e| Trouble::failed(format!("what it printed could not be kept: {e}")))?;
        ended
    }

    fn spawn(&self, task: &Task, command: &mut Command, program: &str) -> Result<ChildProcess<'_>, Trouble> {
        self.memory_kills.get_or_init(|| machine::out_of_memory_kills().map(AtomicU64::new));
        if !task.gpus.is_empty() {
            command.env("CUDA_VISIBLE_DEVICES", task.gpus.join(","));
        }
        self.children.spawn(command).map_err(|error| {
            Trouble::failed(match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("the program `{program}` was not found; is it installed and on PATH?")
                }
                io::ErrorKind::PermissionDenied => {
                    format!("the program `{program}` may not be executed; does it have the x permission?")
                }
                _ => format!("the program `{program}` could not be started: {error}"),
            })
        })
    }

    fn explain(&self, exit: Exit, usage: Usage) -> Trouble {
        let message = exit.explain(usage, self.ran_out_of_memory());
        Trouble(self.broken(message), usage)
    }

    fn broken(&self, message: String) -> Broken {
        if self.children.is_stopping() { Broken::Stopped } else { Broken::Failed(message) }
    }

    /// Whether the kernel counted a kill since we last looked.
    fn ran_out_of_memory(&self) -> Option<bool> {
        let before = self.memory_kills.get()?.as_ref()?;
        let now = machine::out_of_memory_kills()?;
        Some(before.fetch_max(now, Ordering::SeqCst) < now)
    }

    fn find_worker(&self) -> Result<PathBuf, Trouble> {
        let pipe = &self.programs.pipe;
        worker_program(pipe).ok_or_else(|| {
            Trouble::failed(format!(
                "this stage needs `pipe-worker`, which is neither beside `{}` nor on PATH; `make build` makes both",
                pipe.display()
            ))
        })
    }
}

/// The `pipe-worker` beside this `pipe`, or else on PATH.
pub fn worker_program(pipe: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("pipe-worker"));
    std::iter::once(pipe.with_file_name("pipe-worker")).chain(on_path).find(|candidate| candidate.is_file())
}

impl Executor for LocalProcess {
    fn execute(&self, task: &Task, report: &mut dyn FnMut(WorkerEvent)) -> Ended {
        let result = match task.instance.program {
            Program::Command => self.run_command(task),
            Program::Pipe | Program::Worker => self.run_worker(task, report),
        };
        match result {
            Ok(usage) => Ended { outcome: Ok(()), usage },
            Err(Trouble(broken, usage)) => Ended { outcome: Err(broken), usage },
        }
    }

    fn stop(&self, urgency: Urgency) {
        self.children.stop(urgency);
    }
}

/// Why an attempt gave nothing, with what it used all the same.
struct Trouble(Broken, Usage);

impl Trouble {
    fn failed(message: impl Into<String>) -> Self {
        Self(Broken::Failed(message.into()), Usage::default())
    }

    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("could not {what} `{}`: {error}", path.display()))
    }
}

/// `in/<slot>`, or for a fan-in `in/<slot>/<axes>`, and `$PIPE_IN_<SLOT>`.
fn link_inputs(task: &Task, command: &mut Command, reversed: bool) -> Result<(), Trouble> {
    let directory = task.job.scratch.join("in");
    if !task.instance.inputs.is_empty() {
        fs::create_dir_all(&directory).map_err(|e| Trouble::io("create", &directory, &e))?;
    }
    for input in &task.instance.inputs {
        let artifacts = task.job.inputs.get(&input.slot).map_or(&[][..], Vec::as_slice);
        let place = directory.join(&input.slot);
        if input.many {
            fs::create_dir(&place).map_err(|e| Trouble::io("create", &place, &e))?;
            let mut members: Vec<_> = artifacts.iter().enumerate().collect();
            if reversed {
                members.reverse();
            }
            for (position, artifact) in members {
                link(&artifact.path, &place.join(member_file_name(&artifact.axes, position)))?;
            }
        } else if let Some(artifact) = artifacts.first() {
            link(&artifact.path, &place)?;
        }
        command.env(variable("PIPE_IN_", &input.slot), place);
    }
    Ok(())
}

fn link(target: &Path, place: &Path) -> Result<(), Trouble> {
    symlink(target, place).map_err(|error| Trouble::io("link", place, &error))
}

/// `variant=adaptive,seed=1`; a member that no axis tells apart is called by its number.
fn member_file_name(axes: &Axes, position: usize) -> String {
    if axes.is_empty() {
        return (position + 1).to_string();
    }
    let pairs: Vec<String> = axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    pairs.join(",").replace('/', "%2F")
}

fn variable(prefix: &str, name: &str) -> OsString {
    format!("{prefix}{}", name.to_ascii_uppercase().replace('-', "_")).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};

    use super::*;
    use crate::plan::sample;
    use crate::spec::pipeline::{Input, Instance};
    use pipe_core::digest::{BlobId, Digest, StageKey};
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
                key: StageKey::new(Digest::of(b"key")),
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
            Task { instance: &self.instance, job, directory, stdout, stderr, gpus: Vec::new() }
        }

        /// A `pipe` that is a shell script.
        fn executor(&self, worker: &str) -> LocalProcess {
            let pipe = self.path("pipe");
            fs::write(&pipe, format!("#!/bin/sh\n{worker}\n")).unwrap();
            fs::set_permissions(&pipe, fs::Permissions::from_mode(0o755)).unwrap();
            LocalProcess::new(Programs { pipe, command: |body| serde_json::from_value(body.clone()) })
        }

        fn command(&mut self, script: &str) -> (Result<(), Broken>, String) {
            self.instance.program = Program::Command;
            let task = self.task(json!(["sh", "-c", script]));
            let ended = self.executor("").execute(&task, &mut |_| {});
            (ended.outcome, fs::read_to_string(self.path("stdout")).unwrap_or_default())
        }

        fn worker(&self, script: &str) -> (Result<(), Broken>, Vec<WorkerEvent>) {
            let mut heard = Vec::new();
            let executor = self.executor(script).warn_after_silence(Duration::from_millis(50));
            let ended = executor.execute(&self.task(Value::Null), &mut |event| heard.push(event));
            (ended.outcome, heard)
        }
    }

    fn failed(outcome: Result<(), Broken>) -> String {
        match outcome {
            Err(Broken::Failed(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_sees_nothing_but_what_it_declared() {
        let mut bench = Bench::new();
        bench.instance.environment = vec![("SHOWN".into(), Some("yes".into())), ("UNSET".into(), None)];
        let (outcome, stdout) = bench.command("env | cut -d= -f1 | sort; ls -A; pwd");
        assert_eq!(outcome, Ok(()));
        let work = bench.path("work").canonicalize().unwrap();
        let expected = format!(
            "HOME\nLANG\nPATH\nPIPE_OUT_THE_TABLE\nPIPE_THREADS\nPWD\nSHOWN\nTMPDIR\nTZ\n{}\n",
            work.display()
        );
        // Some shells export what others do not.
        let stdout: String = stdout
            .lines()
            .filter(|l| !["OLDPWD", "SHLVL", "_"].contains(l))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(stdout, expected);
    }

    #[test]
    fn inputs_are_found_by_name_and_a_fan_in_by_axes() {
        let mut bench = Bench::new();
        fs::write(bench.path("blob"), "content").unwrap();
        let input = |slot: &str, many| Input { slot: slot.into(), many, sources: Vec::new() };
        bench.instance.inputs = vec![input("my-data", false), input("folds", true)];
        bench.instance.program = Program::Command;
        let script = r#"cat "$PIPE_IN_MY_DATA"; cat in/my-data; ls "$PIPE_IN_FOLDS"; cat "in/folds/seed=1,path=a%2Fb""#;
        let mut task = bench.task(json!(["sh", "-c", script]));
        let artifact = |axes: &[(&str, &str)]| JobInput {
            axes: axes.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect(),
            artifact: "file".into(),
            path: bench.path("blob"),
            blob: BlobId::new(Digest::of(b"content")),
        };
        let folds =
            vec![artifact(&[("seed", "0")]), artifact(&[("seed", "1"), ("path", "a/b")]), artifact(&[])];
        task.job.inputs = BTreeMap::from([("my-data".into(), vec![artifact(&[])]), ("folds".into(), folds)]);
        let ended = bench.executor("").execute(&task, &mut |_| {});
        assert_eq!(ended.outcome, Ok(()));
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
        assert!(failed(ended.outcome).contains("`no-such-program` was not found"));
    }

    #[test]
    fn what_a_command_used_is_measured() {
        let mut bench = Bench::new();
        bench.instance.program = Program::Command;
        let task = bench.task(json!(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]));
        let usage = bench.executor("").execute(&task, &mut |_| {}).usage;
        assert!(usage.seconds > 0.0 && usage.cpu_seconds > 0.0 && usage.max_rss_bytes > 0, "{usage:?}");
    }

    #[test]
    fn a_worker_is_called_with_its_job_and_heard() {
        let script = r#"[ "$1" = worker ] && grep -q '"instance": "it"' "$2" && echo '{"event":"metric","name":"a","value":1}'
            echo hello; echo '{"event":"done"}'"#;
        let (outcome, heard) = Bench::new().worker(script);
        assert_eq!(outcome, Ok(()));
        assert_eq!(
            heard,
            [
                WorkerEvent::Metric { name: "a".into(), value: 1.0 },
                WorkerEvent::Log { level: LogLevel::Info, message: "hello".into() },
            ]
        );
    }

    #[test]
    fn a_worker_that_fails_is_believed_and_one_that_vanishes_is_not() {
        let say = |text: &str| failed(Bench::new().worker(text).0);
        assert_eq!(say(r#"echo '{"event":"failed","message":"no labels"}'; exit 1"#), "no labels");
        assert_eq!(say(r#"echo '{"event":"done"}'; exit 4"#), "it ended with exit code 4");
        assert_eq!(say("exit 0"), "the worker ended without saying that it was done");
    }

    #[test]
    fn a_silent_worker_is_warned_of_once() {
        let (outcome, heard) = Bench::new().worker(r#"sleep 0.3; echo '{"event":"done"}'"#);
        assert_eq!(outcome, Ok(()));
        let [WorkerEvent::Log { level: LogLevel::Warning, message }] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert!(message.contains("said nothing"), "{message}");
    }

    #[test]
    fn a_missing_pipe_worker_is_explained() {
        let mut bench = Bench::new();
        bench.instance.program = Program::Worker;
        let message = failed(bench.worker("").0);
        assert!(message.contains("`make build` makes both"), "{message}");
        fs::write(bench.path("pipe-worker"), "#!/bin/sh\necho '{\"event\":\"done\"}'\n").unwrap();
        fs::set_permissions(bench.path("pipe-worker"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_dir(bench.path("work")).unwrap();
        fs::remove_dir(bench.path("tmp")).unwrap();
        assert_eq!(bench.worker("").0, Ok(()));
    }
}
