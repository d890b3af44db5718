//! Lists and cancels the jobs of a store, from any machine that sees it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::directory::{JobDirectory, Submission};
use super::polling::Polling;
use super::profile::Profile;
use super::scheduler::{Ending, JobState};
use super::scheduler_of;
use super::verdict::SchedulerView;
use crate::runner::executor::AttemptError;
use crate::store::{Store, StoreError};
use pipe_core::digest::StageKey;

/// One job that a run has submitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    pub instance: String,
    pub key: StageKey,
    /// The name of the engine that it was submitted to.
    pub engine: String,
    /// The id that the scheduler gave it.
    pub job: Option<String>,
    /// `pending`, `running`, `done`, `failed`, `stopped`, `lost` or `unknown`.
    pub state: &'static str,
    /// Why it waits, or what its last sign of life was.
    pub note: String,
}

impl JobSummary {
    /// Returns whether the scheduler may still run it.
    pub fn is_live(&self) -> bool {
        matches!(self.state, "pending" | "running" | "unknown")
    }
}

/// A job that was submitted, as its directory describes it.
struct FoundJob {
    key: StageKey,
    instance: String,
    /// Whether it computes a result that is there already.
    forced: bool,
    directory: JobDirectory,
    submission: Submission,
}

/// Lists the last job of every key that has one: those of all engines, or of the one that is named. `profile_of` returns the profile of
/// an engine. The second value says which schedulers could not be asked, and why.
pub fn list_jobs(
    store: &Store,
    project: &Path,
    engine: Option<&str>,
    profile_of: &dyn Fn(&str) -> Result<Profile, String>,
) -> Result<(Vec<JobSummary>, Vec<String>), StoreError> {
    let mut jobs: BTreeMap<String, Vec<FoundJob>> = BTreeMap::new();
    for key in store.keys_with_jobs()? {
        let Some(directory) = store.job_directories(key)?.pop().map(JobDirectory::new) else { continue };
        let (Some(submission), Ok(job)) = (directory.submission(), directory.read_job()) else { continue };
        if engine.is_none_or(|engine| engine == job.engine) {
            let (instance, forced) = (job.computation.instance, job.forced);
            jobs.entry(job.engine).or_default().push(FoundJob {
                key,
                instance,
                forced,
                directory,
                submission,
            });
        }
    }
    let (mut summaries, mut problems) = (Vec::new(), Vec::new());
    for (engine, jobs) in jobs {
        let (polling, asked) = (Polling::default(), Instant::now());
        let ids: Vec<String> = jobs.iter().filter_map(|job| job.submission.id.clone()).collect();
        let profile = profile_of(&engine);
        let answer = profile
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|profile| polling.ask(&*scheduler_of(profile, project), &ids));
        problems.extend(answer.err());
        let lost_after = profile.unwrap_or_else(|_| Profile::slurm()).lost_after.duration;
        for FoundJob { key, instance, forced, directory, submission } in jobs {
            let (view, job) = polling.view(&submission, asked);
            let (state, note) = state(!forced && store.has_manifest(key), &directory, view, lost_after);
            summaries.push(JobSummary { instance, key, engine: engine.clone(), job, state, note });
        }
    }
    Ok((summaries, problems))
}

/// Removes the jobs, among those for these keys, that have committed their results. A run that watches a job does so itself; these ended when no
/// run did.
pub(in crate::runner) fn forget_done_jobs(store: &Store, keys: &HashSet<StageKey>) {
    for key in store.keys_with_jobs().unwrap_or_default().into_iter().filter(|key| keys.contains(key)) {
        let Some(directory) = last_job(store, key) else { continue };
        let is_done = directory.end().is_some_and(|end| end.error.is_none());
        // A run that computes a result once more learns only from the directory that there is a new one.
        if is_done && directory.read_job().is_ok_and(|job| !job.forced) {
            store.remove_job_directories(key);
        }
    }
}

/// Returns whether a job was submitted for a key that has no result yet.
pub fn has_job(store: &Store, key: StageKey) -> bool {
    store.job_directories(key).is_ok_and(|directories| !directories.is_empty())
}

/// Returns what the last job for a key has printed so far to a stream, `stdout` or `stderr`. A job that failed keeps it in its
/// directory; one that runs has it in a temporary directory.
pub fn log_of_job(store: &Store, key: StageKey, stream: &str) -> Option<Vec<u8>> {
    let directory = last_job(store, key)?;
    let areas = listed(&directory.file("tmp")).flat_map(|session| listed(&session));
    let running = areas.map(|area| area.join(stream)).filter(|path| path.is_file());
    let written = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let path = running.max_by_key(written).unwrap_or_else(|| directory.file(stream));
    fs::read(path).ok().filter(|text| !text.is_empty())
}

fn last_job(store: &Store, key: StageKey) -> Option<JobDirectory> {
    store.job_directories(key).ok()?.pop().map(JobDirectory::new)
}

/// Returns the paths in a directory; none if it cannot be read.
fn listed(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn state(
    has_result: bool,
    directory: &JobDirectory,
    view: SchedulerView,
    lost_after: Duration,
) -> (&'static str, String) {
    let age = directory.heartbeat_age();
    let sign = age.map_or_else(String::new, |age| format!("last sign of life {} s ago", age.as_secs()));
    let is_alive = age.is_some_and(|age| age < lost_after);
    if has_result {
        return ("done", "the next run takes its result".to_owned());
    }
    match (directory.end().map(|end| end.error), view) {
        (Some(None), _) => ("done", "the next run takes its result".to_owned()),
        (Some(Some(AttemptError::Failed { error, .. })), _) => ("failed", error),
        (_, SchedulerView::Listed(JobState::Pending(reason))) => ("pending", reason),
        (None, SchedulerView::Listed(JobState::Running)) => ("running", sign),
        (Some(_), SchedulerView::Listed(JobState::Ended(Ending::Cancelled))) => {
            ("stopped", "cancelled".to_owned())
        }
        (Some(_), _) => ("stopped", "the next run submits it again".to_owned()),
        (None, SchedulerView::Listed(JobState::Ended(Ending::OutOfMemory))) => {
            ("stopped", "it ran out of memory; the next run submits it again".to_owned())
        }
        (None, _) if is_alive => ("running", sign),
        (None, SchedulerView::Silent) => ("unknown", sign),
        (None, _) => ("lost", "the next run submits it again".to_owned()),
    }
}

/// Cancels jobs of one engine, whose ids are known.
pub fn cancel_jobs(
    store: &Store,
    profile: &Profile,
    project: &Path,
    jobs: &[&JobSummary],
) -> Result<(), String> {
    let ids: Vec<String> = jobs.iter().filter_map(|job| job.job.clone()).collect();
    for directory in jobs.iter().filter_map(|job| last_job(store, job.key)) {
        directory.mark_cancelled();
    }
    if ids.is_empty() { Ok(()) } else { scheduler_of(profile, project).cancel(&ids) }
}
