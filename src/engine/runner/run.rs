//! The coordinator: one thread that decides, a thread per running stage that works.
//!
//! What is found in the cache is settled here, without a thread. What is not is claimed (another
//! process may be computing it: then we wait for its result, without occupying a processor) and
//! handed to a thread, which answers through one channel. Only this thread emits events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::attempt::{Attempt, Failure, Note};
use super::event::{Event, PlaceOutcome, Summary};
use super::executor::Executor;
use super::inspect::{Finding, Inspector, Prepared, known};
use super::journal::Journal;
use super::machine;
use super::options::Options;
use super::place::place;
use super::queue::Queue;
use super::slot::Slots;
use super::stop::{Stop, Urgency};
use crate::plan::{Plan, Why};
use crate::spec::pipeline::{InstanceIndex, Resources};
use crate::store::manifest::Manifest;
use crate::store::{Claim, FailedAttempt, Origin, Store, StoreError, WriteRight};
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::event::WorkerEvent;

/// What keeps a run from starting or from being recorded. A stage that fails is not among them.
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

/// How often the wish to stop is looked at while stages run.
const HEAR_STOP: Duration = Duration::from_millis(50);
/// How often we look whether another process has finished what we wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs what is asked for and places the outputs. Whether stages failed is in the summary.
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
    let asked: Vec<Resources> = plan.pipeline().instances.iter().map(|instance| instance.resources).collect();
    let gpus = match &options.gpus {
        Some(gpus) => gpus.clone(),
        None if asked.iter().any(|resources| resources.gpu > 0) => machine::gpus(),
        None => Vec::new(),
    };
    let memory = match options.memory {
        Some(memory) => memory,
        None if asked.iter().any(|resources| resources.mem > 0) => machine::memory(),
        None => 0,
    };
    let dependencies: Vec<Vec<usize>> = (0..plan.len())
        .map(|index| plan.dependencies(InstanceIndex(index)).map(|needed| needed.0).collect())
        .collect();
    let capacity = Resources { cpu: options.jobs, mem: memory, gpu: gpus.len() };
    let mut queue = Queue::new(&dependencies, &asked, &selected, capacity).map_err(|error| {
        let instance = plan.pipeline().instances[error.stage].id.to_string();
        RunError::TooManyGpus { instance, asked: error.asked, present: error.present }
    })?;
    if options.last_first {
        let weights: Vec<f64> = (0..plan.len()).map(|stage| 1.0 + stage as f64 * 1e-6).collect();
        queue.weigh(&weights);
    }
    let mut journal = Journal::new(store.new_run()?, events);
    let run = journal.run().to_owned();
    journal.emit(Event::RunStarted {
        run: run.clone(),
        pipeline: plan.pipeline().name.clone(),
        instances: selected.iter().filter(|&&selected| selected).count(),
        jobs: capacity.cpu.max(1),
        set: options.set.clone(),
    });
    let slots = Slots::new(store);
    let context = Context { plan, store, executor, options, slots, run, environment: OnceLock::new() };
    let mut coordinator = Coordinator {
        context: &context,
        inspector: Inspector::new(plan, store, &options.project),
        journal,
        queue,
        gpus,
        missed: HashMap::new(),
        computing: HashMap::new(),
        busy: Vec::new(),
        looked: begin,
        weighed: options.last_first,
        stopping: None,
        state_changed: false,
        summary: Summary::default(),
    };
    std::thread::scope(|scope| coordinator.drive(scope, stop));
    coordinator.finish(begin)
}

/// What the threads share.
struct Context<'a> {
    plan: &'a Plan,
    store: &'a Store,
    executor: &'a dyn Executor,
    options: &'a Options,
    slots: Slots<'a>,
    run: String,
    environment: OnceLock<BTreeMap<String, String>>,
}

enum Message {
    Note { stage: usize, note: Note },
    Ended { stage: usize, key: StageKey, result: Result<Box<Manifest>, Failure>, gpus: Vec<String> },
}

/// A stage that has to run, until it does.
struct Missed {
    prepared: Prepared,
    why: Why,
    /// `Waiting` has been told.
    told: bool,
}

struct Coordinator<'a> {
    context: &'a Context<'a>,
    inspector: Inspector<'a>,
    journal: Journal<'a>,
    queue: Queue,
    gpus: Vec<String>,
    missed: HashMap<usize, Missed>,
    /// Keys that threads of ours are computing, with the stages that wait for the same key.
    computing: HashMap<StageKey, Vec<usize>>,
    /// Stages whose keys another process is computing.
    busy: Vec<usize>,
    looked: Instant,
    weighed: bool,
    stopping: Option<Urgency>,
    state_changed: bool,
    summary: Summary,
}

impl<'a> Coordinator<'a> {
    fn drive<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, stop: &Stop) {
        let (sender, receiver) = channel();
        loop {
            self.heed(stop);
            while let Some(stage) = self.queue.next_ready() {
                self.examine(stage);
            }
            // What is wrong with a result is told before the stage starts for that reason.
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

    /// Waits for news from the threads, but not for longer than the user or another process may.
    fn listen(&mut self, receiver: &Receiver<Message>) {
        self.journal.flush();
        let patience = if self.busy.is_empty() { HEAR_STOP } else { LOOK_AGAIN };
        if let Ok(message) = receiver.recv_timeout(patience) {
            self.hear(message);
            while let Ok(message) = receiver.try_recv() {
                self.hear(message);
            }
        }
        if !self.busy.is_empty() && self.looked.elapsed() >= LOOK_AGAIN {
            self.looked = Instant::now();
            for stage in std::mem::take(&mut self.busy) {
                self.queue.want(stage);
            }
        }
    }

    fn heed(&mut self, stop: &Stop) {
        let wish = stop.requested();
        if wish == self.stopping {
            return;
        }
        let Some(urgency) = wish else { return };
        self.stopping = wish;
        self.summary.interrupted = true;
        self.journal.emit(Event::Stopping { now: urgency == Urgency::Now });
        self.context.executor.stop(urgency);
        self.close("the run was stopped");
    }

    /// Settles a stage whose inputs are known, or has it run.
    fn examine(&mut self, stage: usize) {
        let index = InstanceIndex(stage);
        if let Some(manifest) = known(self.context.store, self.context.options, index) {
            return self.hit(stage, *manifest);
        }
        let prepared = match self.inspector.prepare(index) {
            Ok(prepared) => prepared,
            Err(problem) => return self.failed(stage, Failure::plain(problem)),
        };
        let finding = match self.context.options.force.contains(&index) {
            true => Finding::Miss(Why::Forced),
            false => self.inspector.look_up(index, &prepared),
        };
        match finding {
            Finding::Hit(manifest) => self.hit(stage, *manifest),
            Finding::Miss(why) => {
                self.missed.insert(stage, Missed { prepared, why, told: false });
                self.queue.want(stage);
                self.weigh();
            }
        }
    }

    /// With the first stage that has to run, the order of those that may have to begins to matter.
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
        stage: usize,
        holds: Resources,
        sender: &Sender<Message>,
    ) {
        let Some(missed) = self.missed.get(&stage) else {
            return self.failed(stage, Failure::plain("it was to start before it had been looked at"));
        };
        let key = missed.prepared.key;
        if let Some(waiting) = self.computing.get_mut(&key) {
            waiting.push(stage);
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
                self.failed(stage, Failure::plain(error.to_string()));
            }
        }
    }

    fn wait_for_other_process(&mut self, stage: usize, key: StageKey) {
        self.queue.put_back(stage);
        self.busy.push(stage);
        if let Some(missed) = self.missed.get_mut(&stage)
            && !std::mem::replace(&mut missed.told, true)
        {
            let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
            self.journal.emit(Event::Waiting { instance, key });
        }
    }

    fn launch<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'a>,
        stage: usize,
        holds: Resources,
        right: WriteRight<'a>,
        sender: Sender<Message>,
    ) {
        let Some(Missed { prepared, why, .. }) = self.missed.remove(&stage) else { return };
        let context = self.context;
        let index = InstanceIndex(stage);
        let (instance, key) = (context.plan.instance(index), prepared.key);
        let name = self.inspector.name(index).to_owned();
        self.computing.insert(key, Vec::new());
        let mut warnings = Vec::new();
        if self.queue.was_clamped(instance.resources) {
            warnings.push("it asks for more processors or memory than there are; it runs alone".to_owned());
            self.journal.warn(Some(&name), warnings[0].clone());
        }
        self.journal.emit(Event::Started { instance: name.clone(), key, why: why.to_string(), attempt: 1 });
        let gpus = self.gpus.split_off(self.gpus.len() - holds.gpu);
        let work = move || {
            let attempt = Attempt {
                instance,
                name: &name,
                store: context.store,
                executor: context.executor,
                slots: &context.slots,
                run: &context.run,
                prepared,
                gpus: gpus.clone(),
                environment: context
                    .environment
                    .get_or_init(|| machine::describe(&context.options.project))
                    .clone(),
                warnings,
                threads: context.options.threads,
            };
            // The coordinator outlives its threads, so somebody always listens.
            let mut tell = |note| drop(sender.send(Message::Note { stage, note }));
            let perform = AssertUnwindSafe(|| attempt.perform(right, &mut tell).map(Box::new));
            let result = catch_unwind(perform).unwrap_or_else(|_| Err(Failure::plain("pipe itself failed")));
            drop(sender.send(Message::Ended { stage, key, result, gpus }));
        };
        scope.spawn(work);
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Note { stage, note } => self.note(stage, note),
            Message::Ended { stage, key, result, gpus } => {
                self.gpus.extend(gpus);
                let waited = self.computing.remove(&key).unwrap_or_default();
                match result {
                    Ok(manifest) => {
                        self.done(stage, *manifest);
                        self.look_again_at(waited);
                    }
                    Err(failure) => {
                        if !failure.stopped {
                            self.remember_failure(key, stage, &waited);
                        }
                        self.fail_with(stage, &waited);
                        self.failed(stage, failure);
                    }
                }
            }
        }
    }

    fn note(&mut self, stage: usize, note: Note) {
        let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
        let event = match note {
            Note::Worker(WorkerEvent::Progress { done, total, unit, message }) => {
                Event::Progress { instance, done, total, unit, message }
            }
            Note::Worker(WorkerEvent::Metric { name, value }) => Event::Metric { instance, name, value },
            Note::Worker(WorkerEvent::Log { level, message }) => {
                Event::Log { instance: Some(instance), level, message }
            }
            Note::Worker(
                WorkerEvent::Alive
                | WorkerEvent::Done
                | WorkerEvent::Fact { .. }
                | WorkerEvent::Failed { .. },
            ) => return,
            Note::Retry { failure: Failure { error, stderr_tail, .. }, key, attempt } => {
                let failed =
                    Event::Failed { instance: instance.clone(), error, stderr_tail, will_retry: true };
                self.journal.emit(failed);
                Event::Started { instance, key, why: "the attempt before it failed".to_owned(), attempt }
            }
        };
        self.journal.emit(event);
    }

    fn hit(&mut self, stage: usize, manifest: Manifest) {
        if let Err(objection) = self.judge(stage, &manifest) {
            return self.failed(stage, Failure::plain(objection));
        }
        let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
        self.summary.hits += 1;
        self.summary.saved += manifest.seconds;
        self.journal.emit(Event::Hit { instance, key: manifest.key, saved: manifest.seconds });
        self.settle(stage, manifest);
    }

    fn done(&mut self, stage: usize, manifest: Manifest) {
        if let Err(objection) = self.judge(stage, &manifest) {
            return self.failed(stage, Failure::plain(objection));
        }
        let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
        self.summary.ran += 1;
        for warning in &manifest.warnings {
            self.journal.warn(Some(&instance), warning.clone());
        }
        self.journal.emit(Event::Done {
            instance,
            key: manifest.key,
            seconds: manifest.seconds,
            cpu_seconds: manifest.cpu_seconds,
            max_rss_bytes: manifest.max_rss_bytes,
        });
        self.settle(stage, manifest);
    }

    /// A result that is not to be used fails its stage, so that nothing is built on it or placed.
    fn judge(&self, stage: usize, manifest: &Manifest) -> Result<(), String> {
        match &self.context.options.judge {
            Some(judge) => judge.judge(InstanceIndex(stage), manifest),
            None => Ok(()),
        }
    }

    fn settle(&mut self, stage: usize, manifest: Manifest) {
        let index = InstanceIndex(stage);
        let name = self.inspector.name(index);
        let name = name.to_owned();
        self.state_changed |= self.inspector.state.failed.remove(&name).is_some();
        if self.inspector.state.last.get(&name) != Some(&manifest.key) {
            self.inspector.state.last.insert(name, manifest.key);
            self.state_changed = true;
        }
        self.inspector.learn(index, manifest);
        self.queue.finish(stage);
    }

    /// Stages with the key that was just computed find it in the cache.
    fn look_again_at(&mut self, waited: Vec<usize>) {
        for stage in waited {
            self.missed.remove(&stage);
            self.examine(stage);
        }
    }

    fn remember_failure(&mut self, key: StageKey, tried: usize, waited: &[usize]) {
        for &stage in std::iter::once(&tried).chain(waited) {
            let name = self.inspector.name(InstanceIndex(stage)).to_owned();
            let attempt = FailedAttempt { run: self.context.run.clone(), key };
            self.inspector.state.failed.insert(name, attempt);
        }
        self.state_changed = true;
    }

    /// Stages with a key that could not be computed fail with the one that tried.
    fn fail_with(&mut self, tried: usize, waited: &[usize]) {
        let tried = self.inspector.name(InstanceIndex(tried)).to_owned();
        for &stage in waited {
            self.missed.remove(&stage);
            self.failed(
                stage,
                Failure::plain(format!("it is the same computation as `{tried}`, which failed")),
            );
        }
    }

    fn failed(&mut self, stage: usize, failure: Failure) {
        let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
        let because = if failure.stopped {
            self.summary.skipped += 1;
            let because = match failure.checkpoint {
                true => "it was stopped; the next run continues from its checkpoint",
                false => "it was stopped; the next run begins it again",
            };
            let because = because.to_owned();
            self.journal.emit(Event::Skipped { instance: instance.clone(), because });
            "the run was stopped".to_owned()
        } else {
            self.summary.failed += 1;
            let Failure { error, stderr_tail, .. } = failure;
            let event = Event::Failed { instance: instance.clone(), error, stderr_tail, will_retry: false };
            self.journal.emit(event);
            format!("`{instance}` failed")
        };
        for skipped in self.queue.fail(stage) {
            self.skip(skipped, because.clone());
        }
        if !self.context.options.keep_going {
            self.close(&format!("{because}, and with that the run stops; --keep-going goes on"));
        }
    }

    /// Nothing more starts; what runs may end.
    fn close(&mut self, because: &str) {
        for skipped in self.queue.close() {
            self.skip(skipped, because.to_owned());
        }
        self.busy.clear();
        self.computing.values_mut().for_each(Vec::clear);
    }

    fn skip(&mut self, stage: usize, because: String) {
        self.missed.remove(&stage);
        self.summary.skipped += 1;
        let instance = self.inspector.name(InstanceIndex(stage)).to_owned();
        self.journal.emit(Event::Skipped { instance, because });
    }

    fn pass_on_warnings(&mut self) {
        for warning in self.context.store.warnings() {
            self.journal.warn(None, warning);
        }
    }

    fn finish(mut self, begin: Instant) -> Result<Summary, RunError> {
        self.place_outputs();
        self.forget_what_is_gone();
        if self.state_changed {
            self.context.store.save_pipeline_state(&self.inspector.state)?;
        } else {
            self.context.store.mark_as_last(&self.inspector.state)?;
        }
        self.pass_on_warnings();
        self.summary.seconds = begin.elapsed().as_secs_f64();
        self.journal.finish(&self.summary);
        Ok(self.summary)
    }

    fn place_outputs(&mut self) {
        let context = self.context;
        for placement in &context.plan.pipeline().placements {
            let outputs = self.inspector.outputs(placement.instance);
            let Some(&stored) = outputs.and_then(|outputs| outputs.get(&placement.output)) else { continue };
            let path = placement.path.display().to_string();
            let before = self.inspector.state.placed.get(&path).copied();
            let target = context.options.project.join(&placement.path);
            let outcome = match place(context.store, &stored, &target, before, context.options.overwrite) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.summary.failed += 1;
                    let message = format!("`{path}` could not be placed: {error}");
                    self.journal.warn(None, message);
                    continue;
                }
            };
            if outcome == PlaceOutcome::KeptEdited {
                let message = format!(
                    "`{path}` is not as pipe left it, so it was kept; remove it, or use --overwrite, to get the new one"
                );
                self.journal.warn(None, message);
                self.summary.kept.push(path.clone());
            } else {
                self.remember_placed(&path, stored.blob);
            }
            self.journal.emit(Event::Placed { path, outcome });
        }
    }

    /// A run that finds its file in place leaves the record of who put it there, unless that one had other settings.
    fn remember_placed(&mut self, path: &str, blob: BlobId) {
        let (state, set) = (&mut self.inspector.state, &self.context.options.set);
        let known = state.placed.get(path) == Some(&blob);
        if known && state.origins.get(path).is_some_and(|origin| origin.set == *set) {
            return;
        }
        state.placed.insert(path.to_owned(), blob);
        let origin = Origin { run: self.context.run.clone(), set: set.clone() };
        state.origins.insert(path.to_owned(), origin);
        self.state_changed = true;
    }

    /// Results of instances that the pipeline no longer has need not be kept for it.
    fn forget_what_is_gone(&mut self) {
        let state = &self.inspector.state;
        let names: BTreeSet<&str> =
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
