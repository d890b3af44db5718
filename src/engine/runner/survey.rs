//! Predicts what a run would do: for `pipe plan`, `pipe status` and `pipe why`; and takes what it would need from a
//! remote.

use super::inspect::{Finding, Inspector, known};
use super::options::Options;
use super::stop::Stop;
use crate::plan::{Plan, Why};
use crate::remote::Remote;
use crate::spec::pipeline::InstanceIndex;
use crate::store::manifest::Manifest;
use crate::store::{Claim, Store};
use pipe_core::digest::StageKey;

/// What a run would do with an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Outlook {
    /// The cache has it.
    Fresh(Box<Manifest>),
    WillRun(Why),
    /// It runs or not, depending on the results of these instances: some of its inputs are not known yet.
    MayRun {
        waits_for: Vec<InstanceIndex>,
        /// What has changed besides its inputs, if anything.
        known: Option<Why>,
    },
    /// One of its inputs cannot be read; says why.
    CannotRun(String),
    /// Not among the targets.
    NotSelected,
}

impl Outlook {
    /// Returns why the instance runs, as far as it is known.
    pub fn why(&self) -> Option<&Why> {
        match self {
            Self::WillRun(why) | Self::MayRun { known: Some(why), .. } => Some(why),
            _ => None,
        }
    }

    /// Returns whether the run would not compute the instance.
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh(_) | Self::NotSelected)
    }
}

/// Returns one outlook per instance, in the order of the pipeline.
pub fn survey(plan: &Plan, store: &Store, options: &Options) -> Vec<Outlook> {
    let selected = options.selection(plan);
    let state = store.pipeline_state(&plan.pipeline().file);
    let mut inspector = Inspector::new(plan, store, &options.project, state, &Stop::new());
    let mut outlooks = vec![Outlook::NotSelected; plan.len()];
    for &index in plan.topological() {
        if selected[index.0] {
            outlooks[index.0] = outlook(plan, store, options, &mut inspector, &outlooks, index);
        }
    }
    outlooks
}

/// Returns the key of an instance; `None` if something before it has no result, or if an input cannot be read.
pub fn key_of(plan: &Plan, store: &Store, outlooks: &[Outlook], index: InstanceIndex) -> Option<StageKey> {
    let options = Options::default();
    let state = store.pipeline_state(&plan.pipeline().file);
    let mut inspector = Inspector::new(plan, store, &options.project, state, &Stop::new());
    for needed in plan.dependencies(index) {
        let Outlook::Fresh(manifest) = &outlooks[needed.0] else { return None };
        inspector.learn(needed, manifest.outputs.clone());
    }
    inspector.prepare(index).ok().map(|prepared| prepared.key)
}

/// What [`pull`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulled {
    /// The number of results that were in the store.
    pub present: usize,
    pub taken: usize,
    /// The instances without a result, and why.
    pub missing: Vec<(String, String)>,
}

/// Takes every result from the remote that a run would need and the store does not have.
pub fn pull(plan: &Plan, store: &Store, options: &Options, remote: &Remote) -> Pulled {
    let selected = options.selection(plan);
    let state = store.pipeline_state(&plan.pipeline().file);
    let mut inspector = Inspector::new(plan, store, &options.project, state, &Stop::new());
    let mut pulled = Pulled::default();
    for &index in plan.topological().iter().filter(|index| selected[index.0]) {
        let name = inspector.name(index).to_owned();
        if let Some(needed) = plan.dependencies(index).find(|&needed| inspector.outputs(needed).is_none()) {
            let why = format!("the result of `{}` is not known", inspector.name(needed));
            pulled.missing.push((name, why));
            continue;
        }
        let found = inspector.prepare(index).and_then(|prepared| {
            let claimed = store.try_claim(&prepared.key).map_err(|error| error.to_string())?;
            match claimed {
                Some(Claim::Hit(manifest)) => {
                    pulled.present += 1;
                    Ok(*manifest)
                }
                Some(Claim::Miss(mut right)) => {
                    let taken = remote.take(store, &mut right, &name);
                    let taken = taken.ok_or("the remote has no result that may be used")?;
                    pulled.taken += 1;
                    Ok(taken)
                }
                None => Err("another process is computing it".to_owned()),
            }
        });
        match found {
            Ok(manifest) => inspector.learn(index, manifest.computed.outputs),
            Err(why) => pulled.missing.push((name, why)),
        }
    }
    pulled
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
        inspector.learn(index, manifest.outputs.clone());
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
        Ok(Finding::Hit(manifest)) => {
            inspector.learn(index, manifest.outputs.clone());
            Outlook::Fresh(manifest)
        }
        Ok(Finding::Miss(why)) => Outlook::WillRun(why),
        Err(problem) => Outlook::CannotRun(problem),
    }
}
