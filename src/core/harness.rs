//! The main function of a worker process: reads a job, runs its stage, and sends [events](crate::event).
//! `docs/worker.md` describes the format for users.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::getppid;
use signal_hook::consts::SIGTERM;

use crate::event::WorkerEvent;
use crate::job::Job;
use crate::stage::Runner;
use crate::work::{EventSink, StopRequest, Stopped, Work};

/// The exit code of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The stage succeeded.
    Done = 0,
    /// The stage failed, panicked, or did not write what it declares.
    Failed = 1,
    /// The job could not be read, or names a kind that this program does not run.
    BadJob = 2,
    /// Stopped on request; a checkpoint, if the stage has any, is written.
    Stopped = 3,
}

/// How often the process reports that it is alive.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs one job. `runners` are the kinds that this program can run; `facts` are recorded in the manifest, such as the
/// version of libtorch.
pub fn main(job: &Path, runners: &[&[Runner]], facts: &[(&str, &str)]) -> ExitCode {
    ExitCode::from(run(job, runners, facts) as u8)
}

/// Like [`main`], for a caller that ends the process itself.
pub fn run(job: &Path, runners: &[&[Runner]], facts: &[(&str, &str)]) -> Exit {
    match Wire::take_over_stdout() {
        Ok(mut wire) => {
            for (name, value) in facts {
                wire.send(WorkerEvent::Fact { name: (*name).to_owned(), value: (*value).to_owned() });
            }
            work(job, runners, wire)
        }
        Err(error) => {
            let message = format!("standard output cannot be used to talk to the runner: {error}\n");
            let _ = io::stderr().write_all(message.as_bytes());
            Exit::BadJob
        }
    }
}

/// Reads a job and runs it.
fn work(job: &Path, runners: &[&[Runner]], mut wire: Wire) -> Exit {
    let stop = StopRequest::default();
    // If these fail, SIGTERM still ends the process, only without a checkpoint.
    let (ends_process, exit) = (Arc::clone(&stop.ends_process), Exit::Stopped as i32);
    let _ = signal_hook::flag::register_conditional_shutdown(SIGTERM, exit, ends_process);
    let _ = signal_hook::flag::register(SIGTERM, Arc::clone(&stop.requested));
    wire.start_alive_thread();
    match prepare(job, runners) {
        Ok((job, runner)) => perform(job, runner, &mut wire, stop),
        Err(message) => {
            wire.send(WorkerEvent::Failed { message });
            Exit::BadJob
        }
    }
}

/// Reads a job, finds its runner, and sets the number of threads.
fn prepare<'r>(path: &Path, runners: &[&'r [Runner]]) -> Result<(Job, &'r Runner), String> {
    let job =
        Job::read(path).map_err(|error| format!("the job `{}` cannot be read: {error}", path.display()))?;
    let runner =
        runners.iter().copied().flatten().find(|runner| runner.kind() == job.kind).ok_or_else(|| {
            let kind = &job.kind;
            format!("this program does not run stages of kind `{kind}`; is it of the same version as `pipe`?")
        })?;
    // This fails only if there already is a pool, which is then used.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(job.threads).build_global();
    Ok((job, runner))
}

/// Runs the stage and sends the event that says how it ended.
fn perform(job: Job, runner: &Runner, events: &mut dyn EventSink, stop: StopRequest) -> Exit {
    let outputs = job.outputs.clone();
    let panic = remember_panics();
    let mut work = Work::new(job, events).stopped_by(stop);
    let result = catch_unwind(AssertUnwindSafe(|| runner.run(&mut work)));
    drop(work);
    let (event, exit) = match result {
        Ok(Ok(())) => match outputs.iter().find(|(_, path)| !path.exists()) {
            None => (WorkerEvent::Done, Exit::Done),
            Some((name, _)) => failed(format!("the stage did not write its output `{name}`")),
        },
        Ok(Err(error)) if error.is::<Stopped>() => {
            (WorkerEvent::Failed { message: error.to_string() }, Exit::Stopped)
        }
        Ok(Err(error)) => failed(format!("{error:#}")),
        Err(_) => {
            let message = panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            failed(message.unwrap_or_else(|| "it panicked".to_owned()))
        }
    };
    events.send(event);
    exit
}

fn failed(message: String) -> (WorkerEvent, Exit) {
    (WorkerEvent::Failed { message }, Exit::Failed)
}

/// Installs a hook that stores the message and location of the last panic, in addition to printing it.
fn remember_panics() -> Arc<Mutex<Option<String>>> {
    let remembered = Arc::new(Mutex::new(None));
    let memory = Arc::clone(&remembered);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message");
        let location = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line()));
        let sentence = format!("it panicked{}: {message}", location.unwrap_or_default());
        *memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence);
        print(panic);
    }));
    remembered
}

/// The connection to the runner: the standard output that the process was started with.
#[derive(Clone)]
struct Wire(Arc<Mutex<File>>);

impl Wire {
    /// Redirects descriptor 1 to standard error, so that output of a C++ library or a stray `println` cannot be mistaken for
    /// events.
    fn take_over_stdout() -> io::Result<Self> {
        let ours = io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Self(Arc::new(Mutex::new(File::from(ours)))))
    }

    /// Starts a thread that reports regularly that the process is alive, and ends the process if the runner is gone.
    fn start_alive_thread(&self) {
        let mut wire = self.clone();
        let runner = getppid();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(ALIVE_INTERVAL);
                if getppid() != runner {
                    std::process::exit(Exit::Failed as i32);
                }
                wire.send(WorkerEvent::Alive);
            }
        });
    }
}

impl EventSink for Wire {
    fn send(&mut self, event: WorkerEvent) {
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(&line).is_err() {
            // The runner is gone, so nobody will use the result.
            std::process::exit(Exit::Failed as i32);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::Ordering;

    use serde::Deserialize;

    use super::*;
    use crate::artifact::PlainFile;
    use crate::slot::Out;
    use crate::stage::{JobBody, RunStage};

    #[derive(Default)]
    struct CollectedEvents(Vec<WorkerEvent>);

    impl EventSink for CollectedEvents {
        fn send(&mut self, event: WorkerEvent) {
            self.0.push(event);
        }
    }

    /// A job whose body says how it behaves.
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Act {
        Write,
        Nothing,
        Error,
        Panic,
        Stop,
    }

    const OUT: Out<PlainFile> = Out::new("out", "out.txt");

    impl JobBody for Act {
        const KIND: &'static str = "act";
    }

    impl RunStage for Act {
        type Stage = Self;

        fn run(act: &Self, work: &mut Work) -> anyhow::Result<()> {
            match act {
                Self::Write => work.save(OUT, &PlainFile(b"x".to_vec()))?,
                Self::Nothing => {}
                Self::Error => return Err(anyhow::anyhow!("the disk is full").context("reading the data")),
                Self::Panic => panic!("index 7 of 3"),
                Self::Stop => {
                    assert!(work.should_stop());
                    return Err(Stopped.into());
                }
            }
            Ok(())
        }
    }

    const RUNNERS: &[Runner] = &[Runner::of::<Act>()];

    fn job(directory: &Path, act: &str) -> Job {
        Job {
            key: None,
            instance: "act".into(),
            kind: "act".into(),
            body: act.into(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::from([("out".into(), directory.join("out"))]),
            scratch: directory.to_owned(),
            checkpoints: directory.to_owned(),
            threads: 1,
        }
    }

    fn perform_act(act: &str) -> (Exit, Vec<WorkerEvent>) {
        let directory = tempfile::tempdir().unwrap();
        let mut events = CollectedEvents::default();
        let stop = StopRequest::default();
        stop.requested.store(true, Ordering::SeqCst);
        let exit = perform(job(directory.path(), act), &RUNNERS[0], &mut events, stop);
        (exit, events.0)
    }

    fn failed_with(message: &str) -> Vec<WorkerEvent> {
        vec![WorkerEvent::Failed { message: message.into() }]
    }

    #[test]
    fn the_last_event_says_how_the_stage_ended() {
        assert_eq!(perform_act("write"), (Exit::Done, vec![WorkerEvent::Done]));
        let missing = failed_with("the stage did not write its output `out`");
        assert_eq!(perform_act("nothing"), (Exit::Failed, missing));
        let chain = failed_with("reading the data: the disk is full");
        assert_eq!(perform_act("error"), (Exit::Failed, chain));
        let (exit, events) = perform_act("stop");
        assert_eq!((exit, events.last()), (Exit::Stopped, failed_with("stopped on request").last()));
    }

    #[test]
    fn a_panic_is_reported_with_its_message_and_location() {
        let (exit, events) = perform_act("panic");
        let [WorkerEvent::Failed { message }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(exit, Exit::Failed);
        assert!(message.contains("harness.rs:") && message.ends_with("index 7 of 3"), "{message}");
    }

    #[test]
    fn a_job_that_cannot_be_run_is_refused_with_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("job.json");
        let refused = || prepare(&path, &[RUNNERS]).map(|_| ()).unwrap_err();
        assert!(refused().contains("cannot be read"), "{}", refused());
        let unknown = Job { kind: "train".into(), ..job(directory.path(), "") };
        std::fs::write(&path, serde_json::to_vec(&unknown).unwrap()).unwrap();
        assert!(refused().contains("does not run stages of kind `train`"), "{}", refused());
    }
}
