//! What a run or a lock had, as one side of a comparison. Of a run: the keys in its log, and what the cache knows of
//! them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::history::PastRun;
use super::lock::stored;
use pipe_core::digest::StageKey;
use pipe_core::key::KeyParts;
use pipe_core::stage::StageKind;
use pipe_engine::lock::Lock;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Stored;
use pipe_ml::config::method::Method;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::Record;
use pipe_report::diff::{Snapshot, StageSnapshot};
use pipe_stages::evaluate::Evaluate;

/// One side of a comparison.
pub(super) struct Side {
    pub snapshot: Snapshot,
    /// What of it the cache has, by instance and output.
    stored: BTreeMap<(String, String), Stored>,
    /// Results that the run had and the cache no longer knows of.
    pub forgotten: usize,
}

impl Side {
    fn new(name: String) -> Self {
        let snapshot = Snapshot { name, stages: BTreeMap::new() };
        Self { snapshot, stored: BTreeMap::new(), forgotten: 0 }
    }

    /// Outputs that are never the same twice are left out, unless `volatile`.
    pub(super) fn of_run(store: &Store, past: &PastRun, volatile: bool) -> Self {
        let mut side = Self::new(format!("{} ({}, {})", past.record.id, past.pipeline(), past.started()));
        for ended in past.instances() {
            let Some(key) = ended.key else { continue };
            match store.record(key) {
                None => side.forgotten += 1,
                Some(manifest) => {
                    let metrics = reported(&manifest.parts, &manifest.metrics);
                    let mut outputs = manifest.outputs;
                    outputs.retain(|name, _| volatile || !manifest.volatile.contains(name));
                    side.add(ended.instance, key, &manifest.parts, metrics, outputs);
                }
            }
        }
        side
    }

    pub(super) fn of_lock(name: &str, lock: Lock, volatile: bool) -> Self {
        let mut side = Self::new(format!("{name} ({})", lock.pipeline));
        for (instance, record) in lock.stages {
            let outputs = record.outputs.iter().filter(|(_, output)| volatile || !output.volatile);
            let outputs = outputs.map(|(name, output)| (name.clone(), stored(output))).collect();
            let metrics = reported(&record.parts, &record.metrics);
            side.add(instance, record.key, &record.parts, metrics, outputs);
        }
        side
    }

    fn add(
        &mut self,
        instance: String,
        key: StageKey,
        parts: &KeyParts,
        metrics: BTreeMap<String, Marked<f64>>,
        outputs: BTreeMap<String, Stored>,
    ) {
        let params = parts.iter().filter(|(name, _)| !name.starts_with("inputs."));
        let stage = StageSnapshot {
            key,
            params: params.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            metrics,
            outputs: outputs.iter().map(|(name, stored)| (name.clone(), stored.blob)).collect(),
        };
        for (output, stored) in outputs {
            self.stored.insert((instance.clone(), output), stored);
        }
        self.snapshot.stages.insert(instance, stage);
    }

    /// Of evaluations all that they measured, not only what they reported. A lock has no more than that, so this is
    /// for comparing runs.
    pub(super) fn read_evaluations(&mut self, store: &Store) {
        for (instance, stage) in &mut self.snapshot.stages {
            let evaluates = stage.params.get("kind").is_some_and(|kind| kind == Evaluate::NAME);
            let stored = self.stored.get(&(instance.clone(), "evaluation".to_owned())).filter(|_| evaluates);
            let bytes = stored.and_then(|stored| store.read(stored).ok()).unwrap_or_default();
            if let Ok(record) = serde_json::from_slice::<Record>(&bytes) {
                let measured = record.evaluation.iter();
                stage.metrics.extend(measured.map(|(metric, value)| (metric.name().to_owned(), value)));
            }
        }
    }

    pub(super) fn stored(&self, instance: &str, output: &str) -> Option<&Stored> {
        self.stored.get(&(instance.to_owned(), output.to_owned()))
    }
}

fn reported(parts: &KeyParts, metrics: &BTreeMap<String, f64>) -> BTreeMap<String, Marked<f64>> {
    let protocol = protocol_of(parts);
    metrics.iter().map(|(name, &value)| (name.clone(), Marked::new(protocol, value))).collect()
}

/// The protocol by which a stage measured, as its parameters say: evaluations name it, and a model that predicts from
/// true labels validates by the oracle's.
pub(super) fn protocol_of(parts: &KeyParts) -> Protocol {
    let from_true_labels = match serde_json::from_value::<Method>(nested(parts, "params.method.")) {
        Ok(method) => method.predicts_from_true_labels(),
        // Of another version of `pipe`: better marked for nothing than not marked.
        Err(_) => parts.get("params.method.signal.predict") == Some("\"batch-labels\""),
    };
    match from_true_labels || parts.get("params.protocol") == Some("\"oracle\"") {
        true => Protocol::Oracle,
        false => Protocol::Honest,
    }
}

/// The map that was flattened into the parts under a prefix.
fn nested(parts: &KeyParts, prefix: &str) -> Value {
    let mut root = Value::Object(Map::new());
    for (name, text) in parts.iter() {
        let Some(path) = name.strip_prefix(prefix) else { continue };
        let place = path.split('.').fold(&mut root, |place, field| &mut place[field]);
        *place = serde_json::from_str(text).unwrap_or_default();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;
    use pipe_stages::train::Train;

    fn parts(entries: &[(&str, String)]) -> KeyParts {
        KeyParts::new(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    #[test]
    fn figures_that_true_labels_entered_are_marked() {
        let of = |name, value: &str| protocol_of(&parts(&[(name, value.to_owned())]));
        assert_eq!(of("params.protocol", "\"oracle\""), Protocol::Oracle);
        assert_eq!(of("params.protocol", "\"honest\""), Protocol::Honest);
        assert_eq!(of("params.method.signal.predict", "\"batch-labels\""), Protocol::Oracle);
    }

    #[test]
    fn a_training_is_marked_if_its_variant_looks_at_true_labels() {
        let trained = |variant: &str| {
            let body = format!("{{ data: a, idf: b, preset: paper, variant: {variant} }}");
            let checked = KindOf::<Train>::new().check(serde_yaml::from_str(&body).unwrap()).unwrap();
            let mut entries = Vec::new();
            flatten("params".to_owned(), &checked.params, &mut entries);
            let entries: Vec<(&str, String)> =
                entries.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            protocol_of(&parts(&entries))
        };
        assert_eq!(["adaptive", "static"].map(trained), [Protocol::Oracle, Protocol::Honest]);
    }

    fn flatten(name: String, value: &Value, entries: &mut Vec<(String, String)>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(field, value)| flatten(format!("{name}.{field}"), value, entries));
            }
            value => entries.push((name, value.to_string())),
        }
    }
}
