//! `pipe verify`: whether what is published still follows from code, parameters and data.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use rayon::prelude::*;
use serde_json::json;

use super::args::VerifyArgs;
use super::exit::{Exit, Failure, Outcome};
use super::lock::{parsed, planned, present, stored};
use super::project::Project;
use super::{print_json, print_text, text};
use super::{rerun, twice};
use pipe_core::digest::BlobId;
use pipe_engine::lock::difference::difference;
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::junit::junit;
use pipe_engine::lock::report::{Check, Outcome as Found, Report};
use pipe_engine::lock::{Lock, path_of};
use pipe_engine::plan::Plan;
use pipe_engine::runner::local::worker_program;
use pipe_engine::store::manifest::Stored;
use pipe_engine::store::{Condition, Store};

pub(super) fn verify(project: &Project, args: &VerifyArgs) -> Outcome {
    let plan = planned(project, &args.file)?;
    let store = project.store_to_read()?;
    let mut report = Report::default();
    let wants_lock = args.lock || (!args.cache && args.rerun.is_none() && args.twice.is_none());
    if wants_lock || args.cache || args.rerun.is_some() {
        match locked(&plan) {
            Err(missing) => report.checks.push(missing),
            Ok(lock) => {
                if wants_lock {
                    report.checks.extend(static_checks(&plan, &lock, &store));
                }
                if args.cache {
                    report.checks.extend(cache_checks(&lock, &store));
                }
                if let Some(what) = &args.rerun {
                    report.checks.extend(rerun::rerun(project, args, &lock, &store, what)?);
                }
            }
        }
    }
    if let Some(what) = &args.twice {
        report.checks.extend(twice::twice(project, args, locked(&plan).ok().as_ref(), &store, what)?);
    }
    if let Some(path) = &args.junit {
        let xml = junit(&report, &args.file.display().to_string());
        let complain = |error| Failure::bad_input(format!("cannot write {}: {error}", path.display()));
        std::fs::write(path, xml).map_err(complain)?;
    }
    if args.json {
        print_json(&json!({ "outcome": report.outcome(), "checks": report.checks }))?;
    } else {
        print_text(&told(project, args, &report))?;
    }
    Ok(match report.outcome() {
        Found::Same | Found::NotChecked => Exit::Done,
        Found::Drift => Exit::StageFailed,
        Found::CannotTell => Exit::BadInput,
        Found::Damage => Exit::CacheDamage,
    })
}

fn locked(plan: &Plan) -> Result<Lock, Check> {
    let file = &plan.pipeline().file;
    let path = path_of(file);
    let cannot = |message: String| Check::cannot_tell("lock", &path.display().to_string(), message);
    match parsed(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(cannot(format!("there is none; `pipe lock {}` writes it", file.display()))),
        Err(flaw) => Err(cannot(format!("it cannot be read: {flaw}"))),
    }
}

/// Without data and without the cache: the pipeline gives the recorded keys, and the files that are
/// here are the recorded ones.
pub(super) fn static_checks(plan: &Plan, lock: &Lock, store: &Store) -> Vec<Check> {
    let mut checks = follow(plan, lock, &|path| present(store, path));
    let told: Vec<String> =
        checks.iter().filter(|check| check.what == "file").map(|c| c.name.clone()).collect();
    for (path, &blob) in lock.placed.iter().filter(|(path, _)| !told.contains(path)) {
        checks.push(placed_file(path, blob, lock, store));
    }
    checks.extend(other_libtorch(lock));
    checks
}

fn placed_file(path: &str, blob: BlobId, lock: &Lock, store: &Store) -> Check {
    let file = Path::new(path);
    if file.symlink_metadata().is_err() {
        return Check::new("file", path, Found::NotChecked, "it is not here");
    }
    let found = match store.digest_source(file) {
        Ok(source) if source.blob == blob => return Check::same("file", path),
        Ok(source) => source,
        Err(error) => return Check::cannot_tell("file", path, error.to_string()),
    };
    let outputs = lock
        .stages
        .iter()
        .flat_map(|(name, record)| record.outputs.iter().map(move |(output, locked)| (name, output, locked)));
    let (from, directory) = match outputs.into_iter().find(|(_, _, locked)| locked.stored.blob == blob) {
        Some((stage, output, locked)) => {
            (format!("the output `{output}` of `{stage}`"), locked.stored.directory)
        }
        None => ("what the lock records".to_owned(), false),
    };
    let message = format!("it is not {from}: it was edited, or is from another run");
    let shown = || {
        let original = store.read(&Stored { blob, bytes: 0, directory }).ok()?;
        difference(&original, &std::fs::read(file).ok()?)
    };
    let detail = if directory || found.directory { None } else { shown() };
    Check::drift("file", path, message).with_detail(detail.unwrap_or_default())
}

/// A result of another libtorch may be the same, but nothing here can tell. Asks the worker only if
/// the lock has such results, because its start takes a while.
fn other_libtorch(lock: &Lock) -> Option<Check> {
    let mut with_libtorch =
        lock.stages.iter().filter_map(|(name, record)| Some((name, record.class.word("libtorch")?)));
    let mut first = with_libtorch.next()?;
    let ours = worker_libtorch()?;
    while first.1 == ours {
        first = with_libtorch.next()?;
    }
    let (name, theirs) = first;
    Some(Check::cannot_tell(
        "stage",
        name,
        format!(
            "it was computed with libtorch {theirs}, and this worker has {ours}; `pipe verify --rerun` tells"
        ),
    ))
}

fn worker_libtorch() -> Option<String> {
    let program = worker_program(&std::env::current_exe().ok()?)?;
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_once("libtorch ")?.1;
    Some(version.split([',', ')', ' ']).next()?.to_owned())
}

/// Reads and hashes all that the lock names.
fn cache_checks(lock: &Lock, store: &Store) -> Vec<Check> {
    let records: Vec<_> = lock.stages.iter().collect();
    let check = |(name, record): &(&String, &pipe_engine::lock::Record)| {
        let (condition, manifest) = store.examine(record.key);
        match condition {
            Condition::Damaged(what) => Check::new("cache", name, Found::Damage, what),
            Condition::Missing(what) => Check::cannot_tell("cache", name, what),
            Condition::Sound => {
                let manifest = manifest.as_ref();
                let other = record.outputs.iter().find(|(output, locked)| {
                    manifest.and_then(|manifest| manifest.outputs.get(*output)) != Some(&stored(locked))
                });
                match other {
                    None => Check::same("cache", name),
                    Some((output, _)) => Check::drift(
                        "cache",
                        name,
                        format!("the cache has another `{output}` under the same key than the lock records"),
                    ),
                }
            }
        }
    };
    records.par_iter().map(check).collect()
}

fn told(project: &Project, args: &VerifyArgs, report: &Report) -> String {
    let paint = project.paint_out;
    let mut out = String::new();
    for check in &report.checks {
        let word = match check.outcome {
            Found::Same if check.message.is_empty() && !project.is_verbose() => continue,
            Found::NotChecked if !project.is_verbose() => continue,
            Found::Same => paint.green("same"),
            Found::NotChecked => paint.dim("not checked"),
            Found::CannotTell => paint.yellow("cannot tell"),
            Found::Drift => paint.red("drift"),
            Found::Damage => paint.red("damage"),
        };
        let colon = if check.message.is_empty() { "" } else { ": " };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{word}  {}{colon}{}", check.name, check.message);
        for line in check.detail.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    let count = |outcome| report.count(outcome);
    let mut counts = vec![format!("{} same", count(Found::Same))];
    let others =
        [(Found::Drift, "drifted"), (Found::Damage, "damaged"), (Found::CannotTell, "cannot be told")];
    for (outcome, word) in others.into_iter().chain([(Found::NotChecked, "not here")]) {
        if count(outcome) > 0 {
            counts.push(format!("{} {word}", count(outcome)));
        }
    }
    let checks = text::count(report.checks.len(), "check");
    let _ = writeln!(out, "{}: {checks}: {}", args.file.display(), counts.join(", "));
    out
}
