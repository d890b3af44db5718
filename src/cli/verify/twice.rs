//! `pipe verify --twice`: runs the same stages under two sets of conditions that must not influence the results.

use std::collections::BTreeMap;

use crate::cli::args::VerifyArgs;
use crate::cli::exit::Failure;
use crate::cli::lock::input_content;
use crate::cli::project::{Project, select};
use crate::cli::sandbox::{Conditions, SandboxRun};
use pipe_core::digest::StageKey;
use pipe_core::kind::Program;
use pipe_engine::lock::compare::CompareVerdict;
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::report::{Check, CheckOutcome};
use pipe_engine::lock::{Lock, LockRecord};
use pipe_engine::plan::Plan;
use pipe_engine::runner::file_trace::{self, listed};
use pipe_engine::runner::{Options, Outlook, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;

/// Runs the selected stages twice, under different conditions, and compares the outputs.
///
/// A stage that differs is run a third time, with the inputs and threads of the first run, to find out whether its
/// inputs, the number of threads, or neither explains the difference.
pub(super) fn twice(
    project: &Project,
    args: &VerifyArgs,
    lock: Option<&Lock>,
    cache: &Store,
    selection: &[String],
) -> Result<Vec<Check>, Failure> {
    let sandbox = super::sandbox(project, args, cache)?;
    let plan = &sandbox.plan;
    let outlooks = survey(plan, cache, &Options::default());
    let chosen = if selection.is_empty() {
        (0..plan.len()).map(InstanceIndex).collect()
    } else {
        select(plan.pipeline(), selection)?
    };
    // If the files that a stage reads are missing, the lock still knows the key of its result.
    let locked = lock.map(|lock| keys_that_match(plan, lock, cache)).unwrap_or_default();
    let known = |index: InstanceIndex| match &outlooks[index.0] {
        _ if chosen.contains(&index) => None,
        Outlook::Fresh(manifest) => Some(manifest.key),
        _ => locked.get(&plan.instance(index).id.to_string()).copied(),
    };
    let most_threads =
        plan.pipeline().instances.iter().map(|instance| instance.resources.cpu).max().unwrap_or(1);
    let unobservable = file_trace::unavailable();
    let plain = Conditions { jobs: Some(1), observed: unobservable.is_none(), ..Conditions::default() };
    let perturbed = Conditions {
        jobs: Some(sandbox.jobs.max(2)),
        threads: Some(most_threads + 1),
        perturbed: true,
        // Being observed must not influence a result either.
        observed: false,
    };
    let first = sandbox.run("first", &chosen, &known, &plain)?;
    // Its directory has a longer name with a space in it, on purpose.
    let second = sandbox.run("second run, elsewhere", &chosen, &known, &perturbed)?;
    let wanted = plan.with_dependencies(&chosen);
    let not_observed = if args.strict { CheckOutcome::CannotTell } else { CheckOutcome::NotChecked };
    let mut checks = Vec::new();
    let mut unstable = false;
    for &index in plan.topological().iter().filter(|index| wanted[index.0] && !first.copied.contains(index)) {
        let instance = plan.instance(index);
        let name = instance.id.to_string();
        if let Some(read) = first.undeclared.get(&name) {
            checks.push(undeclared_inputs(instance, read));
        } else if let Some(reason) = &unobservable
            && instance.program == Program::Command
        {
            let message = format!("what it reads without declaring it was not observed: {reason}");
            checks.push(Check::new("inputs", &name, not_observed, message));
        }
        let (Some(one), Some(two)) = (first.results.get(&index), second.results.get(&index)) else {
            let failed = if first.results.contains_key(&index) { &second } else { &first };
            checks.push(Check::cannot_tell("stage", &name, failed.failure(&name)));
            continue;
        };
        let differing = differing(instance, (one, &first), (two, &second));
        if differing.is_empty() && one.key == two.key {
            checks.push(Check::same("stage", &name));
            continue;
        }
        let inputs: BTreeMap<InstanceIndex, StageKey> = plan
            .dependencies(index)
            .filter_map(|needed| Some((needed, first.results.get(&needed)?.key)))
            .collect();
        let label = format!("again {}", index.0);
        let conditions = Conditions { threads: None, ..perturbed };
        let known = |needed| inputs.get(&needed).copied();
        let third = sandbox.run_from(&first.store, &label, &[index], &known, &conditions)?;
        let Some(three) = third.results.get(&index) else {
            checks.push(Check::cannot_tell("stage", &name, third.failure(&name)));
            continue;
        };
        let threads_differed: Vec<&String> =
            if one.key == two.key { differing.keys().collect() } else { Vec::new() };
        let check = explain(instance, (one, &first), (three, &third), &threads_differed);
        unstable |= check.outcome == CheckOutcome::Drift;
        checks.push(check);
    }
    sandbox.finish(unstable);
    Ok(checks)
}

/// Returns the check of a stage that reads files which it does not declare.
fn undeclared_inputs(instance: &Instance, read: &[String]) -> Check {
    let taken: Vec<&str> = instance.inputs.iter().map(|input| input.slot.as_str()).collect();
    let lines = file_trace::input_lines(read, &taken);
    let message =
        format!("it read {}, which it does not declare, so that a change would not be noticed", listed(read));
    let detail = format!("add to its `inputs:`\n    {}\n", lines.join("\n    "));
    Check::new("inputs", &instance.id.to_string(), CheckOutcome::Undeclared, message).with_detail(detail)
}

/// Returns the keys of the stages that still match the lock, by name.
fn keys_that_match(plan: &Plan, lock: &Lock, cache: &Store) -> BTreeMap<String, StageKey> {
    let checks = follow(plan, lock, &|path| input_content(cache, path)).into_iter();
    let same = checks.filter(|check| check.what == "stage" && check.outcome == CheckOutcome::Same);
    same.filter_map(|check| Some((check.name.clone(), lock.stages.get(&check.name)?.key))).collect()
}

/// A result and the run that it is from.
type RunResult<'a> = (&'a Manifest, &'a SandboxRun);

/// Returns the outputs whose bytes differ, unless the pipeline says to ignore them.
fn differing(instance: &Instance, old: RunResult, new: RunResult) -> BTreeMap<String, CompareVerdict> {
    let records = (LockRecord::of(instance, old.0), LockRecord::of(instance, new.0));
    let mut verdicts = new.1.compare(instance, &records.0, &old.1.store, &records.1);
    verdicts.retain(|_, verdict| !matches!(verdict, CompareVerdict::Same | CompareVerdict::Ignored));
    verdicts
}

/// Says whether a stage is exact at equal threads, within tolerance, or unstable.
fn explain(instance: &Instance, old: RunResult, new: RunResult, threads_differed: &[&String]) -> Check {
    let name = instance.id.to_string();
    let verdicts = differing(instance, old, new);
    if verdicts.is_empty() {
        let message = if threads_differed.is_empty() {
            "exact; it differed only because its inputs did".to_owned()
        } else {
            let names: Vec<String> = threads_differed.iter().map(|output| format!("`{output}`")).collect();
            format!("{} exact at equal threads", names.join(", "))
        };
        return Check::new("stage", &name, CheckOutcome::Same, message);
    }
    let sentences: Vec<String> = verdicts
        .iter()
        .map(|(output, verdict)| match verdict {
            CompareVerdict::WithinTolerance(how) => format!("`{output}` within tolerance ({how})"),
            CompareVerdict::Different(how) => format!("`{output}` is unstable: {how}"),
            CompareVerdict::Same | CompareVerdict::Ignored => format!("`{output}`"),
        })
        .collect();
    let is_unstable = verdicts.values().any(|verdict| matches!(verdict, CompareVerdict::Different(_)));
    let outcome = if is_unstable { CheckOutcome::Drift } else { CheckOutcome::Same };
    let records = (LockRecord::of(instance, old.0), LockRecord::of(instance, new.0));
    let detail = new.1.describe_differences(&verdicts, &records.0, &old.1.store, &records.1);
    Check::new("stage", &name, outcome, sentences.join(", ")).with_detail(detail)
}
