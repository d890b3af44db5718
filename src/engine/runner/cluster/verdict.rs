//! Decides from what is known about a job whether it has ended, without files, processes or a clock.
//!
//! The order of truth is: the manifest, the end record, then the scheduler together with the heartbeat. The scheduler is only
//! asked whether someone may still be working on the key.

use std::time::Duration;

use super::directory::EndRecord;
use super::scheduler::{Ending, JobState};
use crate::runner::executor::AttemptError;

/// How long a job that has ended may be silent before its end record is no longer expected. A network file system may show
/// it late.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// What the scheduler says about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SchedulerView {
    /// The scheduler has not answered since the job was submitted.
    Silent,
    Listed(JobState),
    /// The scheduler has answered and does not know the job.
    Unlisted,
}

impl SchedulerView {
    /// Returns whether the scheduler may still run the job, or start it again.
    pub(super) fn may_run(&self) -> bool {
        matches!(self, Self::Silent | Self::Listed(JobState::Pending(_) | JobState::Running))
    }
}

/// What is known about a job.
#[derive(Debug)]
pub(super) struct Observation {
    /// Whether there is a manifest that this job may have written.
    pub manifest: bool,
    pub end: Option<EndRecord>,
    /// Whether pipe has asked the scheduler to end it.
    pub cancelled: bool,
    pub view: SchedulerView,
    /// Whether the job has ever written a heartbeat.
    pub started: bool,
    /// How long there was neither a heartbeat nor a scheduler that may run the job.
    pub quiet: Duration,
}

/// What to do about a job.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Wait,
    /// The result should be in the store.
    Committed,
    /// The stage failed.
    Failed(AttemptError),
    /// The job ended before the stage did.
    Interrupted(Interruption),
}

/// Why a job ended before its stage did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// It was asked to end, by someone or something that is not known.
    Terminated,
    TimeLimit,
    OutOfMemory,
    Preempted,
    NodeFailed,
    Cancelled,
    /// It was cancelled, and then joined by this run.
    CancelledBefore,
    /// It gave signs of life, and then neither it nor the scheduler did.
    Lost,
    /// It ended without any trace in its directory.
    NeverStarted,
    /// It ended after it had started, without saying how.
    NoRecord,
}

/// Decides what to do about a job. `lost_after` is how long a job that the scheduler does not know may be silent.
pub(super) fn decide(seen: &Observation, lost_after: Duration) -> Verdict {
    if seen.manifest {
        return Verdict::Committed;
    }
    match &seen.end {
        Some(EndRecord { error: None, .. }) => return Verdict::Committed,
        Some(EndRecord { error: Some(AttemptError::Stopped { .. }), time_is_up }) => {
            return match &seen.view {
                // Such a job does not start again, so the scheduler need not be asked.
                _ if seen.cancelled => Verdict::Interrupted(Interruption::Cancelled),
                // It may have been put back into the queue.
                view if view.may_run() => Verdict::Wait,
                _ if *time_is_up => Verdict::Interrupted(Interruption::TimeLimit),
                SchedulerView::Listed(JobState::Ended(ending)) => Verdict::Interrupted(match ending {
                    Ending::Finished | Ending::Failed => Interruption::Terminated,
                    ending => interruption(*ending, true),
                }),
                _ => Verdict::Interrupted(Interruption::Terminated),
            };
        }
        Some(EndRecord { error: Some(AttemptError::Failed { out_of_memory: true, .. }), .. }) => {
            return Verdict::Interrupted(Interruption::OutOfMemory);
        }
        Some(EndRecord { error: Some(error), .. }) => return Verdict::Failed(error.clone()),
        None => {}
    }
    match &seen.view {
        view if view.may_run() => Verdict::Wait,
        SchedulerView::Listed(JobState::Ended(ending)) if seen.quiet >= GRACE => {
            Verdict::Interrupted(interruption(*ending, seen.started))
        }
        SchedulerView::Unlisted if seen.quiet >= lost_after && seen.started => {
            Verdict::Interrupted(Interruption::Lost)
        }
        SchedulerView::Unlisted if seen.quiet >= lost_after => {
            Verdict::Interrupted(Interruption::NeverStarted)
        }
        _ => Verdict::Wait,
    }
}

/// Returns why a job ended before its stage, given how the scheduler says that it ended.
pub(super) fn interruption(ending: Ending, started: bool) -> Interruption {
    match ending {
        Ending::Finished | Ending::Failed if started => Interruption::NoRecord,
        Ending::Finished | Ending::Failed => Interruption::NeverStarted,
        Ending::Cancelled => Interruption::Cancelled,
        Ending::TimeLimit => Interruption::TimeLimit,
        Ending::OutOfMemory => Interruption::OutOfMemory,
        Ending::Preempted => Interruption::Preempted,
        Ending::NodeFailed => Interruption::NodeFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn running() -> Observation {
        let view = SchedulerView::Listed(JobState::Running);
        Observation {
            manifest: false,
            end: None,
            cancelled: false,
            view,
            started: true,
            quiet: Duration::ZERO,
        }
    }

    fn ended(ending: Ending) -> SchedulerView {
        SchedulerView::Listed(JobState::Ended(ending))
    }

    fn end(error: Option<AttemptError>) -> Option<EndRecord> {
        Some(EndRecord { error, time_is_up: false })
    }

    #[test]
    fn a_result_counts_whatever_the_scheduler_says() {
        for view in [SchedulerView::Silent, SchedulerView::Unlisted, ended(Ending::Failed)] {
            let failed = end(Some(AttemptError::retryable("another copy was disturbed")));
            let seen = Observation { manifest: true, end: failed, view, quiet: 9 * MINUTE, ..running() };
            assert_eq!(decide(&seen, MINUTE), Verdict::Committed);
        }
    }

    #[test]
    fn a_job_is_not_given_up_while_the_scheduler_is_silent_or_lists_it() {
        let pending = SchedulerView::Listed(JobState::Pending("Priority".into()));
        for view in [SchedulerView::Silent, pending, running().view] {
            let seen = Observation { view, quiet: 99 * MINUTE, ..running() };
            assert_eq!(decide(&seen, MINUTE), Verdict::Wait);
        }
    }

    #[test]
    fn an_unknown_job_is_lost_only_after_its_heartbeat_has_stopped_for_long() {
        let unknown = |quiet| Observation { view: SchedulerView::Unlisted, quiet, ..running() };
        assert_eq!(decide(&unknown(MINUTE / 2), MINUTE), Verdict::Wait);
        assert_eq!(decide(&unknown(MINUTE), MINUTE), Verdict::Interrupted(Interruption::Lost));
        let without_trace = Observation { started: false, ..unknown(MINUTE) };
        assert_eq!(decide(&without_trace, MINUTE), Verdict::Interrupted(Interruption::NeverStarted));
    }

    #[test]
    fn a_stopped_job_that_is_queued_again_is_waited_for() {
        let stopped = end(Some(AttemptError::Stopped { checkpoint: true }));
        let seen = |view| Observation { end: stopped.clone(), view, quiet: 9 * MINUTE, ..running() };
        let queued = SchedulerView::Listed(JobState::Pending("BeginTime".into()));
        assert_eq!(decide(&seen(queued), MINUTE), Verdict::Wait);
        let preempted = decide(&seen(ended(Ending::Preempted)), MINUTE);
        assert_eq!(preempted, Verdict::Interrupted(Interruption::Preempted));
        let gone = decide(&seen(SchedulerView::Unlisted), MINUTE);
        assert_eq!(gone, Verdict::Interrupted(Interruption::Terminated));
    }

    #[test]
    fn a_job_that_was_cancelled_is_not_waited_for_while_the_scheduler_is_silent() {
        let stopped = end(Some(AttemptError::Stopped { checkpoint: false }));
        let seen = Observation { end: stopped, view: SchedulerView::Silent, cancelled: true, ..running() };
        assert_eq!(decide(&seen, MINUTE), Verdict::Interrupted(Interruption::Cancelled));
        let ending = Observation { end: None, ..seen };
        assert_eq!(decide(&ending, MINUTE), Verdict::Wait, "it may be writing its checkpoint");
    }

    #[test]
    fn a_stage_that_was_killed_because_of_its_memory_has_not_failed_yet() {
        let mut error = AttemptError::retryable("it was killed because the machine ran out of memory");
        if let AttemptError::Failed { out_of_memory, .. } = &mut error {
            *out_of_memory = true;
        }
        let killed = Observation { end: end(Some(error)), ..running() };
        assert_eq!(decide(&killed, MINUTE), Verdict::Interrupted(Interruption::OutOfMemory));
    }

    #[test]
    fn a_failure_of_the_stage_is_final_and_an_end_of_the_job_has_a_grace_period() {
        let error = AttemptError::retryable("it ended with exit code 3");
        let failed = Observation { end: end(Some(error.clone())), ..running() };
        assert_eq!(decide(&failed, MINUTE), Verdict::Failed(error));
        let killed = |quiet| Observation { view: ended(Ending::TimeLimit), quiet, ..running() };
        assert_eq!(decide(&killed(GRACE / 2), MINUTE), Verdict::Wait);
        assert_eq!(decide(&killed(GRACE), MINUTE), Verdict::Interrupted(Interruption::TimeLimit));
    }
}
