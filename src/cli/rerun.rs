//! `pipe verify --rerun` and `--twice`: computes again, in stores of its own, and compares. Neither
//! the lock nor the cache is written to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::args::VerifyArgs;
use super::console::{Console, Style};
use super::data_files;
use super::exit::{Exit, Failure};
use super::lock::{present, stored};
use super::project::{Project, select};
use super::run::stop_on_signals;
use crate::digest::{Digest, StageKey};
use crate::lock::compare::{Verdict, class_difference, compare};
use crate::lock::difference::difference;
use crate::lock::follow::follow;
use crate::lock::report::{Check, Outcome as Found};
use crate::lock::{Lock, LockedOutput, Record};
use crate::plan::{Plan, Why};
use crate::runner::event::Event;
use crate::runner::local::{LocalProcess, Programs};
use crate::runner::{self, Options, Outlook, RunError, Stop, survey};
use crate::spec::pipeline::{Instance, InstanceIndex};
use crate::stage::command;
use crate::store::Store;
use crate::store::manifest::Manifest;

/// Runs what is chosen again and holds each result against the lock.
pub fn rerun(
    project: &Project,
    args: &VerifyArgs,
    lock: &Lock,
    real: &Store,
    what: &[String],
) -> Result<Vec<Check>, Failure> {
    let bench = Bench::new(project, args, real)?;
    let plan = &bench.plan;
    let chosen = choose(plan, what, lock, real)?;
    let wanted = plan.only(&chosen);
    let is_wanted = |name: &String| {
        let instances = plan.pipeline().instances.iter().zip(&wanted);
        instances.into_iter().any(|(instance, &wanted)| wanted && instance.id.to_string() == *name)
    };
    let drifted: Vec<Check> = follow(plan, lock, &|path| present(real, path))
        .into_iter()
        .filter(|check| check.outcome != Found::Same && check.what == "stage" && is_wanted(&check.name))
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

/// Where both versions can be looked at, and what differs where that can be shown.
fn sides(
    different: &[(&String, &String)],
    record: &Record,
    now: &Record,
    real: &Store,
    trial: &Trial,
) -> String {
    let mut lines = String::new();
    for (output, _) in different {
        let (Some(old), Some(new)) = (record.outputs.get(*output), now.outputs.get(*output)) else {
            continue;
        };
        let views = trial.directory.join("views");
        let locked = real.artifact(&stored(old), &views.join("locked"));
        let again = trial.store.artifact(&stored(new), &views.join("again"));
        let shown = |path: Result<PathBuf, _>| match path {
            Ok(path) => path.display().to_string(),
            Err(_) => "no longer in the cache".to_owned(),
        };
        lines.push_str(&format!("{output}: {}\n", shown(locked)));
        lines.push_str(&format!("{output} again: {}\n", shown(again)));
        let small = |output: &LockedOutput| !output.directory && output.bytes < 1 << 20;
        if small(old)
            && small(new)
            && let (Ok(old), Ok(new)) = (real.read(&stored(old)), trial.store.read(&stored(new)))
        {
            lines.push_str(&difference(&old, &new).unwrap_or_default());
        }
    }
    lines
}

/// Runs everything twice under conditions that must not matter, and says how equal each output is.
pub fn twice(
    project: &Project,
    args: &VerifyArgs,
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
    let cached = |index: InstanceIndex| match &outlooks[index.0] {
        Outlook::Fresh(manifest) if !chosen.contains(&index) => Some(manifest.key),
        _ => None,
    };
    let most = plan.pipeline().instances.iter().map(|instance| instance.resources.cpu).max().unwrap_or(1);
    let plain = Conditions { jobs: Some(1), ..Conditions::default() };
    let perturbed = Conditions { jobs: Some(bench.jobs.max(2)), threads: Some(most + 1), perturbed: true };
    let first = bench.trial("first", &chosen, &cached, &plain)?;
    // Another directory, with a longer name and a space in it.
    let second = bench.trial("second run, elsewhere", &chosen, &cached, &perturbed)?;
    let wanted = plan.only(&chosen);
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

/// What differs between two runs, none of which may matter.
#[derive(Clone, Copy, Default)]
struct Conditions {
    jobs: Option<usize>,
    threads: Option<usize>,
    perturbed: bool,
}

/// A run in a store of its own.
struct Trial {
    directory: PathBuf,
    store: Store,
    results: BTreeMap<InstanceIndex, Manifest>,
    /// What was taken over rather than computed.
    seeded: BTreeSet<InstanceIndex>,
    failures: BTreeMap<String, String>,
}

impl Trial {
    fn failure(&self, instance: &str) -> String {
        match self.failures.get(instance) {
            Some(error) => format!("it could not be computed again: {error}"),
            None => "it was not computed again, because something that it needs was not".to_owned(),
        }
    }
}

struct Bench<'a> {
    project: &'a Project,
    real: &'a Store,
    plan: Plan,
    jobs: usize,
    stop: Stop,
    root: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    fn new(project: &'a Project, args: &VerifyArgs, real: &'a Store) -> Result<Self, Failure> {
        let mut pipeline = project.load(&args.file, &[])?;
        // What is computed for a comparison is nobody's result.
        pipeline.placements.clear();
        // Where the data is not here, results of the cache may do; a stage that needs it says so.
        data_files::find(&mut pipeline, &project.data_dir);
        let plan = Plan::new(pipeline).map_err(|cycle| Failure::bad_input(cycle.to_string()))?;
        let parent = args.scratch.clone().unwrap_or_else(|| project.cache_dir.clone());
        let make = || {
            std::fs::create_dir_all(&parent)?;
            tempfile::Builder::new().prefix("verify-").tempdir_in(&parent)
        };
        let root = make().map_err(|error| {
            Failure::bad_input(format!(
                "cannot make a directory in {}: {error}; try --scratch",
                parent.display()
            ))
        })?;
        let stop = Stop::new();
        stop_on_signals(&stop)?;
        let jobs = args.jobs.unwrap_or_else(|| Options::default().jobs);
        Ok(Self { project, real, plan, jobs, stop, root })
    }

    fn trial(
        &self,
        label: &str,
        targets: &[InstanceIndex],
        seeds: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
    ) -> Result<Trial, Failure> {
        self.trial_from(label, targets, seeds, conditions, self.real)
    }

    fn trial_from(
        &self,
        label: &str,
        targets: &[InstanceIndex],
        seeds: &dyn Fn(InstanceIndex) -> Option<StageKey>,
        conditions: &Conditions,
        from: &Store,
    ) -> Result<Trial, Failure> {
        let directory = self.root.path().join(label);
        let store = Store::open(&directory)?;
        let wanted = self.plan.only(targets);
        let mut seeded = BTreeSet::new();
        for &index in self.plan.topological().iter().filter(|index| wanted[index.0]) {
            if let Some(key) = seeds(index)
                && store.adopt(key, from)?.is_some()
            {
                seeded.insert(index);
            }
        }
        let options = Options {
            jobs: conditions.jobs.unwrap_or(self.jobs),
            threads: conditions.threads,
            last_first: conditions.perturbed,
            keep_going: true,
            targets: Some(targets.to_vec()),
            ..Options::default()
        };
        let mut executor =
            LocalProcess::new(Programs { pipe: std::env::current_exe()?, command: command::argv });
        if conditions.perturbed {
            executor = executor.perturbed();
        }
        let failures = self.run(&store, &executor, &options, label)?;
        let mut results = BTreeMap::new();
        for (index, outlook) in survey(&self.plan, &store, &options).into_iter().enumerate() {
            if let Outlook::Fresh(manifest) = outlook {
                results.insert(InstanceIndex(index), *manifest);
            }
        }
        Ok(Trial { directory, store, results, seeded, failures })
    }

    fn run(
        &self,
        store: &Store,
        executor: &LocalProcess,
        options: &Options,
        label: &str,
    ) -> Result<BTreeMap<String, String>, Failure> {
        self.project.status(&format!("verify: {label}"));
        let mut console = Console::new(Style::Lines, self.project.verbosity, self.project.paint);
        let mut failures = BTreeMap::new();
        let summary = runner::run(&self.plan, store, executor, options, &self.stop, &mut |event| {
            if let Event::Failed { instance, error, will_retry: false, .. } = &event {
                failures.insert(instance.clone(), error.clone());
            }
            console.show(&event);
        });
        let summary = summary.map_err(|error| match error {
            RunError::Store(error) => Failure::from(error),
            other => Failure::bad_input(other.to_string()),
        })?;
        if summary.interrupted {
            return Err(Failure::new(Exit::Interrupted, "interrupted; nothing was compared"));
        }
        Ok(failures)
    }

    /// Both sides of a difference stay for whoever wants to look at them.
    fn end(self, keep: bool) {
        if keep {
            let kept: &Path = &self.root.keep();
            self.project.status(&format!("both sides are kept for you to look at: {}", kept.display()));
        }
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
