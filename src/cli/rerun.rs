//! `pipe verify --rerun`: computes stages again and holds what comes out against the lock.

use std::collections::BTreeSet;

use super::args::VerifyArgs;
use super::exit::Failure;
use super::lock::{present, stored};
use super::project::{Project, select};
use super::trial::{Bench, Conditions, Trial, sides};
use pipe_core::digest::Digest;
use pipe_engine::lock::compare::{Verdict, class_difference, compare};
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::report::{Check, Outcome as Found};
use pipe_engine::lock::{Lock, LockedOutput, Record};
use pipe_engine::plan::{Plan, Why};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;

/// Runs what is chosen again and holds each result against the lock.
pub(super) fn rerun(
    project: &Project,
    args: &VerifyArgs,
    lock: &Lock,
    real: &Store,
    what: &[String],
) -> Result<Vec<Check>, Failure> {
    let bench = Bench::new(project, args, real)?;
    let plan = &bench.plan;
    let chosen = choose(plan, what, lock, real)?;
    let wanted = plan.with_dependencies(&chosen);
    let instances = plan.pipeline().instances.iter().zip(&wanted);
    let names: BTreeSet<String> =
        instances.filter(|(_, wanted)| **wanted).map(|(instance, _)| instance.id.to_string()).collect();
    let drifted: Vec<Check> = follow(plan, lock, &|path| present(real, path))
        .into_iter()
        .filter(|check| check.outcome != Found::Same && check.what == "stage" && names.contains(&check.name))
        .collect();
    if !drifted.is_empty() {
        let sentence = "the pipeline does not follow from the lock, so nothing was run again";
        return Ok(drifted.into_iter().map(|check| check.with_detail(sentence.to_owned())).collect());
    }
    let seeds = |index: InstanceIndex| {
        let name = plan.instance(index).id.to_string();
        lock.stages.get(&name).filter(|_| !chosen.contains(&index)).map(|record| record.key)
    };
    let trial = bench.trial("rerun", &chosen, &seeds, &Conditions::default())?;
    let mut checks = Vec::new();
    let mut differs = false;
    for &index in plan.topological().iter().filter(|index| wanted[index.0]) {
        let instance = plan.instance(index);
        let name = instance.id.to_string();
        if seeds(index).is_some() && trial.seeded.contains(&index) {
            continue;
        }
        let (Some(record), Some(manifest)) = (lock.stages.get(&name), trial.results.get(&index)) else {
            checks.push(Check::cannot_tell("stage", &name, trial.failure(&name)));
            continue;
        };
        let mut check = held_against(instance, record, manifest, real, &trial);
        if check.outcome == Found::Drift {
            let place = if differs { "differs as well" } else { "is the first to differ" };
            check.message = format!("{place}: {}", check.message);
            differs = true;
        }
        checks.push(check);
    }
    bench.end(differs);
    Ok(checks)
}

fn held_against(
    instance: &Instance,
    record: &Record,
    manifest: &Manifest,
    real: &Store,
    trial: &Trial,
) -> Check {
    let name = instance.id.to_string();
    let now = Record::of(instance, manifest);
    if now.key != record.key {
        return Check::drift("stage", &name, Why::between(&record.parts, &now.parts).to_string());
    }
    let read = |second: bool, output: &LockedOutput| {
        let store = if second { &trial.store } else { real };
        store.read(&stored(output)).ok()
    };
    let verdicts = compare(record.into(), (&now).into(), &instance.compare, &read);
    let different: Vec<(&String, &String)> = verdicts
        .iter()
        .filter_map(|(output, verdict)| match verdict {
            Verdict::Different(how) => Some((output, how)),
            _ => None,
        })
        .collect();
    if different.is_empty() {
        let within: Vec<String> = verdicts
            .iter()
            .filter_map(|(output, verdict)| match verdict {
                Verdict::WithinTolerance(how) => Some(format!("`{output}` within tolerance ({how})")),
                _ => None,
            })
            .collect();
        return Check::new("stage", &name, Found::Same, within.join(", "));
    }
    let told: Vec<String> = different.iter().map(|(output, how)| format!("`{output}` {how}")).collect();
    let message = told.join(", ");
    let detail = sides(&different, record, &now, real, trial);
    match class_difference(&record.class, &now.class) {
        Some(class) => Check::cannot_tell("stage", &name, format!("{message}; {class}")).with_detail(detail),
        None => Check::drift("stage", &name, message).with_detail(detail),
    }
}

/// `sample=K`, `budget=20m`, or stages as `pipe run` takes them; everything if nothing is said.
fn choose(plan: &Plan, what: &[String], lock: &Lock, real: &Store) -> Result<Vec<InstanceIndex>, Failure> {
    let mut stages = Vec::new();
    let (mut sample, mut budget) = (None, None);
    for word in what {
        match word.split_once('=').filter(|_| !word.contains('[')) {
            Some(("sample", count)) => {
                let bad = || Failure::bad_input(format!("`{word}`: how many? For example `sample=3`"));
                sample = Some(count.parse::<usize>().ok().filter(|count| *count > 0).ok_or_else(bad)?);
            }
            Some(("budget", time)) => {
                let bad = || Failure::bad_input(format!("`{word}`: how long? For example `budget=20m`"));
                budget = Some(seconds(time).ok_or_else(bad)?);
            }
            _ => stages.push(word.clone()),
        }
    }
    let all = || (0..plan.len()).map(InstanceIndex).collect();
    let mut chosen = if stages.is_empty() { all() } else { select(plan.pipeline(), &stages)? };
    if sample.is_none() && budget.is_none() {
        return Ok(chosen);
    }
    // Another choice every day, the same all day.
    let day = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 86_400);
    let lot = |index: &InstanceIndex| Digest::of(format!("{day} {}", plan.instance(*index).id).as_bytes());
    chosen.sort_by_cached_key(lot);
    if let Some(count) = sample {
        chosen.truncate(count);
    }
    if let Some(budget) = budget {
        let took = |index: &InstanceIndex| {
            let record = lock.stages.get(&plan.instance(*index).id.to_string());
            record.and_then(|record| real.record(record.key)).map(|manifest| manifest.seconds)
        };
        let mut left = budget;
        chosen.retain(|index| {
            let fits = took(index).is_some_and(|seconds| seconds <= left);
            left -= if fits { took(index).unwrap_or(0.0) } else { 0.0 };
            fits
        });
        if chosen.is_empty() {
            return Err(Failure::bad_input("no stage is known to fit into the budget; give it more time"));
        }
    }
    chosen.sort_unstable();
    Ok(chosen)
}

fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_a_unit() {
        assert_eq!(
            ["20m", "90s", "1.5h", "7"].map(seconds),
            [Some(1200.0), Some(90.0), Some(5400.0), Some(7.0)]
        );
        assert_eq!(["", "m", "3 weeks"].map(seconds), [None; 3]);
    }
}
