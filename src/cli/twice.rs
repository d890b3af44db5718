//! `pipe verify --twice`: the same stages under two sets of conditions, none of which may matter.

use std::collections::BTreeMap;

use super::args::VerifyArgs;
use super::exit::Failure;
use super::lock::{present, stored};
use super::project::{Project, select};
use super::trial::{Bench, Conditions, Trial, sides};
use pipe_core::digest::StageKey;
use pipe_engine::lock::compare::{Verdict, compare};
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::report::{Check, Outcome as Found};
use pipe_engine::lock::{Lock, LockedOutput, Record};
use pipe_engine::plan::Plan;
use pipe_engine::runner::{Options, Outlook, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;

/// Runs everything twice under conditions that must not matter, and says how equal each output is.
pub(super) fn twice(
    project: &Project,
    args: &VerifyArgs,
    lock: Option<&Lock>,
    real: &Store,
    what: &[String],
) -> Result<Vec<Check>, Failure> {
    let bench = Bench::new(project, args, real)?;
    let plan = &bench.plan;
    let outlooks = survey(plan, real, &Options::default());
    let chosen = match what.is_empty() {
        true => (0..plan.len()).map(InstanceIndex).collect(),
        false => select(plan.pipeline(), what)?,
    };
    // Where a stage's own files are not here, the lock knows which result is theirs.
    let locked = lock.map(|lock| followed(plan, lock, real)).unwrap_or_default();
    let cached = |index: InstanceIndex| match &outlooks[index.0] {
        _ if chosen.contains(&index) => None,
        Outlook::Fresh(manifest) => Some(manifest.key),
        _ => locked.get(&plan.instance(index).id.to_string()).copied(),
    };
    let most = plan.pipeline().instances.iter().map(|instance| instance.resources.cpu).max().unwrap_or(1);
    let plain = Conditions { jobs: Some(1), ..Conditions::default() };
    let perturbed = Conditions { jobs: Some(bench.jobs.max(2)), threads: Some(most + 1), perturbed: true };
    let first = bench.trial("first", &chosen, &cached, &plain)?;
    // Another directory, with a longer name and a space in it.
    let second = bench.trial("second run, elsewhere", &chosen, &cached, &perturbed)?;
    let wanted = plan.with_dependencies(&chosen);
    let mut checks = Vec::new();
    let mut unstable = false;
    for &index in plan.topological().iter().filter(|index| wanted[index.0] && !first.seeded.contains(index)) {
        let instance = plan.instance(index);
        let name = instance.id.to_string();
        let (Some(a), Some(b)) = (first.results.get(&index), second.results.get(&index)) else {
            let failure =
                if first.results.contains_key(&index) { second.failure(&name) } else { first.failure(&name) };
            checks.push(Check::cannot_tell("stage", &name, failure));
            continue;
        };
        let differing = differing(instance, a, b, &first, &second);
        if differing.is_empty() && a.key == b.key {
            checks.push(Check::same("stage", &name));
            continue;
        }
        // Once more with the first run's inputs and threads, and all else as in the second.
        let inputs: BTreeMap<InstanceIndex, StageKey> = plan
            .dependencies(index)
            .filter_map(|needed| Some((needed, first.results.get(&needed)?.key)))
            .collect();
        let label = format!("again {}", index.0);
        let again = Conditions { threads: None, ..perturbed };
        let third = bench.trial_from(
            &label,
            &[index],
            &|needed| inputs.get(&needed).copied(),
            &again,
            &first.store,
        )?;
        let Some(c) = third.results.get(&index) else {
            checks.push(Check::cannot_tell("stage", &name, third.failure(&name)));
            continue;
        };
        let check = classed(instance, a, c, &first, &third, differing, a.key == b.key);
        unstable |= check.outcome == Found::Drift;
        checks.push(check);
    }
    bench.end(unstable);
    Ok(checks)
}

/// The keys of the stages that still follow from the lock, by name.
fn followed(plan: &Plan, lock: &Lock, real: &Store) -> BTreeMap<String, StageKey> {
    let checks = follow(plan, lock, &|path| present(real, path)).into_iter();
    let same = checks.filter(|check| check.what == "stage" && check.outcome == Found::Same);
    same.filter_map(|check| Some((check.name.clone(), lock.stages.get(&check.name)?.key))).collect()
}

type Differing = BTreeMap<String, Verdict>;

fn differing(instance: &Instance, a: &Manifest, b: &Manifest, first: &Trial, second: &Trial) -> Differing {
    let read = |other: bool, output: &LockedOutput| {
        let store = if other { &second.store } else { &first.store };
        store.read(&stored(output)).ok()
    };
    let (a, b) = (Record::of(instance, a), Record::of(instance, b));
    let mut verdicts = compare((&a).into(), (&b).into(), &instance.compare, &read);
    verdicts.retain(|_, verdict| !matches!(verdict, Verdict::Same | Verdict::Ignored));
    verdicts
}

/// Exact at equal threads, within tolerance, or unstable.
fn classed(
    instance: &Instance,
    a: &Manifest,
    c: &Manifest,
    first: &Trial,
    third: &Trial,
    before: Differing,
    same_inputs: bool,
) -> Check {
    let name = instance.id.to_string();
    let still = differing(instance, a, c, first, third);
    if still.is_empty() {
        let names: Vec<String> = before.keys().map(|output| format!("`{output}`")).collect();
        let message = match same_inputs && !names.is_empty() {
            true => format!("{} exact at equal threads", names.join(", ")),
            false => "exact; it differed only with its inputs".to_owned(),
        };
        return Check::new("stage", &name, Found::Same, message);
    }
    let told: Vec<String> = still
        .iter()
        .map(|(output, verdict)| match verdict {
            Verdict::WithinTolerance(how) => format!("`{output}` within tolerance ({how})"),
            Verdict::Different(how) => format!("`{output}` is unstable: {how}"),
            Verdict::Same | Verdict::Ignored => format!("`{output}`"),
        })
        .collect();
    let is_unstable = still.values().any(|verdict| matches!(verdict, Verdict::Different(_)));
    let outcome = if is_unstable { Found::Drift } else { Found::Same };
    let different: Vec<(&String, &String)> = still
        .iter()
        .filter_map(|(output, verdict)| match verdict {
            Verdict::Different(how) => Some((output, how)),
            _ => None,
        })
        .collect();
    let detail = sides(&different, &Record::of(instance, a), &Record::of(instance, c), &first.store, third);
    Check::new("stage", &name, outcome, told.join(", ")).with_detail(detail)
}
