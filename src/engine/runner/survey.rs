//! What a run would do, without doing it: for `pipe plan`, `pipe status` and `pipe why`.

use super::inspect::{Finding, Inspector, known};
use super::options::Options;
use crate::plan::{Plan, Why};
use crate::spec::pipeline::InstanceIndex;
use crate::store::Store;
use crate::store::manifest::Manifest;

#[derive(Debug, Clone, PartialEq)]
pub enum Outlook {
    /// The cache has it.
    Fresh(Box<Manifest>),
    WillRun(Why),
    /// It runs, or not, depending on what these give: some of its inputs are not known yet.
    MayRun {
        waits_for: Vec<InstanceIndex>,
        /// What else than its inputs has changed, if anything has.
        known: Option<Why>,
    },
    /// An input of it cannot be read; a sentence.
    CannotRun(String),
    /// Not among the targets.
    NotAsked,
}

impl Outlook {
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_) | Self::NotAsked)
    }
}

/// One outlook per instance, in the order of the pipeline.
pub fn survey(plan: &Plan, store: &Store, options: &Options) -> Vec<Outlook> {
    let selected = options.selection(plan);
    let mut inspector = Inspector::new(plan, store, &options.project);
    let mut outlooks = vec![Outlook::NotAsked; plan.len()];
    for &index in plan.topological() {
        if selected[index.0] {
            outlooks[index.0] = outlook(plan, store, options, &mut inspector, &outlooks, index);
        }
    }
    outlooks
}

fn outlook(
    plan: &Plan,
    store: &Store,
    options: &Options,
    inspector: &mut Inspector,
    before: &[Outlook],
    index: InstanceIndex,
) -> Outlook {
    let mut waits_for: Vec<InstanceIndex> =
        plan.dependencies(index).filter(|needed| !before[needed.0].is_fresh()).collect();
    if !waits_for.is_empty() {
        waits_for.sort_unstable();
        return Outlook::MayRun { waits_for, known: inspector.known_so_far(index) };
    }
    if let Some(manifest) = known(store, options, index) {
        inspector.learn(index, Manifest::clone(&manifest));
        return Outlook::Fresh(manifest);
    }
    let prepared = match inspector.prepare(index) {
        Ok(prepared) => prepared,
        Err(problem) => return Outlook::CannotRun(problem),
    };
    if options.force.contains(&index) {
        return Outlook::WillRun(Why::Forced);
    }
    match inspector.look_up(index, &prepared) {
        Finding::Hit(manifest) => {
            inspector.learn(index, Manifest::clone(&manifest));
            Outlook::Fresh(manifest)
        }
        Finding::Miss(why) => Outlook::WillRun(why),
    }
}
