//! `pipe verify --rerun`: computes stages again and compares the results with the lock.

use std::collections::BTreeSet;

use crate::cli::args::VerifyArgs;
use crate::cli::exit::Failure;
use crate::cli::lock::input_content;
use crate::cli::project::{Project, select};
use crate::cli::sandbox::{Conditions, SandboxRun, different};
use pipe_core::digest::Digest;
use pipe_engine::lock::compare::{CompareVerdict, class_difference};
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::report::{Check, CheckOutcome};
use pipe_engine::lock::{Lock, LockRecord};
use pipe_engine::plan::{Plan, Why};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::Store;
use pipe_engine::store::manifest::Manifest;

/// Computes the selected stages again and compares each result with the lock.
pub(super) fn rerun(
    project: &Project,
    args: &VerifyArgs,
    lock: &Lock,
    cache: &Store,
    selection: &[String],
) -> Result<Vec<Check>, Failure> {
    let sandbox = super::sandbox(project, args, cache)?;
    let plan = &sandbox.plan;
    let chosen = Selection::parse(selection)?.instances(plan, lock, cache)?;
    let wanted = plan.with_dependencies(&chosen);
    let drifted = drifted_stages(plan, &wanted, lock, cache);
    if !drifted.is_empty() {
        let sentence = "the pipeline no longer matches the lock, so nothing was run again";
        return Ok(drifted.into_iter().map(|check| check.with_detail(sentence.to_owned())).collect());
    }
    let known = |index: InstanceIndex| {
        let name = plan.instance(index).id.to_string();
        lock.stages.get(&name).filter(|_| !chosen.contains(&index)).map(|record| record.key)
    };
    let run = sandbox.run("rerun", &chosen, &known, &Conditions::default())?;
    let mut checks = Vec::new();
    let mut differs = false;
    for &index in plan.topological().iter().filter(|index| wanted[index.0]) {
        let instance = plan.instance(index);
        let name = instance.id.to_string();
        if run.copied.contains(&index) {
            continue;
        }
        let (Some(record), Some(manifest)) = (lock.stages.get(&name), run.results.get(&index)) else {
            checks.push(Check::cannot_tell("stage", &name, run.failure(&name)));
            continue;
        };
        let mut check = compare_with_lock(instance, record, manifest, cache, &run);
        if check.outcome == CheckOutcome::Drift {
            let order = if differs { "differs as well" } else { "is the first to differ" };
            check.message = format!("{order}: {}", check.message);
            differs = true;
        }
        checks.push(check);
    }
    sandbox.finish(differs);
    Ok(checks)
}

/// Returns a check for each wanted stage whose key is no longer the one in the lock.
fn drifted_stages(plan: &Plan, wanted: &[bool], lock: &Lock, cache: &Store) -> Vec<Check> {
    let instances = plan.pipeline().instances.iter().zip(wanted);
    let names: BTreeSet<String> =
        instances.filter(|(_, wanted)| **wanted).map(|(instance, _)| instance.id.to_string()).collect();
    let checks = follow(plan, lock, &|path| input_content(cache, path)).into_iter();
    checks
        .filter(|check| check.outcome != CheckOutcome::Same && check.what == "stage")
        .filter(|check| names.contains(&check.name))
        .collect()
}

fn compare_with_lock(
    instance: &Instance,
    record: &LockRecord,
    manifest: &Manifest,
    cache: &Store,
    run: &SandboxRun,
) -> Check {
    let name = instance.id.to_string();
    let new = LockRecord::of(instance, manifest);
    if new.key != record.key {
        return Check::drift("stage", &name, Why::between(&record.parts, &new.parts).to_string());
    }
    let verdicts = run.compare(instance, record, cache, &new);
    let differences: Vec<String> =
        different(&verdicts).map(|(output, how)| format!("`{output}` {how}")).collect();
    if differences.is_empty() {
        let within: Vec<String> = verdicts
            .iter()
            .filter_map(|(output, verdict)| match verdict {
                CompareVerdict::WithinTolerance(how) => Some(format!("`{output}` within tolerance ({how})")),
                _ => None,
            })
            .collect();
        return Check::new("stage", &name, CheckOutcome::Same, within.join(", "));
    }
    let message = differences.join(", ");
    let detail = run.describe_differences(&verdicts, record, cache, &new);
    match class_difference(&record.class, &new.class) {
        Some(class) => Check::cannot_tell("stage", &name, format!("{message}; {class}")).with_detail(detail),
        None => Check::drift("stage", &name, message).with_detail(detail),
    }
}

/// Which stages to compute again: stages as `pipe run` takes them, `sample=K`, `budget=20m`.
#[derive(Debug, Default, PartialEq)]
struct Selection {
    /// Every stage if empty.
    stages: Vec<String>,
    sample: Option<usize>,
    budget_seconds: Option<f64>,
}

impl Selection {
    fn parse(words: &[String]) -> Result<Self, Failure> {
        let mut selection = Self::default();
        for word in words {
            match word.split_once('=').filter(|_| !word.contains('[')) {
                Some(("sample", count)) => {
                    let count = count.parse::<usize>().ok().filter(|count| *count > 0);
                    let bad = || format!("`{word}`: the number of stages is expected, as in `sample=3`");
                    selection.sample = Some(count.ok_or_else(|| Failure::bad_input(bad()))?);
                }
                Some(("budget", time)) => {
                    let bad = || format!("`{word}`: a duration is expected, as in `budget=20m`");
                    let seconds = seconds(time).ok_or_else(|| Failure::bad_input(bad()))?;
                    selection.budget_seconds = Some(seconds);
                }
                Some((name, value)) => {
                    let hint = pipe_core::suggest::closest(name, ["sample", "budget"]);
                    let hint = hint.map(|hint| format!("; did you mean `{hint}={value}`?"));
                    return Err(Failure::bad_input(format!(
                        "`{word}` is neither a stage nor `sample=K` nor `budget=TIME`{}",
                        hint.unwrap_or_default()
                    )));
                }
                None => selection.stages.push(word.clone()),
            }
        }
        Ok(selection)
    }

    fn instances(&self, plan: &Plan, lock: &Lock, cache: &Store) -> Result<Vec<InstanceIndex>, Failure> {
        let mut chosen = if self.stages.is_empty() {
            (0..plan.len()).map(InstanceIndex).collect()
        } else {
            select(plan.pipeline(), &self.stages)?
        };
        if self.sample.is_none() && self.budget_seconds.is_none() {
            return Ok(chosen);
        }
        // The order is random but the same all day, so that repeated CI jobs agree.
        let day = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / 86_400);
        chosen
            .sort_by_cached_key(|index| Digest::of(format!("{day} {}", plan.instance(*index).id).as_bytes()));
        if let Some(count) = self.sample {
            chosen.truncate(count);
        }
        if let Some(budget) = self.budget_seconds {
            let seconds_of = |index: &InstanceIndex| {
                let record = lock.stages.get(&plan.instance(*index).id.to_string());
                record.and_then(|record| cache.record(record.key)).map(|manifest| manifest.seconds)
            };
            let mut left = budget;
            chosen.retain(|index| match seconds_of(index) {
                Some(seconds) if seconds <= left => {
                    left -= seconds;
                    true
                }
                _ => false,
            });
            if chosen.is_empty() {
                return Err(Failure::bad_input(
                    "no stage is known to fit into the budget; give it more time",
                ));
            }
        }
        chosen.sort_unstable();
        Ok(chosen)
    }
}

/// Parses a duration such as `90s`, `20m`, `1.5h`; without a unit, seconds.
pub(in crate::cli) fn seconds(text: &str) -> Option<f64> {
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

    fn parsed(words: &[&str]) -> Result<Selection, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selection::parse(&words).map_err(|failure| failure.text)
    }

    #[test]
    fn a_budget_has_a_unit() {
        assert_eq!(
            ["20m", "90s", "1.5h", "7"].map(seconds),
            [Some(1200.0), Some(90.0), Some(5400.0), Some(7.0)]
        );
        assert_eq!(["", "m", "3 weeks"].map(seconds), [None; 3]);
    }

    #[test]
    fn stages_samples_and_budgets_can_be_combined() {
        let stages = vec!["fit[seed=1]".to_owned(), "table".to_owned()];
        let expected = Selection { stages, sample: Some(2), budget_seconds: Some(60.0) };
        assert_eq!(parsed(&["fit[seed=1]", "sample=2", "budget=1m", "table"]), Ok(expected));
    }

    #[test]
    fn a_mistyped_selection_is_refused_with_a_suggestion() {
        assert!(parsed(&["sampel=3"]).unwrap_err().contains("did you mean `sample=3`?"));
        assert!(parsed(&["sample=0"]).unwrap_err().contains("as in `sample=3`"));
        assert!(parsed(&["budget=soon"]).unwrap_err().contains("as in `budget=20m`"));
        assert!(parsed(&["seed=3"]).unwrap_err().contains("neither a stage nor"));
    }
}
