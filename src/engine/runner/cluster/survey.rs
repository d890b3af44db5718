//! Lists and cancels the jobs of a store, from any machine that sees it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::directory::JobDirectory;
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

/// Lists the last job of every key that has one. The second value says why the scheduler did not answer.
pub fn list_jobs(
    store: &Store,
    profile: &Profile,
    project: &Path,
) -> Result<(Vec<JobSummary>, Option<String>), StoreError> {
    let scheduler = scheduler_of(profile, project);
    let mut jobs = Vec::new();
    for key in store.keys_with_jobs()? {
        let directory = store.job_directories(key)?.pop().map(JobDirectory::new);
        if let Some(directory) = directory
            && let Some(submission) = directory.submission()
        {
            jobs.push((key, directory, submission));
        }
    }
    if jobs.is_empty() {
        return Ok((Vec::new(), None));
    }
    let (polling, asked) = (Polling::default(), Instant::now());
    let ids: Vec<String> = jobs.iter().filter_map(|(_, _, submission)| submission.id.clone()).collect();
    let problem = polling.ask(&*scheduler, &ids).err();
    let summaries = jobs.into_iter().map(|(key, directory, submission)| {
        let (view, job) = polling.view(&submission, asked);
        let instance =
            directory.read_job().map(|job| job.computation.instance).unwrap_or_else(|_| "?".to_owned());
        let (state, note) = state(store.has_manifest(key), &directory, view, profile.lost_after.duration);
        JobSummary { instance, key, job, state, note }
    });
    Ok((summaries.collect(), problem))
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
        (None, _) if is_alive => ("running", sign),
        (None, SchedulerView::Silent) => ("unknown", sign),
        (None, _) => ("lost", "the next run submits it again".to_owned()),
    }
}

/// Cancels the jobs of these ids.
pub fn cancel_jobs(profile: &Profile, project: &Path, ids: &[String]) -> Result<(), String> {
    if ids.is_empty() { Ok(()) } else { scheduler_of(profile, project).cancel(ids) }
}
