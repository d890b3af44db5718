//! Runs stages as jobs of a batch scheduler.
//!
//! The unit is one computation. The submitter holds the lock of its key and writes a directory with everything that the
//! job needs; the job (`pipe job DIR`, see [`carry_out`]) commits the result itself. The manifest in the store is the only
//! source of truth, so the submitter can be killed at any time: the next run finds the result, or joins the job.

mod directory;
mod memory;
mod node;
mod polling;
mod profile;
mod scheduler;
mod script;
mod slurm;
mod submitting;
mod survey;
mod template;
mod verdict;

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::attempt::AttemptNote;
use super::computation::Computation;
use super::executor::AttemptError;
use super::stop::Urgency;
use crate::spec::pipeline::Instance;
use crate::store::manifest::Manifest;
use crate::store::{Lookup, Store, StoreError, WriteRight};
use pipe_core::digest::{Digest, StageKey};
use pipe_core::event::{LogLevel, WorkerEvent};

use directory::{EventReader, FileReference, JobDirectory, JobFile, Submission};
pub use node::{JobSignals, carry_out};
use polling::Polling;
pub use profile::{EngineKind, Profile};
use scheduler::{JobResources, JobState, Scheduler, mebibytes};
use slurm::Slurm;
use submitting::{Submitted, Submitting, Waiting, lock};
pub(super) use survey::forget_done_jobs;
pub use survey::{JobSummary, cancel_jobs, has_job, list_jobs, log_of_job};
use template::Template;
use verdict::{Interruption, Observation, SchedulerView, Verdict, decide};

/// How often a thread looks at the directory of its job, if there are few jobs and if there are many.
const LOOK: Duration = Duration::from_millis(500);
const SELDOM_LOOK: Duration = Duration::from_secs(3);
/// With more jobs than this, each of them is looked at less often.
const FEW_JOBS: u32 = 100;
/// How long a stop waits for a scheduler that does not answer.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long jobs are collected before they are submitted together.
const COLLECT: Duration = Duration::from_millis(200);
/// How often a job is submitted again after it was interrupted without having got further.
const FRUITLESS: u32 = 4;
/// How long after its commit a job may take to record its end.
const RECORDS_ITS_END: Duration = Duration::from_secs(2);
/// How long a result that a job has announced may be invisible here.
const SLOW_FILE_SYSTEM: Duration = Duration::from_secs(30);

/// Parts of the reasons for which Slurm lets a job wait until someone changes something.
const NEEDS_ATTENTION: [&str; 7] = [
    "Held",
    "held",
    "BadConstraints",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "InvalidAccount",
    "InvalidQOS",
];

/// A cluster on which stages run.
pub struct Cluster {
    scheduler: Arc<dyn Scheduler>,
    profile: Profile,
    project: PathBuf,
    /// The program that the nodes run.
    pipe: PathBuf,
    /// The kinds that run on this machine.
    local: Vec<String>,
    /// Whether to leave the jobs alone when the run ends.
    detach: bool,
    /// The request to stop, and when it was first made.
    stopping: Mutex<Option<(Urgency, Instant)>>,
    /// The ids of the jobs that the scheduler was asked to end.
    cancelled: Mutex<HashSet<String>>,
    submitting: Submitting,
    polling: Arc<Polling>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.polling.end();
    }
}

/// One computation and how it is reported.
pub(super) struct ClusterAttempt<'a> {
    pub instance: &'a Instance,
    pub computation: &'a Computation,
    pub store: &'a Store,
    /// Whether to compute although there is a result.
    pub forced: bool,
    /// The largest memory that its stage has used before, in bytes.
    pub peak: Option<u64>,
    /// Keeps the output of a failed stage: the name of the stream, and the file with what was printed.
    pub keep_log: &'a dyn Fn(&str, &Path),
}

impl Cluster {
    /// Creates the connection to a cluster. `pipe` is the program here, and `local` are the kinds that run here, unless the
    /// profile says otherwise.
    pub fn new(profile: Profile, project: PathBuf, pipe: PathBuf, local: &[&str], detach: bool) -> Self {
        Self {
            scheduler: scheduler_of(&profile, &project),
            pipe: profile.pipe.clone().unwrap_or(pipe),
            local: profile
                .local
                .clone()
                .unwrap_or_else(|| local.iter().map(|kind| (*kind).to_owned()).collect()),
            profile,
            project,
            detach,
            stopping: Mutex::default(),
            cancelled: Mutex::default(),
            submitting: Submitting::default(),
            polling: Arc::default(),
        }
    }

    /// Returns whether an instance runs on the cluster.
    pub(super) fn takes(&self, instance: &Instance) -> bool {
        !self.local.iter().any(|kind| kind == instance.kind)
    }

    /// Ends all jobs, or leaves them alone if that was asked for. May be called again, more urgently.
    pub(super) fn stop(&self, urgency: Urgency) {
        let before = {
            let mut stopping = lock(&self.stopping);
            let since = stopping.map_or_else(Instant::now, |(_, since)| since);
            stopping.replace((urgency, since))
        };
        if before.is_none() && !self.detach {
            self.polling.expect_change();
            let live = lock(&self.submitting.live).clone();
            self.cancel(live.into_iter().filter_map(|(directory, id)| Some((directory, id?))).collect());
        }
    }

    /// Cancels jobs, each of them once, without waiting for a scheduler that may hang.
    fn cancel(&self, mut jobs: Vec<(JobDirectory, String)>) {
        let mut cancelled = lock(&self.cancelled);
        jobs.retain(|(_, id)| cancelled.insert(id.clone()));
        if jobs.is_empty() {
            return;
        }
        for (directory, _) in &jobs {
            directory.mark_cancelled();
        }
        let ids: Vec<String> = jobs.into_iter().map(|(_, id)| id).collect();
        let scheduler = Arc::clone(&self.scheduler);
        // If this fails, the jobs run to their end, and the next run finds their results.
        drop(std::thread::spawn(move || scheduler.cancel(&ids)));
    }

    fn is_stopping(&self) -> Option<Urgency> {
        lock(&self.stopping).map(|(urgency, _)| urgency)
    }

    /// Returns whether a stop is in vain because the scheduler does not answer.
    fn stops_in_vain(&self) -> bool {
        let since = lock(&self.stopping).map(|(_, since)| since);
        since.is_some_and(|since| since.elapsed() > STOP_PATIENCE && !self.polling.has_answered_since(since))
    }

    /// Returns whether a stop must not wait for a submission any longer.
    fn leaves_submission(&self) -> bool {
        lock(&self.stopping)
            .is_some_and(|(urgency, since)| urgency == Urgency::Now || since.elapsed() > STOP_PATIENCE)
    }

    /// Returns how often to look at the directory of each job: rarely enough that many jobs do not use up a processor.
    fn look_interval(&self) -> Duration {
        let jobs = lock(&self.submitting.live).len() as u32;
        (LOOK * jobs / FEW_JOBS).clamp(LOOK, SELDOM_LOOK)
    }

    /// Computes a key on the cluster: joins the job that another run has left, or submits a new one, and waits for the
    /// result. A job that is interrupted is submitted again.
    pub(super) fn perform(
        &self,
        attempt: &ClusterAttempt<'_>,
        right: WriteRight<'_>,
        report: &mut dyn FnMut(AttemptNote),
    ) -> Result<Manifest, AttemptError> {
        let key = right.key();
        let broken = |error: StoreError| AttemptError::permanent(error.to_string());
        let mut left = self.left_job(attempt.store, key).map_err(broken)?;
        let mut memory = self.profile.first_memory(attempt.instance, attempt.peak);
        let mut fruitless = 0;
        loop {
            let progress = progress(attempt.store, key);
            let SubmittedJob { directory, ended } = match left.take() {
                Some(left) => left,
                None => SubmittedJob { directory: self.submit(attempt, key, memory, report)?, ended: None },
            };
            let ended = match ended {
                Some(interruption) => Err(Unfinished::Interrupted(interruption)),
                None => self.wait_for(attempt, key, &directory, report),
            };
            if !matches!(ended, Err(Unfinished::Error(AttemptError::Detached { .. }))) {
                lock(&self.submitting.live).remove(&directory);
            }
            let error = match ended {
                Ok(manifest) => {
                    let seen = Instant::now();
                    // The job records its end after it has committed; a file that is written while its directory is removed
                    // would stay.
                    while directory.end().is_none() && seen.elapsed() < RECORDS_ITS_END {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    attempt.store.remove_job_directories(key);
                    return Ok(manifest);
                }
                Err(Unfinished::Error(error)) => error,
                Err(Unfinished::Interrupted(interruption)) => {
                    let advanced = self::progress(attempt.store, key) != progress;
                    fruitless = if advanced { 0 } else { fruitless + 1 };
                    match self.memory_of_next(attempt, interruption, &directory, advanced, fruitless) {
                        Ok(next) => {
                            memory = next;
                            // Slurm holds a job that no node could start in the queue.
                            if interruption == Interruption::NodeFailed
                                && let Some(id) = directory.submission().and_then(|submission| submission.id)
                            {
                                self.cancel(vec![(directory.clone(), id)]);
                            }
                            warn(report, submitted_again(interruption, advanced, memory));
                            continue;
                        }
                        Err(error) => error,
                    }
                }
            };
            if matches!(error, AttemptError::Failed { .. }) {
                for stream in ["stdout", "stderr"] {
                    (attempt.keep_log)(stream, &directory.file(stream));
                }
                attempt.store.remove_job_directories(key);
            }
            return Err(error);
        }
    }

    /// Returns the job that an earlier run has left for a key, unless the next one does not depend on it.
    fn left_job(&self, store: &Store, key: StageKey) -> Result<Option<SubmittedJob>, StoreError> {
        let Some(directory) = store.job_directories(key)?.pop().map(JobDirectory::new) else {
            return Ok(None);
        };
        let Some(submission) = directory.submission() else { return Ok(None) };
        match directory.end().and_then(|end| end.error) {
            // Nobody has reported this failure: a run that reports one removes the directory.
            Some(AttemptError::Failed { .. }) => return Ok(Some(SubmittedJob { directory, ended: None })),
            Some(AttemptError::Stopped { .. }) if directory.is_cancelled() => return Ok(None),
            _ => {}
        }
        // First, so that the scheduler is asked about this job.
        lock(&self.submitting.live).insert(directory.clone(), submission.id.clone());
        let since = Instant::now();
        let stopping = || self.is_stopping().is_some();
        self.polling.refresh_since(since, &self.scheduler, &self.submitting.live, &stopping);
        let (view, _) = self.polling.view(&submission, since);
        let is_alive = directory.heartbeat_age().is_some_and(|age| age < self.profile.lost_after.duration);
        if view.may_run() || (is_alive && directory.end().is_none()) {
            return Ok(Some(SubmittedJob { directory, ended: None }));
        }
        lock(&self.submitting.live).remove(&directory);
        let started = directory.heartbeat().is_some();
        let asked = directory.read_job().map_or(0, |job| job.mem);
        let interruption = match view {
            _ if directory.end().is_some() || directory.is_cancelled() => None,
            SchedulerView::Listed(JobState::Ended(ending)) => Some(verdict::interruption(ending, started)),
            // The scheduler has forgotten how it ended.
            _ if started && self.profile.more_memory(asked).is_ok() => Some(Interruption::NoRecord),
            _ => None,
        };
        let needs_memory = |interruption: &Interruption| {
            matches!(interruption, Interruption::OutOfMemory | Interruption::NoRecord)
        };
        let ended = interruption.filter(needs_memory);
        Ok(ended.is_some().then_some(SubmittedJob { directory, ended }))
    }

    /// Submits a new job.
    fn submit(
        &self,
        attempt: &ClusterAttempt<'_>,
        key: StageKey,
        memory: u64,
        report: &mut dyn FnMut(AttemptNote),
    ) -> Result<JobDirectory, AttemptError> {
        let failed = |error: &dyn fmt::Display| AttemptError::permanent(error.to_string());
        if self.detach && self.submitting.is_full(self.profile.max_jobs) {
            return Err(AttemptError::Detached { job: None });
        }
        let directory =
            JobDirectory::new(attempt.store.new_job_directory(key).map_err(|error| failed(&error))?);
        let computation = attempt.computation.clone().map_files(&mut |file| {
            let path = std::path::absolute(&file.path).map_err(|error| failed(&error))?;
            Ok(FileReference { path, blob: file.blob })
        })?;
        let job = JobFile {
            store: attempt.store.root().to_owned(),
            project: self.project.clone(),
            engine: self.profile.name.clone(),
            mem: memory,
            uses_gpu: attempt.instance.resources.gpu > 0,
            forced: attempt.forced,
            computation,
        };
        directory.write_job(&job).map_err(|error| failed(&error))?;
        let resources = self.resources(attempt.instance, memory);
        let instance = attempt.computation.instance.clone();
        self.submitting.add(Waiting { directory: directory.clone(), instance, resources });
        loop {
            std::thread::sleep(COLLECT);
            let is_stopping = self.is_stopping().is_some();
            if is_stopping && self.submitting.take_back(&directory) {
                return Err(AttemptError::Stopped { checkpoint: false });
            }
            match self.submitting.outcome(&directory) {
                Submitted::Yes => return Ok(directory),
                Submitted::Refused(problem) => return Err(AttemptError::permanent(problem)),
                // Another thread is submitting it.
                Submitted::NotYet if is_stopping => continue,
                Submitted::NotYet => {}
            }
            let script = |directories: &[&Path]| {
                script::text(&self.profile, &self.pipe, self.scheduler.position_variable(), directories)
            };
            let problem = self.submitting.submit_some(
                &self.scheduler,
                &self.polling,
                self.profile.max_jobs,
                &script,
                &|| self.leaves_submission(),
            );
            if let Some(problem) = problem {
                warn(
                    report,
                    format!("the scheduler takes no job at the moment, so pipe tries again: {problem}"),
                );
            }
        }
    }

    fn resources(&self, instance: &Instance, memory: u64) -> JobResources {
        JobResources {
            cpu: instance.resources.cpu,
            mem: memory,
            gpu: instance.resources.gpu,
            gpu_type: instance.cluster.gpu_type.clone(),
            time: instance.cluster.time.or(self.profile.time.map(|time| time.duration)),
        }
    }

    /// Waits until a job has ended, and passes its events on.
    fn wait_for(
        &self,
        attempt: &ClusterAttempt<'_>,
        key: StageKey,
        directory: &JobDirectory,
        report: &mut dyn FnMut(AttemptNote),
    ) -> Result<Manifest, Unfinished> {
        let mut watch = Watch::new(directory);
        loop {
            for note in watch.events.read(directory) {
                report(note);
            }
            self.polling.refresh(&self.scheduler, &self.submitting.live);
            directory.refresh();
            let seen = self.observe(attempt, key, directory, &mut watch);
            if self.is_stopping().is_some() && !self.detach {
                watch.cancelled = true;
                self.cancel(watch.id.iter().map(|id| (directory.clone(), id.clone())).collect());
            }
            if let Some(problem) = self.polling.problem_to_report() {
                warn(report, format!("{problem}; the jobs go on, and their results are found without it"));
            }
            watch.warn_about_hold(&seen.view, report);
            let verdict = decide(&seen, self.profile.lost_after.duration);
            match verdict {
                Verdict::Committed => match attempt.store.lookup(&key) {
                    Lookup::Hit(manifest) => {
                        for note in watch.events.read(directory) {
                            report(note);
                        }
                        return Ok(*manifest);
                    }
                    Lookup::Unreadable(error) => {
                        return Err(AttemptError::permanent(error.to_string()).into());
                    }
                    Lookup::Miss | Lookup::Damaged(_) => watch.give_up_if_invisible(directory)?,
                },
                Verdict::Failed(mut error) => {
                    // A job that fails before it starts has no other output than that of the script.
                    if let AttemptError::Failed { stderr_tail, .. } = &mut error
                        && !seen.started
                    {
                        *stderr_tail = directory.output_tail();
                    }
                    return Err(error.into());
                }
                Verdict::Interrupted(_) if self.is_stopping().is_some() => {
                    return Err(self.stopped(attempt.store, key).into());
                }
                Verdict::Interrupted(_) if watch.cancelled_before => {
                    return Err(Unfinished::Interrupted(Interruption::CancelledBefore));
                }
                Verdict::Interrupted(interruption) => return Err(Unfinished::Interrupted(interruption)),
                // A job that was cancelled before it started leaves no trace.
                Verdict::Wait
                    if self.is_stopping() == Some(Urgency::Now)
                        || (watch.cancelled && !seen.view.may_run()) =>
                {
                    return Err(self.stopped(attempt.store, key).into());
                }
                Verdict::Wait if self.detach || self.stops_in_vain() => {
                    let job = watch.id.unwrap_or(watch.submission.name);
                    return Err(AttemptError::Detached { job: Some(job) }.into());
                }
                Verdict::Wait => {}
            }
            std::thread::sleep(self.look_interval());
        }
    }

    fn stopped(&self, store: &Store, key: StageKey) -> AttemptError {
        AttemptError::Stopped { checkpoint: progress(store, key).is_some() }
    }

    fn observe(
        &self,
        attempt: &ClusterAttempt<'_>,
        key: StageKey,
        directory: &JobDirectory,
        watch: &mut Watch,
    ) -> Observation {
        let (view, id) = self.polling.view(&watch.submission, watch.since);
        if id.is_some() && watch.id != id {
            if let Some(known) = lock(&self.submitting.live).get_mut(directory) {
                known.clone_from(&id);
            }
            watch.id = id;
        }
        let heartbeat = directory.heartbeat();
        if (heartbeat.is_some() && heartbeat != watch.heartbeat) || view.may_run() {
            watch.heard = Instant::now();
        }
        watch.heartbeat = heartbeat;
        Observation {
            manifest: !attempt.forced && attempt.store.has_manifest(key),
            end: directory.end(),
            cancelled: directory.is_cancelled(),
            view,
            started: watch.heartbeat.is_some(),
            quiet: watch.heard.elapsed(),
        }
    }

    /// Returns the memory with which an interrupted job is submitted again, or an error if it must not be.
    fn memory_of_next(
        &self,
        attempt: &ClusterAttempt<'_>,
        interruption: Interruption,
        directory: &JobDirectory,
        advanced: bool,
        fruitless: u32,
    ) -> Result<u64, AttemptError> {
        let asked = directory.read_job().map_or(0, |job| job.mem);
        let resources = self.resources(attempt.instance, asked);
        let id = directory.submission().and_then(|submission| submission.id).unwrap_or_default();
        if matches!(interruption, Interruption::NeverStarted | Interruption::NoRecord)
            && let Some(problem) = directory.write_problem()
        {
            return Err(AttemptError::permanent(format!(
                "its job {id} could not say how it ended: {problem}"
            )));
        }
        let error = match interruption {
            Interruption::TimeLimit if advanced => return Ok(asked),
            Interruption::TimeLimit => match resources.minutes() {
                Some(minutes) => format!(
                    "it did not end, and wrote no new checkpoint, within its time limit of {minutes} min; ask for more time: \
                     `resources: {{ time: {}m }}`",
                    minutes * 2
                ),
                None => "it did not end, and wrote no new checkpoint, within the time limit of the cluster; state its time: \
                         `resources: { time: ... }`"
                    .to_owned(),
            },
            Interruption::OutOfMemory => match self.profile.more_memory(asked) {
                Ok(more) => return Ok(more),
                Err(refusal) => refusal,
            },
            Interruption::Cancelled => format!("its job {id} was cancelled outside of this run"),
            Interruption::NeverStarted => format!(
                "its job {id} ended, and nothing was written to `{}`: the nodes must see the cache, the project and `{}` \
                 under the same paths as this machine; --cache-dir chooses a directory on a shared file system{}",
                directory.path().display(),
                self.pipe.display(),
                if self.profile.setup.is_some() { ". If they do, `setup` of the profile failed" } else { "" }
            ),
            // Some schedulers do not say that they killed a job because of its memory.
            Interruption::NoRecord => match self.profile.more_memory(asked) {
                Ok(more) => return Ok(more),
                Err(_) => format!(
                    "its job {id} ended without saying how; it may have been killed because it needed too much memory"
                ),
            },
            Interruption::CancelledBefore => return Ok(asked),
            Interruption::Terminated | Interruption::Preempted | Interruption::NodeFailed | Interruption::Lost => {
                if fruitless <= FRUITLESS {
                    return Ok(asked);
                }
                format!(
                    "its job {}, and so did {FRUITLESS} before it, without getting any further",
                    interruption.happened()
                )
            }
        };
        let out_of_memory = interruption == Interruption::OutOfMemory;
        Err(AttemptError::Failed { error, stderr_tail: directory.output_tail(), retry: false, out_of_memory })
    }
}

/// A job that was submitted, by this run or an earlier one.
struct SubmittedJob {
    directory: JobDirectory,
    /// Why it ended before its stage did, if that is known.
    ended: Option<Interruption>,
}

/// Why [`Cluster::wait_for`] returned no result.
enum Unfinished {
    Interrupted(Interruption),
    Error(AttemptError),
}

impl From<AttemptError> for Unfinished {
    fn from(error: AttemptError) -> Self {
        Self::Error(error)
    }
}

impl Interruption {
    /// Returns what happened to the job, as the end of a sentence.
    fn happened(self) -> &'static str {
        match self {
            Self::Terminated => "was ended by the cluster",
            Self::TimeLimit => "reached its time limit",
            Self::OutOfMemory => "ran out of memory",
            Self::Preempted => "was preempted",
            Self::NodeFailed => "was lost with its node",
            Self::Cancelled => "was cancelled",
            Self::CancelledBefore => "was cancelled before this run",
            Self::Lost => "was lost",
            Self::NeverStarted => "did not start",
            Self::NoRecord => "ended without saying how, most likely because it ran out of memory",
        }
    }
}

/// What a thread knows about its job.
struct Watch {
    submission: Submission,
    since: Instant,
    id: Option<String>,
    events: EventReader,
    heartbeat: Option<String>,
    /// When there was last a sign that the job may run.
    heard: Instant,
    announced: Option<Instant>,
    /// Whether this run has asked the scheduler to end it.
    cancelled: bool,
    /// Whether that was asked before this run joined it.
    cancelled_before: bool,
    held: bool,
}

impl Watch {
    fn new(directory: &JobDirectory) -> Self {
        let submission = directory.submission().unwrap_or(Submission { name: String::new(), id: None });
        Self {
            id: submission.id.clone(),
            submission,
            since: Instant::now(),
            events: EventReader::default(),
            heartbeat: None,
            heard: Instant::now(),
            announced: None,
            cancelled: false,
            cancelled_before: directory.is_cancelled(),
            held: false,
        }
    }

    /// Warns once if the job waits for something that does not come by itself.
    fn warn_about_hold(&mut self, view: &SchedulerView, report: &mut dyn FnMut(AttemptNote)) {
        if let SchedulerView::Listed(JobState::Pending(reason)) = view
            && NEEDS_ATTENTION.iter().any(|part| reason.contains(part))
            && !std::mem::replace(&mut self.held, true)
        {
            let id = self.id.as_deref().unwrap_or_default();
            warn(report, format!("its job {id} waits, and may wait for ever; the scheduler says: {reason}"));
        }
    }

    /// Fails if a job has said that it committed its result, and the result does not become visible.
    fn give_up_if_invisible(&mut self, directory: &JobDirectory) -> Result<(), AttemptError> {
        let announced = *self.announced.get_or_insert_with(Instant::now);
        if announced.elapsed() < SLOW_FILE_SYSTEM {
            return Ok(());
        }
        Err(AttemptError::permanent(format!(
            "its job says in `{}` that it is done, but its result cannot be found in the cache; run again",
            directory.path().display()
        )))
    }
}

/// Returns a sentence about a job that takes the place of an interrupted one.
fn submitted_again(interruption: Interruption, advanced: bool, memory: u64) -> String {
    let next = if advanced { "continues from its checkpoint" } else { "starts again" };
    let with = match interruption {
        Interruption::OutOfMemory | Interruption::NoRecord => format!(" with {} MiB", mebibytes(memory)),
        _ => String::new(),
    };
    format!("its job {}; it was submitted again{with} and {next}", interruption.happened())
}

fn warn(report: &mut dyn FnMut(AttemptNote), message: String) {
    report(AttemptNote::Worker(WorkerEvent::Log { level: LogLevel::Warning, message }));
}

fn scheduler_of(profile: &Profile, project: &Path) -> Arc<dyn Scheduler> {
    let command = |command: &Option<String>| command.clone().unwrap_or_default();
    match profile.engine {
        EngineKind::Slurm => Arc::new(Slurm::new(profile.clone(), project.to_owned())),
        EngineKind::Template => Arc::new(Template {
            submit: command(&profile.submit),
            status: command(&profile.status),
            cancel: command(&profile.cancel),
            project: project.to_owned(),
        }),
    }
}

/// Returns a digest of the checkpoints of a key, which differs when a stage gets further; `None` if there are none.
fn progress(store: &Store, key: StageKey) -> Option<Digest> {
    let mut found = Vec::new();
    for entry in fs::read_dir(store.checkpoints_of(key)).ok()?.flatten() {
        let metadata = entry.metadata().ok()?;
        found.push((entry.file_name(), metadata.len(), metadata.modified().ok()));
    }
    found.sort();
    (!found.is_empty()).then(|| Digest::of(format!("{found:?}").as_bytes()))
}
