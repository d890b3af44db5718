//! Checks whether a pipeline, as it is written now, still gives the keys that its lock records. This needs no data and no
//! cache: the content of an input is what the lock records as the output of its producer.

use std::path::Path;

use super::record::{Lock, LockRecord};
use super::report::Check;
use pipe_core::key::KeyParts;

use crate::plan::key::{self, Content, Form};
use crate::plan::{Change, Plan, Why};
use crate::spec::pipeline::{Input, InputSource, Instance, InstanceIndex};

/// Returns one check per instance, in topological order, then one per record that the pipeline no longer has, then those of
/// the placed paths. `present` returns the content of a file of the user; if the file is missing, the content in the lock
/// counts.
pub fn follow(plan: &Plan, lock: &Lock, present: &dyn Fn(&Path) -> Option<Content>) -> Vec<Check> {
    let follower = Follower { plan, lock, present };
    let instances = plan.topological().iter().map(|&index| follower.instance(index));
    let mut checks: Vec<Check> = instances.collect();
    let names: std::collections::BTreeSet<String> =
        plan.pipeline().instances.iter().map(|instance| instance.id.to_string()).collect();
    for name in lock.stages.keys().filter(|name| !names.contains(*name)) {
        checks.push(Check::drift("stage", name, "it is in the lock, but no longer in the pipeline"));
    }
    checks.extend(follower.placements());
    checks
}

struct Follower<'a> {
    plan: &'a Plan,
    lock: &'a Lock,
    present: &'a dyn Fn(&Path) -> Option<Content>,
}

impl Follower<'_> {
    fn instance(&self, index: InstanceIndex) -> Check {
        let instance = self.plan.instance(index);
        let name = instance.id.to_string();
        let Some(record) = self.lock.stages.get(&name) else {
            return Check::drift(
                "stage",
                &name,
                "it is not in the lock; run the pipeline, or `pipe lock --rebuild`",
            );
        };
        if self.lock.edited.contains(&name) {
            let message =
                "its record in the lock was edited, or merged line by line: it does not match its seal";
            return Check::drift("stage", &name, message);
        }
        match self.flaw(instance, record) {
            None => Check::same("stage", &name),
            Some(flaw) => Check::drift("stage", &name, flaw),
        }
    }

    fn flaw(&self, instance: &Instance, record: &LockRecord) -> Option<String> {
        if record.parts.key() != record.key {
            return Some("in the lock, its key does not follow from its key parts".into());
        }
        let now = match self.parts(instance, record) {
            Ok(parts) => parts,
            Err(flaw) => return Some(flaw),
        };
        if let Why::Changed { changes } = Why::between(&record.parts, &now) {
            let described: Vec<String> =
                changes.iter().map(|change| self.describe(instance, change)).collect();
            return Some(described.join(", "));
        }
        let policy = instance.compare.to_string();
        (policy != record.compare)
            .then(|| format!("`compare` is `{policy}` in the pipeline and `{}` in the lock", record.compare))
    }

    fn parts(&self, instance: &Instance, record: &LockRecord) -> Result<KeyParts, String> {
        instance.packages()?;
        let mut found = Vec::with_capacity(instance.inputs.len());
        for input in &instance.inputs {
            let contents: Result<Vec<Content>, String> =
                input.sources.iter().map(|source| self.content(input, source, record)).collect();
            found.push(contents?);
        }
        Ok(key::parts(instance, &key::contents(instance, &found)))
    }

    fn content(&self, input: &Input, source: &InputSource, record: &LockRecord) -> Result<Content, String> {
        let slot = &input.slot;
        let recorded = || {
            let blob = record.parts.get(&format!("inputs.{slot}")).and_then(|digest| digest.parse().ok());
            blob.map(|blob| Content { blob, form: Form::recorded(&record.parts, slot) })
                .ok_or_else(|| format!("the lock does not record the content of its input `{slot}`"))
        };
        match source {
            InputSource::Output { producer, output, .. } => {
                let producer = self.plan.instance(*producer).id.to_string();
                let locked = self.lock.stages.get(&producer).and_then(|record| record.outputs.get(output));
                locked.map(|output| output.stored.blob.into()).ok_or_else(|| {
                    format!("its input `{slot}` is `{output}` of `{producer}`, which the lock does not have")
                })
            }
            InputSource::File(path) => (self.present)(path).map_or_else(recorded, Ok),
        }
    }

    /// Describes a change with the name of the file or the stage that it comes from.
    fn describe(&self, instance: &Instance, change: &Change) -> String {
        let input = instance.inputs.iter().find(|input| {
            let slot = change.name.strip_prefix("inputs.").and_then(|rest| rest.strip_prefix(&input.slot));
            slot.is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        });
        match input.and_then(|input| input.sources.first()) {
            Some(InputSource::File(path)) => format!("{change}: the file `{}` has changed", path.display()),
            Some(InputSource::Output { producer, .. }) if change.new.is_some() && change.old.is_some() => {
                let producer = &self.plan.instance(*producer).id.stage;
                format!("{change}: it is not what the lock records of `{producer}`")
            }
            _ => change.to_string(),
        }
    }

    fn placements(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let pipeline = self.plan.pipeline();
        let mut wanted = std::collections::BTreeSet::new();
        for placement in &pipeline.placements {
            let path = placement.path.display().to_string();
            let producer = pipeline.instances[placement.instance.0].id.to_string();
            let given =
                self.lock.stages.get(&producer).and_then(|record| record.outputs.get(&placement.output));
            let problem = match (self.lock.placed.get(&path), given) {
                (None, _) => Some("the pipeline places it, but it is not in the lock".to_owned()),
                (Some(placed), Some(given)) if *placed != given.stored.blob => {
                    Some(format!("in the lock it is not the output `{}` of `{producer}`", placement.output))
                }
                _ => None,
            };
            checks.extend(problem.map(|problem| Check::drift("file", &path, problem)));
            wanted.insert(path);
        }
        for path in self.lock.placed.keys().filter(|path| !wanted.contains(*path)) {
            checks.push(Check::drift(
                "file",
                path,
                "it is in the lock, but the pipeline no longer places it",
            ));
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::report::CheckOutcome;
    use super::super::{EnvironmentClass, LockedOutput};
    use super::*;
    use crate::plan::sample;
    use crate::spec::pipeline::Pipeline;
    use crate::store::manifest::Stored;
    use pipe_core::digest::{BlobId, Digest};

    fn blob(content: &str) -> BlobId {
        BlobId::new(Digest::of(content.as_bytes()))
    }

    fn pipeline() -> Pipeline {
        sample::pipeline(vec![sample::stage("data", &[]), sample::stage("train", &[0])])
    }

    /// Returns the lock of a run in which each stage wrote its own name.
    fn locked(pipeline: &Pipeline) -> Lock {
        let mut lock = Lock { pipeline: pipeline.name.clone(), ..Lock::default() };
        for instance in &pipeline.instances {
            let found: Vec<Vec<BlobId>> = instance.inputs.iter().map(|_| vec![blob("data")]).collect();
            let parts = key::parts(instance, &key::contents(instance, &found));
            let output = LockedOutput {
                stored: Stored { blob: blob(&instance.id.stage), bytes: 1, directory: false },
                volatile: false,
            };
            let record = LockRecord {
                key: parts.key(),
                class: EnvironmentClass::from_text("x86_64"),
                compare: instance.compare.to_string(),
                parts,
                outputs: BTreeMap::from([("out".to_owned(), output)]),
                metrics: BTreeMap::new(),
            };
            lock.stages.insert(instance.id.to_string(), record);
        }
        lock
    }

    fn drifts(pipeline: Pipeline, lock: &Lock) -> Vec<(String, String)> {
        let checks = follow(&sample::plan(pipeline), lock, &|_| None);
        let drifted = checks.into_iter().filter(|check| check.outcome != CheckOutcome::Same);
        drifted.map(|check| (check.name, check.message)).collect()
    }

    #[test]
    fn an_unchanged_pipeline_follows_its_lock() {
        assert_eq!(drifts(pipeline(), &locked(&pipeline())), []);
    }

    #[test]
    fn an_edited_parameter_is_drift_of_its_stage_and_not_of_those_after_it() {
        let mut edited = pipeline();
        edited.instances[0].params = (&serde_json::json!({ "name": "other" })).into();
        let [(name, message)] = &drifts(edited, &locked(&pipeline()))[..] else { panic!() };
        assert_eq!((name.as_str(), message.as_str()), ("data", "params.name \"data\" -> \"other\""));
        let mut bumped = pipeline();
        bumped.instances[1].version = 2;
        assert_eq!(drifts(bumped, &locked(&pipeline())), [("train".to_owned(), "version 1 -> 2".to_owned())]);
    }

    #[test]
    fn another_compare_policy_is_drift() {
        let mut loose = pipeline();
        loose.instances[1].compare.ignore.insert("out".into());
        let [(_, message)] = &drifts(loose, &locked(&pipeline()))[..] else { panic!() };
        assert_eq!(message, "`compare` is `ignore=out` in the pipeline and `exact` in the lock");
    }

    #[test]
    fn a_lock_that_contradicts_itself_is_drift() {
        let mut lock = locked(&pipeline());
        lock.stages.get_mut("data").unwrap().outputs.get_mut("out").unwrap().stored.blob = blob("swapped");
        let [(name, message)] = &drifts(pipeline(), &lock)[..] else { panic!() };
        assert!(name == "train" && message.contains("not what the lock records of `data`"), "{message}");
        let mut lock = locked(&pipeline());
        lock.stages.get_mut("train").unwrap().key = lock.stages["data"].key;
        assert!(drifts(pipeline(), &lock)[0].1.contains("does not follow"));
        let mut lock = locked(&pipeline());
        lock.edited.insert("data".into());
        assert!(drifts(pipeline(), &lock)[0].1.contains("seal"));
    }

    #[test]
    fn added_and_removed_stages_are_drift() {
        let shorter = sample::pipeline(vec![sample::stage("data", &[])]);
        assert_eq!(drifts(shorter, &locked(&pipeline()))[0].0, "train");
        let mut lock = locked(&pipeline());
        lock.stages.remove("train");
        assert!(drifts(pipeline(), &lock)[0].1.contains("not in the lock"));
    }
}
