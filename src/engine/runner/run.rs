//! The coordinator: one thread that decides, and one thread per running stage.
//!
//! A stage whose result is in the cache is finished here, without a thread. Any other stage is claimed (if another process
//! is computing it, the run waits for its result without using a processor) and handed to a thread, which answers through
//! a channel. Only the coordinator's thread emits events.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::attempt::{Attempt, AttemptNote};
use super::cluster::{ClusterAttempt, forget_done_jobs};
use super::computation::Computation;
use super::event::{Event, PlaceOutcome, Summary};
use super::executor::{AttemptError, Executor};
use super::inspect::{Finding, Inspector, Prepared, known};
use super::journal::Journal;
use super::machine;
use super::options::Options;
use super::place::{Ownership, PlaceDecision};
use super::queue::Queue;
use super::stop::{Stop, Urgency};
use crate::plan::{Plan, Why};
use crate::remote::{Remote, RemoteSummary, UploadQueue};
use crate::spec::pipeline::{Instance, InstanceIndex, Resources};
use crate::store::manifest::{Manifest, Stored};
use crate::store::{
    Claim, FailedAttempt, Origin, ResultSummary, StateSighting, Store, StoreError, WriteRight,
};
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::event::{LogLevel, WorkerEvent};
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
/// How often new results are recorded while stages run.
const SAVE_EVERY: Duration = Duration::from_secs(2);

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

/// A file outside of the cache that is, or will be, an output of this run.
struct Placing {
    /// Relative to the project directory.
    path: String,
    target: PathBuf,
    output: Stored,
    outcome: PlaceOutcome,
    /// The content that it replaces.
    replaces: Option<BlobId>,
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

    fn start<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'a>,
        stage: InstanceIndex,
        holds: Resources,
        sender: &Sender<Message>,
    ) {
        let Some(missed) = self.missed.get(&stage) else {
            return self.failed(
                stage,
                AttemptError::permanent("it was started before it was looked up (a bug in pipe)"),
            );
        };
        let key = missed.prepared.key;
        if let Some(computing) = self.computing.get_mut(&key) {
            computing.waiting.push(stage);
            return self.queue.put_back(stage);
        }
        let claimed = match missed.why {
            Why::Forced => self.context.store.try_claim_anew(&key).map(|right| right.map(Claim::Miss)),
            _ => self.context.store.try_claim(&key),
        };
        match claimed {
            Ok(Some(Claim::Miss(right))) => self.launch(scope, stage, holds, right, sender.clone()),
            Ok(Some(Claim::Hit(manifest))) => {
                self.missed.remove(&stage);
                self.hit(stage, *manifest);
            }
            Ok(None) => self.wait_for_other_process(stage, key),
            Err(error) => {
                self.missed.remove(&stage);
                self.failed(stage, AttemptError::permanent(error.to_string()));
            }
        }
    }

    fn wait_for_other_process(&mut self, stage: InstanceIndex, key: StageKey) {
        self.queue.put_back(stage);
        self.busy.push(stage);
        if let Some(missed) = self.missed.get_mut(&stage)
            && !std::mem::replace(&mut missed.announced, true)
        {
            let instance = self.inspector.name(stage).to_owned();
            self.journal.emit(Event::Waiting { instance, key });
        }
    }

    fn launch<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'a>,
        stage: InstanceIndex,
        holds: Resources,
        right: WriteRight<'a>,
        sender: Sender<Message>,
    ) {
        let Some(Missed { prepared, why, .. }) = self.missed.remove(&stage) else { return };
        let context = self.context;
        let (instance, key) = (context.plan.instance(stage), prepared.key);
        let name = self.inspector.name(stage).to_owned();
        self.computing.insert(key, Computing { why: why.clone(), waiting: Vec::new() });
        let mut warnings = Vec::new();
        let cluster = context.options.cluster.as_ref().filter(|_| context.elsewhere[stage.0]);
        if cluster.is_none() && self.queue.was_clamped(instance.resources) {
            warnings
                .push("it asks for more processors or memory than there are, so it runs alone".to_owned());
            self.journal.warn(Some(&name), warnings[0].clone());
        }
        let auto_mem = cluster.is_some() && instance.cluster.auto_mem;
        let peak = if auto_mem { self.inspector.peak_memory(&instance.id.stage) } else { None };
        let forced = why == Why::Forced;
        let remote = context.options.remote.as_deref().filter(|_| !forced);
        if remote.is_none() {
            self.journal.emit(Event::Started { instance: name.clone(), key, why, attempt: 1 });
        }
        let gpus = self.gpus.split_off(self.gpus.len() - holds.gpu);
        let (lent, refused) = (gpus.clone(), sender.clone());
        let work = move || {
            let (store, threads) = (context.store, context.options.threads);
            let computation = Computation::new(instance, name, prepared, threads, warnings);
            let keep_log = |stream: &str, path: &Path| {
                // Losing a log must not hide why the stage failed.
                let _ = store.keep_log(&context.run, &computation.instance, stream, path);
            };
            // The coordinator outlives its threads, so sending cannot fail.
            let mut report = |note| drop(sender.send(Message::AttemptNote { stage, note }));
            let perform = AssertUnwindSafe(|| {
                let mut right = right;
                if let Some(remote) = remote {
                    if let Some(taken) = remote.take(store, &mut right, &computation.instance) {
                        return Ok(Box::new(taken));
                    }
                    report(AttemptNote::NotOnRemote { key });
                }
                let performed = match cluster {
                    Some(cluster) => {
                        let (computation, keep_log) = (&computation, &keep_log);
                        let attempt = ClusterAttempt { instance, computation, store, forced, peak, keep_log };
                        cluster.perform(&attempt, right, &mut report)
                    }
                    None => {
                        let describe = || machine::describe(&context.options.project);
                        let attempt = Attempt {
                            computation: &computation,
                            store,
                            executor: context.executor,
                            keep_log: &keep_log,
                            gpus: gpus.clone(),
                            environment: context.environment.get_or_init(describe).clone(),
                        };
                        attempt.perform(right, &mut report)
                    }
                };
                performed.map(Box::new)
            });
            let result = catch_unwind(perform)
                .unwrap_or_else(|_| Err(AttemptError::permanent("pipe itself failed (a bug in pipe)")));
            drop(sender.send(Message::Ended { stage, key, result, gpus }));
        };
        if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
            let result = Err(AttemptError::permanent(format!(
                "no thread could be started for it: {error}; the system limits the number of threads (see `ulimit -u`)"
            )));
            drop(refused.send(Message::Ended { stage, key, result, gpus: lent }));
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::AttemptNote { stage, note } => self.note(stage, note),
            Message::Ended { stage, key, result, gpus } => {
                self.gpus.extend(gpus);
                let waited =
                    self.computing.remove(&key).map(|computing| computing.waiting).unwrap_or_default();
                for same in &waited {
                    self.missed.remove(same);
                }
                match result {
                    Ok(manifest) => {
                        if manifest.taken_from.is_some() {
                            self.taken(stage, *manifest);
                        } else {
                            self.done(stage, *manifest);
                        }
                        self.examine_again(waited);
                    }
                    Err(error @ AttemptError::Detached { .. }) => {
                        for &same in waited.iter().chain([&stage]) {
                            self.failed(same, error.clone());
                        }
                    }
                    Err(error) => {
                        if matches!(error, AttemptError::Failed { .. }) {
                            self.remember_failure(key, stage, &waited);
                        }
                        self.fail_waiting(stage, &waited);
                        self.failed(stage, error);
                    }
                }
            }
        }
    }

    fn note(&mut self, stage: InstanceIndex, note: AttemptNote) {
        let instance = self.inspector.name(stage).to_owned();
        let event = match note {
            AttemptNote::Worker(WorkerEvent::Progress { done, total, unit, message }) => {
                Event::Progress { instance, done, total, unit, message }
            }
            AttemptNote::Worker(WorkerEvent::Metric { name, value, protocol }) => {
                Event::Metric { instance, name, value, protocol }
            }
            AttemptNote::Worker(WorkerEvent::Log { level, message }) => {
                Event::Log { instance: Some(instance), level, message }
            }
            AttemptNote::Worker(WorkerEvent::Undeclared { read, written }) => {
                Event::Undeclared { instance, read, written }
            }
            AttemptNote::Worker(
                WorkerEvent::Alive
                | WorkerEvent::Done
                | WorkerEvent::Fact { .. }
                | WorkerEvent::Failed { .. },
            ) => return,
            AttemptNote::NotOnRemote { key } => {
                let Some(Computing { why, .. }) = self.computing.get(&key) else { return };
                Event::Started { instance, key, why: why.clone(), attempt: 1 }
            }
            AttemptNote::Retry { error, stderr_tail, key, attempt } => {
                let failed =
                    Event::Failed { instance: instance.clone(), error, stderr_tail, will_retry: true };
                self.journal.emit(failed);
                let Some(Computing { why, .. }) = self.computing.get(&key) else { return };
                let why = why.clone();
                Event::Started { instance, key, why, attempt }
            }
        };
        self.journal.emit(event);
    }

    fn hit(&mut self, stage: InstanceIndex, manifest: Manifest) {
        if let Err(objection) = self.check_result(stage, &manifest) {
            return self.failed(stage, AttemptError::permanent(objection));
        }
        self.summary.warned += usize::from(!manifest.warnings.is_empty());
        self.use_cached(stage, manifest.key, manifest.seconds, manifest.computed.outputs, None);
    }

    /// Finishes a stage whose result was taken from the remote.
    fn taken(&mut self, stage: InstanceIndex, manifest: Manifest) {
        if let Err(objection) = self.check_result(stage, &manifest) {
            return self.failed(stage, AttemptError::permanent(objection));
        }
        let Manifest { key, taken_from, computed, .. } = manifest;
        self.summary.warned += usize::from(!computed.warnings.is_empty());
        self.use_cached(stage, key, computed.seconds, computed.outputs, taken_from);
    }

    fn use_cached(
        &mut self,
        stage: InstanceIndex,
        key: StageKey,
        saved: f64,
        outputs: BTreeMap<String, Stored>,
        writer: Option<String>,
    ) {
        let instance = self.inspector.name(stage).to_owned();
        self.summary.hits += 1;
        self.summary.saved += saved;
        self.journal.emit(Event::Hit { instance, key, saved, writer });
        self.settle(stage, key, outputs);
    }

    fn done(&mut self, stage: InstanceIndex, manifest: Manifest) {
        if let Err(objection) = self.check_result(stage, &manifest) {
            return self.failed(stage, AttemptError::permanent(objection));
        }
        let instance = self.inspector.name(stage).to_owned();
        self.summary.ran += 1;
        self.journal.warn_of_result(&instance, &manifest.warnings);
        self.journal.emit(Event::Done {
            instance,
            key: manifest.key,
            seconds: manifest.seconds,
            cpu_seconds: manifest.cpu_seconds,
            max_rss_bytes: manifest.max_rss_bytes,
        });
        if let Some(uploads) = &self.uploads {
            uploads.push(Box::new(manifest.clone()));
        }
        self.settle(stage, manifest.key, manifest.computed.outputs);
    }

    /// Checks a result. If it may not be used, its stage fails, so that nothing is computed from it or placed.
    fn check_result(&self, stage: InstanceIndex, manifest: &Manifest) -> Result<(), String> {
        let violations = self.context.plan.instance(stage).expect.violations(&manifest.metrics);
        if !violations.is_empty() {
            return Err(violations.join("; "));
        }
        match &self.context.options.gate {
            Some(gate) => gate.check(stage, manifest),
            None => Ok(()),
        }
    }

    fn settle(&mut self, stage: InstanceIndex, key: StageKey, outputs: BTreeMap<String, Stored>) {
        let name = self.inspector.name(stage).to_owned();
        self.state_changed |= self.inspector.state.failed.remove(&name).is_some();
        if self.inspector.state.last.get(&name) != Some(&key) {
            self.inspector.state.last.insert(name, key);
            self.state_changed = true;
        }
        self.inspector.learn(stage, outputs);
        self.queue.finish(stage);
    }

    /// Looks up stages whose key was just computed by another stage. If that one failed a check, the run may have ended, and
    /// with it the wait of these stages.
    fn examine_again(&mut self, waited: Vec<InstanceIndex>) {
        for stage in waited {
            if !self.queue.is_settled(stage) {
                self.examine(stage);
            }
        }
    }

    fn remember_failure(&mut self, key: StageKey, tried: InstanceIndex, waited: &[InstanceIndex]) {
        for &stage in std::iter::once(&tried).chain(waited) {
            let name = self.inspector.name(stage).to_owned();
            let attempt = FailedAttempt { run: self.context.run.clone(), key };
            self.inspector.state.failed.insert(name, attempt);
        }
        self.state_changed = true;
    }

    /// Fails the stages with the same key as one that failed. The first of these failures may skip the others.
    fn fail_waiting(&mut self, tried: InstanceIndex, waited: &[InstanceIndex]) {
        let tried = self.inspector.name(tried).to_owned();
        for &stage in waited {
            if self.queue.is_settled(stage) {
                continue;
            }
            self.failed(
                stage,
                AttemptError::permanent(format!("it is the same computation as `{tried}`, which failed")),
            );
        }
    }

    fn failed(&mut self, stage: InstanceIndex, error: AttemptError) {
        let instance = self.inspector.name(stage).to_owned();
        let mut keep_going = self.context.options.keep_going;
        let because = match error {
            AttemptError::Detached { job } => {
                self.summary.skipped += 1;
                self.summary.detached += 1;
                keep_going = true;
                let because = match job {
                    Some(job) => {
                        format!("it was left to the cluster as job {job}; the next run takes its result")
                    }
                    None => "`max_jobs` jobs are in the queue; the next run submits it".to_owned(),
                };
                let then = format!("`{instance}` was left to the cluster");
                self.journal.emit(Event::Skipped { instance, because });
                then
            }
            AttemptError::Stopped { checkpoint } => {
                self.summary.skipped += 1;
                let next = if checkpoint { "continues from its checkpoint" } else { "starts it again" };
                let because = format!("it was stopped; the next run {next}");
                self.journal.emit(Event::Skipped { instance, because });
                "the run was stopped".to_owned()
            }
            AttemptError::Failed { error, stderr_tail, .. } => {
                self.summary.failed += 1;
                let because = format!("`{instance}` failed");
                self.journal.emit(Event::Failed { instance, error, stderr_tail, will_retry: false });
                because
            }
        };
        for skipped in self.queue.fail(stage) {
            self.skip(skipped, because.clone());
        }
        if !keep_going {
            self.close(&format!("{because}, so the run stops; --keep-going continues"));
        }
    }

    /// Starts nothing more; running stages may end.
    fn close(&mut self, because: &str) {
        for skipped in self.queue.close() {
            self.skip(skipped, because.to_owned());
        }
        self.busy.clear();
        for computing in self.computing.values_mut() {
            computing.waiting.clear();
        }
    }

    fn skip(&mut self, stage: InstanceIndex, because: String) {
        self.missed.remove(&stage);
        self.summary.skipped += 1;
        let instance = self.inspector.name(stage).to_owned();
        self.journal.emit(Event::Skipped { instance, because });
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

    /// Places the outputs. What will be placed is recorded first: if this run is killed, both the old and the new content
    /// of a file are known to be ours.
    fn place_outputs(&mut self) -> Result<(), RunError> {
        self.take_over_placed_files()?;
        let writes = self.decide_placements();
        for write in &writes {
            self.remember_placed(write);
        }
        self.warn_of_former_outputs();
        self.save_state()?;
        for Placing { path, target, output, outcome, .. } in writes {
            if outcome == PlaceOutcome::Written
                && let Err(error) = self.context.store.place(&output, &target)
            {
                self.cannot_place(&path, &error);
                continue;
            }
            self.journal.emit(Event::Placed { path, outcome });
        }
        Ok(())
    }

    /// Returns the files that are, or will be, what this run computed.
    fn decide_placements(&mut self) -> Vec<Placing> {
        let context = self.context;
        let mut decisions = Vec::new();
        let ownership = Ownership {
            store: context.store,
            state: &self.inspector.state,
            locked: &context.options.locked_outputs,
            stored: OnceCell::new(),
        };
        for placement in &context.plan.pipeline().placements {
            let outputs = self.inspector.outputs(placement.instance);
            let Some(&output) = outputs.and_then(|outputs| outputs.get(&placement.output)) else { continue };
            let path = placement.path.display().to_string();
            let target = context.options.project.join(&placement.path);
            let decision = ownership.decide(&output, &path, &target, context.options.overwrite);
            decisions.push((path, target, output, decision));
        }
        let mut placings = Vec::new();
        for (path, target, output, decision) in decisions {
            match decision {
                Ok(PlaceDecision { outcome: outcome @ PlaceOutcome::KeptEdited, .. }) => {
                    let message = format!(
                        "`{path}` was edited, so it was kept; remove it, or use --overwrite, to get the new one"
                    );
                    self.journal.warn(None, message);
                    self.summary.kept.push(path.clone());
                    self.journal.emit(Event::Placed { path, outcome });
                }
                Ok(PlaceDecision { outcome, replaces }) => {
                    placings.push(Placing { path, target, output, outcome, replaces });
                }
                Err(error) => self.cannot_place(&path, &error),
            }
        }
        placings
    }

    /// Warns of files that this pipeline placed before its `outputs:` changed and that nobody has touched: they look like results but
    /// are no longer kept up to date. Forgets those that are gone, or that belong to somebody else now.
    fn warn_of_former_outputs(&mut self) {
        let context = self.context;
        let placements = &context.plan.pipeline().placements;
        let current: HashSet<String> = placements.iter().map(|p| p.path.display().to_string()).collect();
        let state = &mut self.inspector.state;
        let former: Vec<(String, BlobId)> = state
            .placed
            .iter()
            .filter(|(path, _)| !current.contains(*path))
            .map(|(path, blob)| (path.clone(), *blob))
            .collect();
        for (path, blob) in former {
            let present = context.store.digest_user_file(&context.options.project.join(&path));
            if present.is_ok_and(|present| present.blob == blob) {
                let message = format!(
                    "`{path}` is no longer an output of this pipeline, so it is not kept up to date; remove it, or add it to `outputs:`"
                );
                self.journal.warn(None, message);
            } else {
                state.placed.remove(&path);
                state.origins.remove(&path);
                self.state_changed = true;
            }
        }
    }

    fn cannot_place(&mut self, path: &str, error: &StoreError) {
        self.summary.failed += 1;
        self.journal.warn(None, format!("`{path}` could not be placed: {error}"));
    }

    /// Records that this run places a file, unless an earlier run with the same settings placed the same content.
    fn remember_placed(&mut self, placing: &Placing) {
        let (state, set) = (&mut self.inspector.state, &self.context.options.set);
        let Placing { path, output, replaces, .. } = placing;
        let known = state.placed.get(path) == Some(&output.blob);
        if known && replaces.is_none() && state.origins.get(path).is_some_and(|origin| origin.set == *set) {
            return;
        }
        state.placed.insert(path.clone(), output.blob);
        if let Some(replaces) = replaces {
            state.replaced.insert(path.clone(), *replaces);
        }
        let origin = Origin { run: self.context.run.clone(), set: set.clone() };
        state.origins.insert(path.clone(), origin);
        self.state_changed = true;
    }

    /// Takes over what another run of the same pipeline has recorded about placed files since this run began.
    fn take_over_placed_files(&mut self) -> Result<(), StoreError> {
        let state = &mut self.inspector.state;
        let sighting = self.context.store.sight_pipeline_state(&state.file);
        if sighting == std::mem::replace(&mut self.state_sighting, sighting) {
            return Ok(());
        }
        let recorded = self.context.store.read_pipeline_state(&state.file)?;
        (state.placed, state.replaced, state.origins) =
            (recorded.placed, recorded.replaced, recorded.origins);
        Ok(())
    }

    /// Saves the record of the pipeline, or, if it has not changed, that the pipeline was run last.
    fn save_state(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.state_changed) {
            self.context.store.save_pipeline_state(&self.inspector.state)
        } else {
            self.context.store.mark_as_last(&self.inspector.state)
        }
    }

    /// Saves from time to time which results this run has, so that garbage collection keeps them if the run is killed. Saves at once that
    /// this pipeline was run last, so that `pipe logs` in another terminal means it.
    fn save_progress(&mut self) {
        if self.saved.is_some_and(|saved| !self.state_changed || saved.elapsed() < SAVE_EVERY) {
            return;
        }
        self.saved = Some(Instant::now());
        let saved = self.take_over_placed_files().and_then(|()| self.save_state());
        if let Err(error) = saved {
            // The end of the run saves again, and fails if it cannot.
            self.state_changed = true;
            self.journal.warn(None, format!("the results so far could not be recorded: {error}"));
        }
    }

    /// Forgets the results of instances that the pipeline no longer has.
    fn forget_removed_instances(&mut self) {
        let state = &self.inspector.state;
        let names: HashSet<&str> =
            (0..self.context.plan.len()).map(|index| self.inspector.name(InstanceIndex(index))).collect();
        let known = state.last.keys().chain(state.failed.keys());
        let gone: Vec<String> = known.filter(|name| !names.contains(name.as_str())).cloned().collect();
        self.state_changed |= !gone.is_empty();
        for name in gone {
            self.inspector.state.last.remove(&name);
            self.inspector.state.failed.remove(&name);
        }
    }
}
