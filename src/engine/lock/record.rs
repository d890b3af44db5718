//! The content of a lock: one record per stage instance, and the placed files.

use std::collections::{BTreeMap, BTreeSet};

use super::class::EnvironmentClass;
use super::text::body;
use crate::spec::pipeline::{InputSource, Instance, InstanceIndex, Pipeline};
use crate::store::manifest::{Manifest, Stored};
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::key::KeyParts;
use pipe_core::protocol::MetricValue;

/// A lock. Records are found by the name of the instance (`train[adaptive,seed=1]`), files by their path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lock {
    pub pipeline: String,
    pub stages: BTreeMap<String, LockRecord>,
    /// The content of generated files outside of the cache, by path relative to the project directory.
    pub placed: BTreeMap<String, BlobId>,
    /// The names of records that do not match their seal, because they were edited.
    pub edited: BTreeSet<String>,
}

/// One stage instance: what went in, what came out, and how equal a second computation has to be.
#[derive(Debug, Clone, PartialEq)]
pub struct LockRecord {
    pub key: StageKey,
    /// The environments in which the same bytes are expected.
    pub class: EnvironmentClass,
    /// The policy of the stage, as [`crate::spec::compare::Compare`] prints it.
    pub compare: String,
    /// The key parts, by the names that `pipe why` shows.
    pub parts: KeyParts,
    pub outputs: BTreeMap<String, LockedOutput>,
    pub metrics: BTreeMap<String, MetricValue>,
}

/// One output of a locked stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedOutput {
    pub stored: Stored,
    /// Its bytes differ from run to run, so they are never compared.
    pub volatile: bool,
}

impl LockRecord {
    /// Returns the record of an instance.
    pub fn of(instance: &Instance, manifest: &Manifest) -> Self {
        let volatile: BTreeSet<&str> = instance
            .outputs
            .iter()
            .filter(|output| output.is_volatile())
            .map(|output| output.name.as_str())
            .collect();
        let outputs = manifest.outputs.iter().map(|(name, stored)| {
            let locked = LockedOutput { stored: *stored, volatile: volatile.contains(name.as_str()) };
            (name.clone(), locked)
        });
        Self {
            key: manifest.key,
            class: EnvironmentClass::of(&manifest.environment),
            compare: instance.compare.to_string(),
            parts: manifest.parts.clone(),
            outputs: outputs.collect(),
            metrics: manifest.metrics.clone(),
        }
    }
}

impl LockRecord {
    /// Returns the content of each output, without those whose bytes differ from run to run.
    pub fn steady_outputs(&self) -> BTreeMap<String, BlobId> {
        let steady = self.outputs.iter().filter(|(_, locked)| !locked.volatile);
        steady.map(|(output, locked)| (output.clone(), locked.stored.blob)).collect()
    }
}

impl Lock {
    /// Returns the lock of a pipeline, given one manifest per instance in the order of the pipeline.
    pub fn of<'m>(pipeline: &Pipeline, manifests: impl IntoIterator<Item = &'m Manifest>) -> Self {
        let stages: BTreeMap<String, LockRecord> = pipeline
            .instances
            .iter()
            .zip(manifests)
            .map(|(instance, manifest)| (instance.id.to_string(), LockRecord::of(instance, manifest)))
            .collect();
        let placed = pipeline.placements.iter().filter_map(|placement| {
            let producer = pipeline.instances[placement.instance.0].id.to_string();
            let output = stages.get(&producer)?.outputs.get(&placement.output)?;
            Some((placement.path.display().to_string(), output.stored.blob))
        });
        let placed = placed.collect();
        Self { pipeline: pipeline.name.clone(), stages, placed, edited: BTreeSet::new() }
    }

    /// Replaces records by those of `old` that record the same computation, outputs and metrics, so that a computation
    /// on another machine, or at another time, does not change the lock.
    ///
    /// Volatile outputs may differ, unless the pipeline reads or places them: then other lines of the lock name
    /// their content.
    pub fn keep_equal_records(&mut self, old: &Self, pipeline: &Pipeline) {
        let used = used_outputs(pipeline);
        for (name, record) in &mut self.stages {
            let Some(old_record) = old.stages.get(name).filter(|_| !old.edited.contains(name)) else {
                continue;
            };
            let mut candidate = LockRecord { class: old_record.class.clone(), ..record.clone() };
            for (output, locked) in &mut candidate.outputs {
                let is_free = locked.volatile && !used.contains(&(name.clone(), output.clone()));
                if let Some(old) = old_record.outputs.get(output).filter(|_| is_free) {
                    *locked = *old;
                }
            }
            // Texts are compared because a metric may be NaN.
            if body(name, &candidate) == body(name, old_record) {
                *record = old_record.clone();
            }
        }
    }

    /// Returns the content of all recorded outputs and placed files.
    pub fn contents(&self) -> BTreeSet<BlobId> {
        let outputs = self.stages.values().flat_map(|record| record.outputs.values());
        outputs.map(|output| output.stored.blob).chain(self.placed.values().copied()).collect()
    }

    /// Returns whether this lock was not edited and has the text of another one.
    pub fn is_same_text(&self, other: &Self) -> bool {
        self.edited.is_empty() && self.to_string() == other.to_string()
    }

    /// Returns how many records and placed files differ from those of another lock, or are in only one of them.
    pub fn changes_from(&self, other: &Self) -> usize {
        let stages = differing(&self.stages, &other.stages) + other.edited.len();
        stages + differing(&self.placed, &other.placed) + usize::from(self.pipeline != other.pipeline)
    }
}

/// Returns the outputs that stages of the pipeline read or that it places, by the name of the instance.
fn used_outputs(pipeline: &Pipeline) -> BTreeSet<(String, String)> {
    let name = |index: InstanceIndex| pipeline.instances[index.0].id.to_string();
    let inputs = pipeline.instances.iter().flat_map(|instance| &instance.inputs);
    let read = inputs.flat_map(|input| &input.sources).filter_map(|source| match source {
        InputSource::Output { producer, output, .. } => Some((name(*producer), output.clone())),
        InputSource::File(_) => None,
    });
    let placed = pipeline.placements.iter();
    read.chain(placed.map(|placement| (name(placement.instance), placement.output.clone()))).collect()
}

fn differing<V: PartialEq>(a: &BTreeMap<String, V>, b: &BTreeMap<String, V>) -> usize {
    let only_in_b = b.keys().filter(|name| !a.contains_key(*name)).count();
    a.iter().filter(|(name, value)| b.get(*name) != Some(*value)).count() + only_in_b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;
    use pipe_core::digest::Digest;

    /// Returns the lock of a run of `train`, whose only output is the timings, and of `table`, which has no inputs.
    fn lock(class: &str, seconds: &str, f1: f64) -> Lock {
        let blob = BlobId::new(Digest::of(seconds.as_bytes()));
        let output = LockedOutput { stored: Stored { blob, bytes: 4, directory: false }, volatile: true };
        let parts = KeyParts::new(BTreeMap::from([("kind".to_owned(), "train".to_owned())]));
        let record = LockRecord {
            key: parts.key(),
            class: EnvironmentClass::from_text(class),
            compare: "exact".into(),
            parts,
            outputs: BTreeMap::from([("out".to_owned(), output)]),
            metrics: BTreeMap::from([
                ("f1".to_owned(), MetricValue::unmarked(f1)),
                ("undefined".to_owned(), MetricValue::unmarked(f64::NAN)),
            ]),
        };
        Lock { stages: BTreeMap::from([("train".to_owned(), record)]), ..Lock::default() }
    }

    fn kept(new: Lock, old: &Lock, pipeline: &Pipeline) -> bool {
        let mut merged = new;
        merged.keep_equal_records(old, pipeline);
        merged.to_string() == old.to_string()
    }

    #[test]
    fn equal_results_of_another_machine_or_time_do_not_change_a_record() {
        let pipeline = sample::pipeline(vec![sample::stage("train", &[])]);
        let old = lock("x86_64 threads=1", "1.5", 0.5);
        assert!(kept(lock("aarch64 threads=2", "2.5", 0.5), &old, &pipeline));
        assert!(!kept(lock("aarch64 threads=2", "1.5", 0.6), &old, &pipeline), "a metric differs");
        let edited = Lock { edited: BTreeSet::from(["train".to_owned()]), ..old };
        assert!(!kept(lock("aarch64 threads=2", "1.5", 0.5), &edited, &pipeline), "it was edited");
    }

    #[test]
    fn a_volatile_output_that_another_stage_reads_changes_the_record() {
        let pipeline = sample::pipeline(vec![sample::stage("train", &[]), sample::stage("table", &[0])]);
        let old = lock("x86_64 threads=1", "1.5", 0.5);
        assert!(kept(lock("aarch64 threads=2", "1.5", 0.5), &old, &pipeline));
        assert!(!kept(lock("x86_64 threads=1", "2.5", 0.5), &old, &pipeline));
    }
}
