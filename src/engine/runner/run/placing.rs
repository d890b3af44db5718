//! Places the outputs of a run outside of the cache.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::PathBuf;

use super::super::event::{Event, PlaceOutcome};
use super::ownership::{Ownership, PlaceDecision};
use super::{Coordinator, RunError};
use crate::store::manifest::Stored;
use crate::store::{Origin, StoreError};
use pipe_core::digest::BlobId;

/// A file outside of the cache that is, or will be, an output of this run.
struct Placing {
    /// Relative to the project directory.
    path: String,
    target: PathBuf,
    output: Stored,
    outcome: PlaceOutcome,
    /// The content that it replaces.
    replaces: Option<BlobId>,
}

impl Coordinator<'_> {
    /// Places the outputs. What will be placed is recorded first: if this run is killed, both the old and the new content
    /// of a file are known to be ours.
    pub(super) fn place_outputs(&mut self) -> Result<(), RunError> {
        self.take_over_placed_files()?;
        let writes = self.decide_placements();
        for write in &writes {
            self.remember_placed(write);
        }
        self.warn_of_former_outputs();
        self.save_state()?;
        for Placing { path, target, output, outcome, .. } in writes {
            if outcome == PlaceOutcome::Written
                && let Err(error) = self.context.store.place(&output, &target)
            {
                self.cannot_place(&path, &error);
                continue;
            }
            self.journal.emit(Event::Placed { path, outcome });
        }
        Ok(())
    }

    /// Returns the files that are, or will be, what this run computed.
    fn decide_placements(&mut self) -> Vec<Placing> {
        let context = self.context;
        let mut decisions = Vec::new();
        let ownership = Ownership {
            store: context.store,
            state: &self.inspector.state,
            locked: &context.options.locked_outputs,
            stored: OnceCell::new(),
        };
        for placement in &context.plan.pipeline().placements {
            let outputs = self.inspector.outputs(placement.instance);
            let Some(&output) = outputs.and_then(|outputs| outputs.get(&placement.output)) else { continue };
            let path = placement.path.display().to_string();
            let target = context.options.project.join(&placement.path);
            let decision = ownership.decide(&output, &path, &target, context.options.overwrite);
            decisions.push((path, target, output, decision));
        }
        let mut placings = Vec::new();
        for (path, target, output, decision) in decisions {
            match decision {
                Ok(PlaceDecision { outcome: outcome @ PlaceOutcome::KeptEdited, .. }) => {
                    let message = format!(
                        "`{path}` was edited, so it was kept; remove it, or use --overwrite, to get the new one"
                    );
                    self.journal.warn(None, message);
                    self.summary.kept.push(path.clone());
                    self.journal.emit(Event::Placed { path, outcome });
                }
                Ok(PlaceDecision { outcome, replaces }) => {
                    placings.push(Placing { path, target, output, outcome, replaces });
                }
                Err(error) => self.cannot_place(&path, &error),
            }
        }
        placings
    }

    /// Warns of files that this pipeline placed before its `outputs:` changed and that nobody has touched: they look like results but
    /// are no longer kept up to date. Forgets those that are gone, or that belong to somebody else now.
    fn warn_of_former_outputs(&mut self) {
        let context = self.context;
        let placements = &context.plan.pipeline().placements;
        let current: HashSet<String> = placements.iter().map(|p| p.path.display().to_string()).collect();
        let state = &mut self.inspector.state;
        let former: Vec<(String, BlobId)> = state
            .placed
            .iter()
            .filter(|(path, _)| !current.contains(*path))
            .map(|(path, blob)| (path.clone(), *blob))
            .collect();
        for (path, blob) in former {
            let present = context.store.digest_user_file(&context.options.project.join(&path));
            if present.is_ok_and(|present| present.blob == blob) {
                let message = format!(
                    "`{path}` is no longer an output of this pipeline, so it is not kept up to date; remove it, or add it to `outputs:`"
                );
                self.journal.warn(None, message);
            } else {
                state.placed.remove(&path);
                state.origins.remove(&path);
                self.state_changed = true;
            }
        }
    }

    fn cannot_place(&mut self, path: &str, error: &StoreError) {
        self.summary.failed += 1;
        self.journal.warn(None, format!("`{path}` could not be placed: {error}"));
    }

    /// Records that this run places a file, unless an earlier run with the same settings placed the same content.
    fn remember_placed(&mut self, placing: &Placing) {
        let (state, set) = (&mut self.inspector.state, &self.context.options.set);
        let Placing { path, output, replaces, .. } = placing;
        let known = state.placed.get(path) == Some(&output.blob);
        if known && replaces.is_none() && state.origins.get(path).is_some_and(|origin| origin.set == *set) {
            return;
        }
        state.placed.insert(path.clone(), output.blob);
        if let Some(replaces) = replaces {
            state.replaced.insert(path.clone(), *replaces);
        }
        let origin = Origin { run: self.context.run.clone(), set: set.clone() };
        state.origins.insert(path.clone(), origin);
        self.state_changed = true;
    }
}
