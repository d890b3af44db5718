//! Asks the scheduler about all jobs with one command, as rarely as possible.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::directory::{JobDirectory, Submission};
use super::scheduler::{JobState, ListedJob, Scheduler};
use super::submitting::lock;
use super::verdict::SchedulerView;

/// How often the scheduler is asked, at most and at least. Results are found without it.
const OFTEN: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);
/// How often a thread that needs an answer checks whether there is one.
const CHECK_ANSWER: Duration = Duration::from_millis(20);

/// How long the end of a run waits for the command that asks the scheduler to end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// The jobs that a run has submitted or joined, with their ids as far as they are known.
pub(super) type LiveJobs = Mutex<BTreeMap<JobDirectory, Option<String>>>;

/// The last answer of the scheduler.
#[derive(Default)]
pub(super) struct Polling {
    /// Held while the scheduler is asked.
    turn: Mutex<()>,
    /// Whether a thread asks, or is about to.
    is_asking: AtomicBool,
    /// Whether nobody needs an answer any longer.
    is_over: AtomicBool,
    last: Mutex<Answer>,
}

#[derive(Default)]
struct Answer {
    /// When the question of the last answer was asked.
    asked: Option<Instant>,
    /// When the scheduler was last asked, whether or not it answered.
    tried: Option<Instant>,
    interval: Duration,
    states: HashMap<String, JobState>,
    /// The ids of jobs by their names.
    ids: HashMap<String, String>,
    /// Why the scheduler did not answer the last question.
    problem: Option<String>,
    /// Whether the problem has been reported since the scheduler last answered.
    reported: bool,
}

/// Says that nobody asks any longer when it is dropped.
struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Polling {
    /// Asks the scheduler about the live jobs if it is time to. Does not wait for the answer: a scheduler that hangs must not
    /// keep anyone from looking at the files of a job.
    pub(super) fn refresh(self: &Arc<Self>, scheduler: &Arc<dyn Scheduler>, live: &LiveJobs) {
        let is_early = {
            let last = lock(&self.last);
            let interval = last.interval.clamp(OFTEN, SELDOM);
            last.tried.is_some_and(|tried| tried.elapsed() < interval)
        };
        if !is_early {
            self.ask_in_background(scheduler, live);
        }
    }

    /// Asks the scheduler about the live jobs, unless it was asked after `since`, and waits until it has answered or could not,
    /// or until `give_up` says so. Threads that wait at the same time share one question.
    pub(super) fn refresh_since(
        self: &Arc<Self>,
        since: Instant,
        scheduler: &Arc<dyn Scheduler>,
        live: &LiveJobs,
        give_up: &dyn Fn() -> bool,
    ) {
        while lock(&self.last).tried.is_none_or(|tried| tried < since) && !give_up() {
            self.ask_in_background(scheduler, live);
            std::thread::sleep(CHECK_ANSWER);
        }
    }

    fn ask_in_background(self: &Arc<Self>, scheduler: &Arc<dyn Scheduler>, live: &LiveJobs) {
        if self.is_asking.swap(true, Ordering::SeqCst) {
            return;
        }
        // Before the ids are collected: a job that is added later is not among those that were asked about.
        let asked = Instant::now();
        let (polling, scheduler, ids) = (Arc::clone(self), Arc::clone(scheduler), ids_of(live));
        let ask = move || {
            let _asking = Asking(&polling.is_asking);
            // If it does not answer, `problem` says why.
            let _ = polling.ask_at(asked, &*scheduler, &ids);
        };
        if std::thread::Builder::new().spawn(ask).is_err() {
            self.is_asking.store(false, Ordering::SeqCst);
        }
    }

    /// Ends the command that waits for an answer, if there is one: it would go on after the run.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let begin = Instant::now();
        while self.is_asking.load(Ordering::SeqCst) && begin.elapsed() < END_PATIENCE {
            std::thread::sleep(CHECK_ANSWER);
        }
    }

    /// Asks the scheduler now. Fails if it does not answer.
    pub(super) fn ask(&self, scheduler: &dyn Scheduler, ids: &[String]) -> Result<(), String> {
        self.ask_at(Instant::now(), scheduler, ids)
    }

    fn ask_at(&self, asked: Instant, scheduler: &dyn Scheduler, ids: &[String]) -> Result<(), String> {
        let _turn = lock(&self.turn);
        let answer = scheduler.list(ids, &|| self.is_over.load(Ordering::SeqCst));
        let mut last = lock(&self.last);
        last.tried = Some(asked);
        match answer {
            Ok(jobs) => {
                (last.problem, last.reported) = (None, false);
                last.asked = Some(asked);
                let mut states = HashMap::new();
                last.ids.clear();
                for ListedJob { id, name, state } in jobs {
                    if let Some(name) = name {
                        last.ids.insert(name, id.clone());
                    }
                    states.insert(id, state);
                }
                last.interval = if states == last.states { last.interval.max(OFTEN) * 2 } else { OFTEN };
                last.states = states;
                Ok(())
            }
            Err(problem) => {
                last.interval = last.interval.max(OFTEN) * 2;
                last.problem = Some(problem.clone());
                Err(problem)
            }
        }
    }

    /// Lets the next refresh ask soon, because something is about to change.
    pub(super) fn expect_change(&self) {
        lock(&self.last).interval = OFTEN;
    }

    /// Returns why the scheduler did not answer the last question, if so.
    pub(super) fn problem(&self) -> Option<String> {
        lock(&self.last).problem.clone()
    }

    /// Returns why the scheduler does not answer, once until it answers again.
    pub(super) fn problem_to_report(&self) -> Option<String> {
        let mut last = lock(&self.last);
        if last.reported {
            return None;
        }
        last.reported = last.problem.is_some();
        last.problem.clone()
    }

    /// Returns whether the scheduler has answered a question that was asked after `since`.
    pub(super) fn has_answered_since(&self, since: Instant) -> bool {
        lock(&self.last).asked.is_some_and(|asked| asked >= since)
    }

    /// Returns what the scheduler said about a job that was submitted at `since`, and the job's id.
    pub(super) fn view(&self, job: &Submission, since: Instant) -> (SchedulerView, Option<String>) {
        let last = lock(&self.last);
        let id = job.id.clone().or_else(|| last.ids.get(&job.name).cloned());
        let is_answer = last.problem.is_none() && last.asked.is_some_and(|asked| asked >= since);
        let view = match id.as_ref().and_then(|id| last.states.get(id)) {
            _ if !is_answer => SchedulerView::Silent,
            Some(state) => SchedulerView::Listed(state.clone()),
            None => SchedulerView::Unlisted,
        };
        (view, id)
    }
}

fn ids_of(live: &LiveJobs) -> Vec<String> {
    lock(live).values().flatten().cloned().collect()
}
