//! A run or a lock as one side of a comparison. For a run: the keys in its log, and what the cache knows about them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::history::PastRun;
use super::text;
use super::variant_files::set_arguments;
use pipe_core::digest::StageKey;
use pipe_core::key::KeyParts;
use pipe_core::protocol::MetricValue;
use pipe_core::stage::StageKind;
use pipe_engine::lock::Lock;
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Stored;
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::record::EvaluationRecord;
use pipe_report::diff::{Snapshot, StageSnapshot, cells};
use pipe_report::table::Table;
use pipe_stages::evaluate::Evaluate;
use pipe_stages::table::TableStage;

/// Returns what tells a run from others: its settings, its note, and that it did not succeed.
fn described(past: &PastRun) -> String {
    let mut about = format!("{}, {}", past.pipeline(), past.started());
    if !past.set().is_empty() {
        let _ = write!(about, ",{}", set_arguments(past.set()));
    }
    if past.state() != "done" {
        let _ = write!(about, ", {}", past.state());
    }
    if let Some(note) = past.note() {
        let _ = write!(about, ", {}", text::one_line(note));
    }
    format!("{} ({about})", past.record.id)
}

/// One side of a comparison.
pub(super) struct Side {
    pub snapshot: Snapshot,
    /// The outputs, by instance and output name.
    stored: BTreeMap<(String, String), Stored>,
    /// The number of results of the run that the cache no longer knows.
    pub forgotten: usize,
}

impl Side {
    fn new(name: String) -> Self {
        let snapshot = Snapshot { name, stages: BTreeMap::new() };
        Self { snapshot, stored: BTreeMap::new(), forgotten: 0 }
    }

    /// Returns the side of a run. Outputs whose bytes differ from run to run are left out, unless `volatile`.
    pub(super) fn of_run(store: &Store, past: &PastRun, volatile: bool) -> Self {
        let mut side = Self::new(described(past));
        for ended in past.instances() {
            let Some(key) = ended.key else { continue };
            match store.record(key) {
                None => side.forgotten += 1,
                Some(manifest) => {
                    let metrics = marked(&manifest.metrics);
                    let mut outputs = manifest.outputs.clone();
                    outputs.retain(|name, _| volatile || !manifest.volatile.contains(name));
                    side.add(ended.instance, key, &manifest.parts, metrics, outputs);
                }
            }
        }
        side
    }

    /// Returns the side of a lock, with outputs as in [`Side::of_run`].
    pub(super) fn of_lock(name: &str, lock: Lock, volatile: bool) -> Self {
        let mut side = Self::new(format!("{name} ({})", lock.pipeline));
        for (instance, record) in lock.stages {
            let outputs = record.outputs.iter().filter(|(_, output)| volatile || !output.volatile);
            let outputs = outputs.map(|(name, output)| (name.clone(), output.stored)).collect();
            let metrics = marked(&record.metrics);
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
            cells: None,
        };
        for (output, stored) in outputs {
            self.stored.insert((instance.clone(), output), stored);
        }
        self.snapshot.stages.insert(instance, stage);
    }

    /// Adds all metrics that evaluations measured to those that they reported. A lock has only the reported ones, so
    /// this is for comparing runs.
    pub(super) fn read_evaluations(&mut self, store: &Store) {
        for (instance, stage) in &mut self.snapshot.stages {
            let evaluates = stage.params.get("kind").is_some_and(|kind| kind == Evaluate::NAME);
            let stored = self.stored.get(&(instance.clone(), "evaluation".to_owned())).filter(|_| evaluates);
            let bytes = stored.and_then(|stored| store.read(stored).ok()).unwrap_or_default();
            if let Ok(record) = serde_json::from_slice::<EvaluationRecord>(&bytes) {
                let measured = record.evaluation.iter();
                stage.metrics.extend(measured.map(|(metric, value)| (metric.name().to_owned(), value)));
            }
        }
    }

    /// Reads the cells of the tables whose content is in the cache.
    pub(super) fn read_tables(&mut self, store: &Store) {
        for (instance, stage) in &mut self.snapshot.stages {
            let is_table = stage.params.get("kind").is_some_and(|kind| kind == TableStage::NAME);
            let output = (instance.clone(), TableStage::JSON.name().to_owned());
            let stored = self.stored.get(&output).filter(|_| is_table);
            let bytes = stored.and_then(|stored| store.read(stored).ok()).unwrap_or_default();
            stage.cells = serde_json::from_slice(&bytes).ok().map(|table: Table| cells(&table));
        }
    }

    /// Returns an output of an instance.
    pub(super) fn stored(&self, instance: &str, output: &str) -> Option<&Stored> {
        self.stored.get(&(instance.to_owned(), output.to_owned()))
    }
}

/// A value that no protocol applies to is shown as an honest one: without a mark.
fn marked(metrics: &BTreeMap<String, MetricValue>) -> BTreeMap<String, Marked<f64>> {
    let mark = |metric: &MetricValue| Marked::new(metric.protocol.unwrap_or_default(), metric.value);
    metrics.iter().map(|(name, metric)| (name.clone(), mark(metric))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipe_core::protocol::Protocol;

    #[test]
    fn values_keep_their_marks() {
        let oracle = MetricValue { value: 0.5, protocol: Some(Protocol::Oracle) };
        let metrics = BTreeMap::from([
            ("rows".to_owned(), MetricValue::unmarked(3.0)),
            ("macro_f1".to_owned(), oracle),
        ]);
        let marked = marked(&metrics);
        assert_eq!(marked["macro_f1"].reveal(), (Protocol::Oracle, 0.5));
        assert_eq!(marked["rows"].honest(), Some(3.0));
    }
}
