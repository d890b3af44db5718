//! `pipe job DIR`: carries out one job, on the machine that the scheduler chose.
//!
//! The job commits its result itself, so that nothing is lost if the submitter dies, and says how it ended last.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::attempt::{Attempt, AttemptNote};
use super::super::executor::{AttemptError, Executor};
use super::super::machine;
use super::super::stop::Stop;
use super::directory::{EndRecord, FileReference, HEARTBEAT, JobDirectory, JobFile, host_name};
use crate::store::manifest::Manifest;
use crate::store::{Lookup, Store, UserFile};

/// How often a job checks whether it was asked to stop.
const CHECK_STOP: Duration = Duration::from_millis(50);

/// How far apart the signals to the processes of one job may be.
const SIGNALS_TOGETHER: Duration = Duration::from_millis(500);

/// What the scheduler can ask of a job, through signals.
#[derive(Debug, Clone, Default)]
pub struct JobSignals {
    pub stop: Stop,
    /// Set together with a request to stop if the time of the job is nearly over.
    pub time_is_up: Arc<AtomicBool>,
}

/// Carries out the job in a directory, and records there how it ended. Returns whether there is a result, or an error if
/// nothing could be recorded.
pub fn carry_out(directory: &Path, executor: &dyn Executor, signals: &JobSignals) -> io::Result<bool> {
    let directory = JobDirectory::new(std::path::absolute(directory)?);
    directory.forget_end()?;
    let beat = Heartbeat::new(&directory);
    beat.write(0)?;
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        // The children of a thread end with it, so the stage runs on the thread that waits for it.
        scope.spawn(|| watch(&directory, &beat, executor, signals, &ended));
        let compute = AssertUnwindSafe(|| compute(&directory, executor, &signals.stop));
        let result = catch_unwind(compute)
            .unwrap_or_else(|_| Err(AttemptError::permanent("pipe itself failed (a bug in pipe)")));
        let result = result.map_err(|error| blame_stop(error, &signals.stop));
        ended.store(true, Ordering::SeqCst);
        result
    });
    let time_is_up = signals.time_is_up.load(Ordering::SeqCst);
    let error = result.err();
    let succeeded = error.is_none();
    match directory.write_end(&EndRecord { error, time_is_up }) {
        // The submitter has seen the result, and has removed the directory.
        Err(_) if succeeded && !directory.path().exists() => Ok(true),
        written => written.map(|()| succeeded),
    }
}

/// Returns that the stage was stopped, if it failed and the job was asked to stop. A scheduler that ends a job sends its
/// signal to all processes of the job, so that the stage may have ended before the job has passed the request on.
fn blame_stop(error: AttemptError, stop: &Stop) -> AttemptError {
    let begin = Instant::now();
    while stop.requested().is_none() && begin.elapsed() < SIGNALS_TOGETHER {
        std::thread::sleep(CHECK_STOP);
    }
    match error {
        AttemptError::Failed { .. } if stop.requested().is_some() => {
            AttemptError::Stopped { checkpoint: false }
        }
        error => error,
    }
}

/// Shows that the job is alive, and passes requests to stop on, until it has ended. A job whose directory is gone is not
/// wanted any more.
fn watch(
    directory: &JobDirectory,
    beat: &Heartbeat<'_>,
    executor: &dyn Executor,
    signals: &JobSignals,
    ended: &AtomicBool,
) {
    let (mut passed_on, mut last, mut count) = (None, Instant::now(), 0);
    while !ended.load(Ordering::SeqCst) {
        let wish = signals.stop.requested();
        if let Some(urgency) = wish
            && wish != passed_on
        {
            executor.stop(urgency);
            passed_on = wish;
        }
        if last.elapsed() >= HEARTBEAT {
            (last, count) = (Instant::now(), count + 1);
            if beat.write(count).is_err() && !directory.path().exists() {
                signals.stop.request();
            }
        }
        std::thread::sleep(CHECK_STOP);
    }
}

fn compute(directory: &JobDirectory, executor: &dyn Executor, stop: &Stop) -> Result<Manifest, AttemptError> {
    let permanent = |error: String| AttemptError::permanent(error);
    let JobFile { store, project, uses_gpu, forced, computation, .. } =
        directory.read_job().map_err(|error| {
            permanent(format!("its job file in `{}` cannot be read: {error}", directory.path().display()))
        })?;
    let store = Store::open_in_job(&store, &directory.file("tmp")).map_err(|e| permanent(e.to_string()))?;
    let key = computation.parts.key();
    // Another copy of this job may have committed: a scheduler can start a job again although it still runs.
    let committed = || match store.lookup(&key) {
        Lookup::Hit(manifest) if !forced => Some(*manifest),
        _ => None,
    };
    if let Some(manifest) = committed() {
        return Ok(manifest);
    }
    let computation = computation.map_files(&mut |file| find_file(&store, &file))?;
    let attempt = Attempt {
        computation: &computation,
        store: &store,
        executor,
        stop,
        keep_log: &|stream, path| {
            // Losing a log must not hide why the stage failed.
            let _ = std::fs::copy(path, directory.file(stream));
        },
        gpus: if uses_gpu { machine::gpus() } else { Vec::new() },
        environment: machine::describe(&project),
    };
    let mut events = directory.events().map_err(|e| permanent(e.to_string()))?;
    let mut report = |note: AttemptNote| {
        // The submitter may have removed the directory; events are only shown, so the computation goes on.
        let _ = events.write(&note);
    };
    let result = attempt.perform(store.claimed_by_submitter(&key), &mut report);
    // A commit removes the checkpoints, which the other copy may be using.
    result.or_else(|error| committed().ok_or(error))
}

/// Finds a file of the user on this machine. It must have the content that the key was made from.
fn find_file(store: &Store, file: &FileReference) -> Result<Arc<UserFile>, AttemptError> {
    let shown = file.path.display();
    let found = store.digest_user_file(&file.path).map_err(|error| {
        AttemptError::permanent(format!(
            "on the node `{}` its input `{shown}` cannot be read: {error}; is it on a file system that the nodes see?",
            host_name()
        ))
    })?;
    if found.blob != file.blob {
        return Err(AttemptError::permanent(format!(
            "on the node `{}` its input `{shown}` has other content than it had when the job was submitted; run again",
            host_name()
        )));
    }
    Ok(Arc::new(found))
}

/// The sign of life of one run of a job.
struct Heartbeat<'a> {
    directory: &'a JobDirectory,
    /// Differs from run to run, if the scheduler starts the job again.
    run: String,
}

impl<'a> Heartbeat<'a> {
    fn new(directory: &'a JobDirectory) -> Self {
        Self { directory, run: format!("{} {} {}", host_name(), std::process::id(), jiff::Timestamp::now()) }
    }

    fn write(&self, count: u64) -> io::Result<()> {
        self.directory.write_heartbeat(&format!("{} {count}\n", self.run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_fails_just_before_its_job_is_asked_to_stop_was_stopped() {
        let stop = Stop::new();
        let failure = AttemptError::retryable("it was ended by the signal SIGTERM");
        assert_eq!(blame_stop(failure.clone(), &stop), failure);
        let late = stop.clone();
        let signal = std::thread::spawn(move || {
            std::thread::sleep(SIGNALS_TOGETHER / 4);
            late.request();
        });
        assert_eq!(blame_stop(failure, &stop), AttemptError::Stopped { checkpoint: false });
        signal.join().unwrap();
    }
}
