//! Starts stages: claims the right to write their results, and hands them to threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread::Scope;

use super::super::attempt::{Attempt, AttemptNote};
use super::super::cluster::ClusterAttempt;
use super::super::computation::Computation;
use super::super::event::Event;
use super::super::executor::AttemptError;
use super::super::machine;
use super::{Computing, Coordinator, Message, Missed};
use crate::plan::Why;
use crate::spec::pipeline::{InstanceIndex, Resources};
use crate::store::{Claim, WriteRight};
use pipe_core::digest::StageKey;
impl<'a> Coordinator<'a> {
    pub(super) fn start<'scope>(
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
                            stop: context.stop,
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
}
