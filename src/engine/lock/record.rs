//! What a lock holds: one record per stage instance, and the placed files.

use std::collections::{BTreeMap, BTreeSet};

use super::class::EnvironmentClass;
use crate::spec::pipeline::{Instance, Pipeline};
use crate::store::manifest::Manifest;
use pipe_core::digest::{BlobId, StageKey};
use pipe_core::key::KeyParts;

/// A whole lock. Instances are known by their names (`train[adaptive,seed=1]`), files by their paths.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lock {
    pub pipeline: String,
    pub stages: BTreeMap<String, Record>,
    /// Generated files outside the cache, relative to the project directory.
    pub placed: BTreeMap<String, BlobId>,
    /// Records whose text does not match its seal: somebody wrote to them.
    pub edited: BTreeSet<String>,
}

/// One stage instance: what went in, what came out, and what is promised about that.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub key: StageKey,
    /// Where bytes can be expected to be the same.
    pub class: EnvironmentClass,
    /// The policy in force, as [`crate::spec::compare::Compare`] prints it.
    pub compare: String,
    /// The ingredients of the key, by the names that `pipe why` shows.
    pub parts: KeyParts,
    pub outputs: BTreeMap<String, LockedOutput>,
    pub metrics: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedOutput {
    pub blob: BlobId,
    /// Of the file, or of all files in the directory together.
    pub bytes: u64,
    pub directory: bool,
    /// Never the same twice, so never compared.
    pub volatile: bool,
}

impl Record {
    pub fn of(instance: &Instance, manifest: &Manifest) -> Self {
        let volatile: BTreeSet<&str> = instance
            .outputs
            .iter()
            .filter(|output| output.is_volatile())
            .map(|output| output.name.as_str())
            .collect();
        let outputs = manifest.outputs.iter().map(|(name, stored)| {
            let locked = LockedOutput {
                blob: stored.blob,
                bytes: stored.bytes,
                directory: stored.directory,
                volatile: volatile.contains(name.as_str()),
            };
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
    /// What a pipeline gave: one manifest per instance, in the pipeline's order.
    pub fn of<'m>(pipeline: &Pipeline, manifests: impl IntoIterator<Item = &'m Manifest>) -> Self {
        let stages: BTreeMap<String, Record> = pipeline
            .instances
            .iter()
            .zip(manifests)
            .map(|(instance, manifest)| (instance.id.to_string(), Record::of(instance, manifest)))
            .collect();
        let placed = pipeline.placements.iter().filter_map(|placement| {
            let producer = pipeline.instances[placement.instance.0].id.to_string();
            let output = stages.get(&producer)?.outputs.get(&placement.output)?;
            Some((placement.path.display().to_string(), output.blob))
        });
        let placed = placed.collect();
        Self { pipeline: pipeline.name.clone(), stages, placed, edited: BTreeSet::new() }
    }

    /// How many records and placed files differ from those of another lock, or are in one of them only.
    pub fn changes_from(&self, other: &Self) -> usize {
        let stages = differing(&self.stages, &other.stages) + other.edited.len();
        stages + differing(&self.placed, &other.placed) + usize::from(self.pipeline != other.pipeline)
    }
}

fn differing<V: PartialEq>(a: &BTreeMap<String, V>, b: &BTreeMap<String, V>) -> usize {
    let only_in_b = b.keys().filter(|name| !a.contains_key(*name)).count();
    a.iter().filter(|(name, value)| b.get(*name) != Some(*value)).count() + only_in_b
}
