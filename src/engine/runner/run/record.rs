//! Keeps the record of the pipeline up to date: its last results, and what it placed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::Coordinator;
use crate::spec::pipeline::InstanceIndex;
use crate::store::StoreError;

/// How often new results are recorded while stages run.
const SAVE_EVERY: Duration = Duration::from_secs(2);

impl Coordinator<'_> {
    /// Takes over what another run of the same pipeline has recorded about placed files since this run began.
    pub(super) fn take_over_placed_files(&mut self) -> Result<(), StoreError> {
        let state = &mut self.inspector.state;
        let sighting = self.context.store.sight_pipeline_state(&state.file);
        if sighting == self.state_sighting {
            return Ok(());
        }
        let recorded = self.context.store.read_pipeline_state(&state.file)?;
        self.state_sighting = sighting;
        (state.placed, state.replaced, state.origins) =
            (recorded.placed, recorded.replaced, recorded.origins);
        Ok(())
    }

    /// Saves the record of the pipeline, or, if it has not changed, that the pipeline was run last.
    pub(super) fn save_state(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.state_changed) {
            self.context.store.save_pipeline_state(&self.inspector.state)
        } else {
            self.context.store.mark_as_last(&self.inspector.state)
        }
    }

    /// Saves from time to time which results this run has, so that garbage collection keeps them if the run is killed. Saves at once that
    /// this pipeline was run last, so that `pipe logs` in another terminal means it.
    pub(super) fn save_progress(&mut self) {
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
    pub(super) fn forget_removed_instances(&mut self) {
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
