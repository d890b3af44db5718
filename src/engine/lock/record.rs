//! The content of a lock: one record per stage instance, and the placed files.

use std::collections::{BTreeMap, BTreeSet};

use super::class::EnvironmentClass;
use crate::spec::pipeline::{Instance, Pipeline};
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

    /// Returns how many records and placed files differ from those of another lock, or are in only one of them.
    pub fn changes_from(&self, other: &Self) -> usize {
        let stages = differing(&self.stages, &other.stages) + other.edited.len();
        stages + differing(&self.placed, &other.placed) + usize::from(self.pipeline != other.pipeline)
    }
}

fn differing<V: PartialEq>(a: &BTreeMap<String, V>, b: &BTreeMap<String, V>) -> usize {
    let only_in_b = b.keys().filter(|name| !a.contains_key(*name)).count();
    a.iter().filter(|(name, value)| b.get(*name) != Some(*value)).count() + only_in_b
}
