//! What follows when a stage has ended, reports something, or is not run at all.

use std::collections::BTreeMap;

use super::super::attempt::AttemptNote;
use super::super::event::Event;
use super::super::executor::AttemptError;
use super::{Computing, Coordinator, Message};
use crate::spec::pipeline::InstanceIndex;
use crate::store::FailedAttempt;
use crate::store::manifest::{Manifest, Stored};
use pipe_core::digest::StageKey;
use pipe_core::event::WorkerEvent;

impl Coordinator<'_> {
    pub(super) fn on_message(&mut self, message: Message) {
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
            AttemptNote::Worker(WorkerEvent::Metric { name, value, protocol, epoch }) => {
                Event::Metric { instance, name, value, protocol, epoch }
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

    pub(super) fn hit(&mut self, stage: InstanceIndex, manifest: Manifest) {
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

    pub(super) fn use_cached(
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

    pub(super) fn failed(&mut self, stage: InstanceIndex, error: AttemptError) {
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
    pub(super) fn close(&mut self, because: &str) {
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
}
