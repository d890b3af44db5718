//! Submits jobs. Those that are ready at the same time and ask for the same resources are submitted together.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::directory::{JobDirectory, Submission};
use super::polling::{LiveJobs, Polling};
use super::scheduler::{JobRequest, JobResources, Scheduler, SubmitError};
use pipe_core::digest::Digest;

/// How long to wait before trying again what the scheduler refused for the moment.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a thread that submits looks whether the run stops.
const CHECK_STOP: Duration = Duration::from_millis(50);

/// A job that is to be submitted.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub directory: JobDirectory,
    pub instance: String,
    pub resources: JobResources,
}

/// The jobs that wait for their submission, and those that are in the queue of the scheduler.
#[derive(Default)]
pub(super) struct Submitting {
    /// Held by the thread that submits.
    turn: Mutex<Pace>,
    waiting: Mutex<Vec<Waiting>>,
    refused: Mutex<HashMap<PathBuf, String>>,
    pub live: LiveJobs,
}

/// How fast jobs may be submitted.
#[derive(Default)]
struct Pace {
    not_before: Option<Instant>,
    pause: Duration,
    /// The largest batch that the scheduler has not refused; 0 if it has refused none.
    batch: usize,
    /// Whether the scheduler may have taken jobs although it did not say so.
    unclear: bool,
    /// Whether it has been reported that the scheduler refuses jobs for the moment.
    reported: bool,
}

/// What became of a job that waited for its submission.
pub(super) enum Submitted {
    Yes,
    NotYet,
    Refused(String),
}

impl Submitting {
    pub(super) fn add(&self, job: Waiting) {
        lock(&self.waiting).push(job);
    }

    /// Takes a job back. Returns false if it is no longer waiting, or if jobs are being submitted.
    pub(super) fn take_back(&self, directory: &JobDirectory) -> bool {
        let Ok(_turn) = self.turn.try_lock() else { return false };
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|job| job.directory != *directory);
        waiting.len() < before
    }

    pub(super) fn outcome(&self, directory: &JobDirectory) -> Submitted {
        if let Some(refusal) = lock(&self.refused).remove(directory.path()) {
            return Submitted::Refused(refusal);
        }
        let is_waiting = lock(&self.waiting).iter().any(|job| job.directory == *directory);
        if is_waiting { Submitted::NotYet } else { Submitted::Yes }
    }

    pub(super) fn is_full(&self, max_jobs: usize) -> bool {
        lock(&self.live).len() >= max_jobs
    }

    /// Submits as many of the waiting jobs as go together, unless another thread does or it is too early. Returns a sentence
    /// the first time that the scheduler refuses jobs for the moment. Does not wait for its answer any longer if `give_up` says so.
    pub(super) fn submit_some(
        &self,
        scheduler: &Arc<dyn Scheduler>,
        polling: &Arc<Polling>,
        max_jobs: usize,
        script: &dyn Fn(&[&Path]) -> String,
        give_up: &dyn Fn() -> bool,
    ) -> Option<String> {
        let Ok(mut pace) = self.turn.try_lock() else { return None };
        if pace.not_before.is_some_and(|time| Instant::now() < time) {
            return None;
        }
        if pace.unclear {
            match self.find_taken(scheduler, polling, give_up) {
                Ok(()) => pace.unclear = false,
                Err(problem) => {
                    pace.slow_down();
                    return pace.report_once(problem?);
                }
            }
        }
        let room = max_jobs.saturating_sub(lock(&self.live).len());
        let limit = if pace.batch == 0 { usize::MAX } else { pace.batch };
        let jobs = self.next_batch(room.min(limit).min(scheduler.largest_batch()));
        let first = jobs.first()?;
        let name = batch_name(&first.directory);
        let requests: Vec<JobRequest> = jobs
            .iter()
            .enumerate()
            .map(|(position, job)| JobRequest {
                name: if jobs.len() == 1 { name.clone() } else { format!("{name}_{position}") },
                instance: job.instance.clone(),
                directory: job.directory.path().to_owned(),
                resources: job.resources.clone(),
            })
            .collect();
        let answer = match prepare(&jobs, &requests, script) {
            Ok(()) => answer(scheduler, requests.clone(), give_up),
            Err(error) => Some(Err(SubmitError::Refused(format!("its job could not be written: {error}")))),
        };
        // The scheduler may still take them. They are then found by their names.
        let Some(answer) = answer else {
            for job in jobs {
                self.is_live(&job.directory, None);
            }
            return None;
        };
        match answer {
            Ok(ids) => {
                for ((job, request), id) in jobs.iter().zip(requests).zip(ids) {
                    self.has_been_taken(&job.directory, request.name, id);
                }
                (pace.pause, pace.not_before) = (Duration::ZERO, None);
                polling.expect_change();
                None
            }
            Err(SubmitError::Later(problem)) => {
                pace.batch = (jobs.len() / 2).max(1);
                pace.unclear = true;
                // A smaller batch may be what it takes.
                if jobs.len() == 1 {
                    pace.slow_down();
                }
                pace.report_once(problem)
            }
            Err(SubmitError::Refused(problem)) => {
                lock(&self.waiting)
                    .retain(|waiting| !jobs.iter().any(|job| job.directory == waiting.directory));
                let mut refused = lock(&self.refused);
                for job in jobs {
                    // Nobody has to look for this job: the next run would wait for it if the scheduler did not answer.
                    job.directory.forget_submission();
                    refused.insert(job.directory.path().to_owned(), problem.clone());
                }
                None
            }
        }
    }

    /// Returns the jobs that wait longest and can be submitted together.
    fn next_batch(&self, limit: usize) -> Vec<Waiting> {
        let waiting = lock(&self.waiting);
        let Some(first) = waiting.first() else { return Vec::new() };
        let alike = waiting.iter().filter(|job| job.resources == first.resources);
        alike.take(limit).cloned().collect()
    }

    /// Looks for waiting jobs that the scheduler has taken although it did not say so. Fails if the scheduler did not answer, and says why
    /// unless `give_up` was the reason.
    fn find_taken(
        &self,
        scheduler: &Arc<dyn Scheduler>,
        polling: &Arc<Polling>,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), Option<String>> {
        let asked = Instant::now();
        polling.refresh_since(asked, scheduler, &self.live, give_up);
        if !polling.has_answered_since(asked) {
            return Err(polling.problem());
        }
        let waiting = lock(&self.waiting).clone();
        for job in waiting {
            let Some(submission) = job.directory.submission() else { continue };
            if let (_, Some(id)) = polling.view(&submission, asked) {
                self.has_been_taken(&job.directory, submission.name, id);
            }
        }
        Ok(())
    }

    fn has_been_taken(&self, directory: &JobDirectory, name: String, id: String) {
        // Without the file, the job is found by its name.
        let _ = directory.write_submission(&Submission { name, id: Some(id.clone()) });
        self.is_live(directory, Some(id));
    }

    fn is_live(&self, directory: &JobDirectory, id: Option<String>) {
        lock(&self.live).insert(directory.clone(), id);
        lock(&self.waiting).retain(|job| job.directory != *directory);
    }
}

/// Submits jobs. Returns `None` if `give_up` said so before the scheduler answered.
fn answer(
    scheduler: &Arc<dyn Scheduler>,
    requests: Vec<JobRequest>,
    give_up: &dyn Fn() -> bool,
) -> Option<Result<Vec<String>, SubmitError>> {
    let (sender, receiver) = channel();
    let scheduler = Arc::clone(scheduler);
    // Nobody waits for this thread after a stop: the command of a scheduler that hangs must not delay it.
    let submit = move || drop(sender.send(scheduler.submit(&requests)));
    if let Err(error) = std::thread::Builder::new().spawn(submit) {
        return Some(Err(SubmitError::Later(format!("no thread could be started to submit jobs: {error}"))));
    }
    loop {
        match receiver.recv_timeout(CHECK_STOP) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Timeout) if !give_up() => {}
            Err(_) => return None,
        }
    }
}

impl Pace {
    fn slow_down(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.not_before = Some(Instant::now() + self.pause);
    }

    fn report_once(&mut self, problem: String) -> Option<String> {
        (!std::mem::replace(&mut self.reported, true)).then_some(problem)
    }
}

/// Returns a name that no other job has: it is made from the directory of the first job, which is used once.
fn batch_name(first: &JobDirectory) -> String {
    let digest = Digest::of(first.path().as_os_str().as_encoded_bytes()).to_hex();
    format!("pipe-{}", &digest[..16])
}

/// Writes the script, and in every directory the name under which the job can be found.
fn prepare(jobs: &[Waiting], requests: &[JobRequest], script: &dyn Fn(&[&Path]) -> String) -> io::Result<()> {
    let directories: Vec<&Path> = jobs.iter().map(|job| job.directory.path()).collect();
    let text = script(&directories);
    for (job, request) in jobs.iter().zip(requests) {
        job.directory.write_submission(&Submission { name: request.name.clone(), id: None })?;
    }
    let Some(first) = jobs.first() else { return Ok(()) };
    let path = first.directory.file("script");
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{GiveUp, JobState, ListedJob};
    use super::*;

    /// A scheduler that takes at most `room` jobs at once, and loses its first answers.
    #[derive(Default)]
    struct Limited {
        room: usize,
        lost_answers: Mutex<usize>,
        taken: Mutex<Vec<Vec<String>>>,
    }

    impl Scheduler for Limited {
        fn submit(&self, jobs: &[JobRequest]) -> Result<Vec<String>, SubmitError> {
            if jobs.len() > self.room {
                return Err(SubmitError::Later("there is a limit".into()));
            }
            let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
            lock(&self.taken).push(names.clone());
            let mut lost = lock(&self.lost_answers);
            if *lost > 0 {
                *lost -= 1;
                return Err(SubmitError::Later("no answer".into()));
            }
            Ok(names.iter().map(|name| format!("id of {name}")).collect())
        }

        fn list(&self, _ids: &[String], _give_up: GiveUp) -> Result<Vec<ListedJob>, String> {
            let listed = |name: &String| ListedJob {
                id: format!("id of {name}"),
                name: Some(name.clone()),
                state: JobState::Running,
            };
            Ok(lock(&self.taken).iter().flatten().map(listed).collect())
        }

        fn cancel(&self, _ids: &[String]) -> Result<(), String> {
            Ok(())
        }

        fn largest_batch(&self) -> usize {
            100
        }

        fn position_variable(&self) -> Option<&'static str> {
            None
        }
    }

    fn submitting(count: usize, root: &Path) -> Submitting {
        let submitting = Submitting::default();
        for number in 0..count {
            let path = root.join(number.to_string());
            fs::create_dir(&path).unwrap();
            let resources = JobResources { cpu: 1 + number % 2, mem: 0, gpu: 0, gpu_type: None, time: None };
            let directory = JobDirectory::new(path);
            submitting.add(Waiting { directory, instance: "x".into(), resources });
        }
        submitting
    }

    fn submit_all(submitting: &Submitting, scheduler: &Arc<Limited>, max_jobs: usize) {
        let polling = Arc::new(Polling::default());
        let scheduler: Arc<dyn Scheduler> = Arc::<Limited>::clone(scheduler);
        for _ in 0..50 {
            submitting.submit_some(&scheduler, &polling, max_jobs, &|_| String::new(), &|| false);
            lock(&submitting.turn).not_before = None;
        }
    }

    #[test]
    fn jobs_with_equal_resources_are_submitted_together() {
        let root = tempfile::tempdir().unwrap();
        let submitting = submitting(6, root.path());
        let scheduler = Arc::new(Limited { room: 100, ..Limited::default() });
        submit_all(&submitting, &scheduler, 1000);
        assert_eq!(lock(&scheduler.taken).iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        assert_eq!(lock(&submitting.live).len(), 6);
    }

    #[test]
    fn a_limit_makes_batches_smaller_and_loses_no_job() {
        let root = tempfile::tempdir().unwrap();
        let submitting = submitting(20, root.path());
        let scheduler = Arc::new(Limited { room: 3, ..Limited::default() });
        submit_all(&submitting, &scheduler, 1000);
        assert!(lock(&scheduler.taken).iter().all(|batch| batch.len() <= 3));
        assert_eq!(lock(&submitting.live).len(), 20);
    }

    #[test]
    fn a_job_that_was_taken_without_an_answer_is_not_submitted_again() {
        let root = tempfile::tempdir().unwrap();
        let submitting = submitting(4, root.path());
        let scheduler = Arc::new(Limited { room: 100, lost_answers: Mutex::new(2), ..Limited::default() });
        submit_all(&submitting, &scheduler, 1000);
        assert_eq!(lock(&scheduler.taken).iter().flatten().count(), 4);
        let live = lock(&submitting.live);
        assert!(live.values().all(Option::is_some) && live.len() == 4, "{live:?}");
    }

    #[test]
    fn no_more_jobs_are_in_the_queue_than_the_profile_allows() {
        let root = tempfile::tempdir().unwrap();
        let submitting = submitting(8, root.path());
        let scheduler = Arc::new(Limited { room: 100, ..Limited::default() });
        submit_all(&submitting, &scheduler, 5);
        assert_eq!(lock(&submitting.live).len(), 5);
        assert!(submitting.is_full(5));
        lock(&submitting.live).pop_first();
        submit_all(&submitting, &scheduler, 5);
        assert_eq!(lock(&submitting.live).len(), 5);
    }
}
