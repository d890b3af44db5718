//! The coordinator: one thread that decides, and one thread per running stage.
//!
//! A stage whose result is in the cache is finished here, without a thread. Any other stage is claimed (if another process
//! is computing it, the run waits for its result without using a processor) and handed to a thread, which answers through
//! a channel. Only the coordinator's thread emits events.

mod ending;
mod launch;
mod ownership;
mod placing;
mod record;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::attempt::AttemptNote;
use super::cluster::forget_done_jobs;
use super::event::{Event, Summary};
use super::executor::{AttemptError, Executor};
use super::inspect::{Finding, Inspector, Prepared, known};
use super::journal::Journal;
use super::machine;
use super::options::Options;
use super::queue::Queue;
use super::stop::{Stop, Urgency};
use crate::plan::{Plan, Why};
use crate::remote::{Remote, RemoteSummary, UploadQueue};
use crate::spec::pipeline::{Instance, InstanceIndex, Resources};
use crate::store::manifest::Manifest;
use crate::store::{ResultSummary, StateSighting, Store, StoreError};
use pipe_core::digest::StageKey;
use pipe_core::event::LogLevel;
use pipe_core::memory::machine_memory;

/// Why a run cannot start or cannot be recorded. A stage that fails is not such an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "`{instance}` asks for {asked} GPUs, but there are {present}; lower its `resources: {{ gpu: ... }}`, \
         or run it on a machine that has them"
    )]
    TooManyGpus { instance: String, asked: usize, present: usize },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How often the coordinator checks for a stop while stages run.
const CHECK_STOP: Duration = Duration::from_millis(50);
/// How often the coordinator checks whether another process has finished a key.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long the end of a run waits for uploads before it says so.
const PATIENCE_WITH_UPLOADS: Duration = Duration::from_secs(1);

/// Runs the selected stages and places their outputs. The summary says whether stages failed.
pub fn run(
    plan: &Plan,
    store: &Store,
    executor: &dyn Executor,
    options: &Options,
    stop: &Stop,
    events: &mut dyn FnMut(Event),
) -> Result<Summary, RunError> {
    let begin = Instant::now();
    let selected = options.selection(plan);
    let instances = &plan.pipeline().instances;
    let elsewhere: Vec<bool> = instances
        .iter()
        .map(|instance| options.cluster.as_ref().is_some_and(|cluster| cluster.takes(instance)))
        .collect();
    // What runs on a cluster needs nothing of this machine.
    let of_this_machine = |(instance, &elsewhere): (&Instance, &bool)| {
        if elsewhere { Resources::default() } else { instance.resources }
    };
    let asked: Vec<Resources> = instances.iter().zip(&elsewhere).map(of_this_machine).collect();
    let gpus = match &options.gpus {
        Some(gpus) => gpus.clone(),
        None if asked.iter().any(|resources| resources.gpu > 0) => machine::gpus(),
        None => Vec::new(),
    };
    let memory = match options.memory {
        Some(memory) => memory,
        None if asked.iter().any(|resources| resources.mem > 0) => machine_memory(),
        None => 0,
    };
    let dependencies: Vec<Vec<InstanceIndex>> =
        (0..plan.len()).map(|index| plan.dependencies(InstanceIndex(index)).collect()).collect();
    let capacity = Resources { cpu: options.jobs, mem: memory, gpu: gpus.len() };
    let mut queue = Queue::new(&dependencies, &asked, &selected, capacity).map_err(|error| {
        let instance = plan.instance(error.stage).id.to_string();
        RunError::TooManyGpus { instance, asked: error.asked, present: error.present }
    })?;
    queue.run_elsewhere((0..plan.len()).map(InstanceIndex).filter(|index| elsewhere[index.0]));
    if options.last_first {
        let weights: Vec<f64> = (0..plan.len()).map(|stage| 1.0 + stage as f64 * 1e-6).collect();
        queue.weigh(&weights);
    }
    let state_sighting = store.sight_pipeline_state(&plan.pipeline().file);
    let state = store.read_pipeline_state(&plan.pipeline().file)?;
    let inspector = Inspector::new(plan, store, &options.project, state, stop);
    let mut journal = Journal::new(store.new_run()?, events);
    let run = journal.run().to_owned();
    journal.emit(Event::RunStarted {
        run: run.clone(),
        pipeline: plan.pipeline().name.clone(),
        file: Some(plan.pipeline().file.clone()),
        instances: selected.iter().filter(|&&selected| selected).count(),
        jobs: capacity.cpu.max(1),
        set: options.set.clone(),
        note: options.note.clone(),
        commit: options.commit.clone(),
    });
    let context =
        Context { plan, store, executor, options, stop, run, elsewhere, environment: OnceLock::new() };
    let mut coordinator = Coordinator {
        context: &context,
        inspector,
        journal,
        queue,
        gpus,
        missed: HashMap::new(),
        computing: HashMap::new(),
        busy: Vec::new(),
        looked: begin,
        weighed: options.last_first,
        stopping: None,
        state_sighting,
        state_changed: false,
        saved: None,
        summary: Summary::default(),
        uploads: None,
    };
    std::thread::scope(|scope| {
        if let Some(remote) = options.remote.as_deref().filter(|remote| remote.writes()) {
            coordinator.uploads = Some(UploadQueue::start(scope, remote, store));
        }
        coordinator.drive(scope);
        coordinator.end_uploads();
    });
    coordinator.finish(begin)
}

/// What the threads of a run share.
struct Context<'a> {
    plan: &'a Plan,
    store: &'a Store,
    executor: &'a dyn Executor,
    options: &'a Options,
    stop: &'a Stop,
    run: String,
    /// Whether each instance runs on the cluster.
    elsewhere: Vec<bool>,
    environment: OnceLock<BTreeMap<String, String>>,
}

/// A message from a thread to the coordinator.
enum Message {
    AttemptNote {
        stage: InstanceIndex,
        note: AttemptNote,
    },
    Ended {
        stage: InstanceIndex,
        key: StageKey,
        result: Result<Box<Manifest>, AttemptError>,
        gpus: Vec<String>,
    },
}

/// A stage that has to run and has not started yet.
struct Missed {
    prepared: Prepared,
    why: Why,
    /// Whether [`Event::Waiting`] has been emitted.
    announced: bool,
}

/// A key that one of our threads is computing.
struct Computing {
    why: Why,
    /// Other stages with the same key, which wait for the result.
    waiting: Vec<InstanceIndex>,
}

struct Coordinator<'a> {
    context: &'a Context<'a>,
    inspector: Inspector<'a>,
    journal: Journal<'a>,
    queue: Queue,
    gpus: Vec<String>,
    missed: HashMap<InstanceIndex, Missed>,
    /// The keys that our threads are computing.
    computing: HashMap<StageKey, Computing>,
    /// Stages whose keys another process is computing.
    busy: Vec<InstanceIndex>,
    looked: Instant,
    weighed: bool,
    stopping: Option<Urgency>,
    /// What the record of the pipeline looked like before it was last read.
    state_sighting: StateSighting,
    /// Whether the record of the pipeline has changes that are not saved.
    state_changed: bool,
    /// When the record of the pipeline was last saved by this run.
    saved: Option<Instant>,
    summary: Summary,
    uploads: Option<UploadQueue>,
}

impl<'a> Coordinator<'a> {
    fn drive<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>) {
        let (sender, receiver) = channel();
        loop {
            self.check_stop();
            while let Some(stage) = self.queue.next_ready() {
                self.examine(stage);
                self.check_stop();
            }
            // Damage is reported before the stage starts because of it.
            self.pass_on_warnings();
            while let Some((stage, holds)) = self.queue.next_to_start() {
                self.start(scope, stage, holds, &sender);
            }
            self.pass_on_warnings();
            if self.queue.is_drained() {
                return;
            }
            self.listen(&receiver);
        }
    }

    /// Waits for messages from the threads, and checks regularly for a stop and for other processes.
    fn listen(&mut self, receiver: &Receiver<Message>) {
        self.journal.flush();
        self.save_progress();
        let patience = if self.busy.is_empty() { CHECK_STOP } else { LOOK_AGAIN };
        if let Ok(message) = receiver.recv_timeout(patience) {
            self.on_message(message);
            while let Ok(message) = receiver.try_recv() {
                self.on_message(message);
            }
        }
        if !self.busy.is_empty() && self.looked.elapsed() >= LOOK_AGAIN {
            self.looked = Instant::now();
            for stage in std::mem::take(&mut self.busy) {
                self.queue.want(stage);
            }
        }
    }

    /// Passes a new request to stop on to the running stages.
    fn check_stop(&mut self) {
        let wish = self.context.stop.requested();
        if wish == self.stopping {
            return;
        }
        let Some(urgency) = wish else { return };
        self.stopping = wish;
        self.summary.interrupted = true;
        self.journal.emit(Event::Stopping { now: urgency == Urgency::Now });
        self.context.executor.stop(urgency);
        if let Some(cluster) = &self.context.options.cluster {
            cluster.stop(urgency);
        }
        self.close("the run was stopped");
    }

    /// Finishes a stage that is in the cache, or queues it to run.
    fn examine(&mut self, stage: InstanceIndex) {
        if let Some(manifest) = known(self.context.store, self.context.options, stage) {
            return self.hit(stage, *manifest);
        }
        let prepared = match self.inspector.prepare(stage) {
            Ok(prepared) => prepared,
            // It may be that its inputs were not hashed to the end. It is skipped with the others.
            Err(_) if self.context.stop.requested().is_some() => return,
            Err(problem) => return self.failed(stage, AttemptError::permanent(problem)),
        };
        let options = self.context.options;
        let is_forced = options.force.contains(&stage);
        // These checks need whole manifests.
        let is_checked = options.gate.is_some() || !self.context.plan.instance(stage).expect.is_empty();
        if !is_forced
            && !is_checked
            && let Some(ResultSummary { key, seconds, outputs, .. }) =
                self.context.store.unchanged_result(prepared.key)
        {
            return self.use_cached(stage, key, seconds, outputs, None);
        }
        let finding =
            if is_forced { Ok(Finding::Miss(Why::Forced)) } else { self.inspector.look_up(stage, &prepared) };
        match finding {
            Err(problem) => self.failed(stage, AttemptError::permanent(problem)),
            Ok(Finding::Hit(manifest)) => self.hit(stage, *manifest),
            Ok(Finding::Miss(why)) => {
                self.missed.insert(stage, Missed { prepared, why, announced: false });
                self.queue.want(stage);
                self.weigh();
            }
        }
    }

    /// Sets how long stages took, once: the order matters from the first stage that has to run.
    fn weigh(&mut self) {
        if std::mem::replace(&mut self.weighed, true) || self.inspector.state.last.is_empty() {
            return;
        }
        let seconds = |stage| self.inspector.last_seconds(InstanceIndex(stage)).unwrap_or(1.0);
        let weights: Vec<f64> = (0..self.context.plan.len()).map(seconds).collect();
        self.queue.weigh(&weights);
    }

    fn pass_on_warnings(&mut self) {
        let remote = self.context.options.remote.as_deref();
        let warnings = remote.map(Remote::warnings).unwrap_or_default();
        for warning in self.context.store.warnings().into_iter().chain(warnings) {
            self.journal.warn(None, warning);
        }
    }

    /// Lets the threads end that upload, for which the run then waits. Says so if it takes a while.
    fn end_uploads(&mut self) {
        let Some(uploads) = self.uploads.take() else { return };
        let left = uploads.wait(PATIENCE_WITH_UPLOADS);
        if left > 0 {
            let message = format!("waiting for uploads to the remote: {left}; Ctrl-C leaves out the rest");
            self.journal.emit(Event::Log { instance: None, level: LogLevel::Info, message });
        }
    }

    /// Reports what was exchanged with the remote, if anything.
    fn report_remote(&mut self) {
        let summary = self.context.options.remote.as_deref().map(Remote::summary);
        self.summary.remote = summary.filter(|summary| *summary != RemoteSummary::default());
        for refusal in self.summary.remote.as_ref().map(RemoteSummary::refusals).unwrap_or_default() {
            self.journal.warn(None, refusal);
        }
    }

    fn finish(mut self, begin: Instant) -> Result<Summary, RunError> {
        self.forget_removed_instances();
        if self.context.options.cluster.is_some() {
            let keys = self.inspector.state.last.values().copied().collect();
            forget_done_jobs(self.context.store, &keys);
        }
        self.place_outputs()?;
        self.pass_on_warnings();
        self.report_remote();
        self.summary.seconds = begin.elapsed().as_secs_f64();
        self.journal.finish(&self.summary);
        Ok(self.summary)
    }
}
