//! `pipe verify`: checks whether published results still follow from code, parameters and data.

mod published;
pub(super) mod rerun;
mod twice;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;

use rayon::prelude::*;
use serde_json::json;

use super::args::VerifyArgs;
use super::claims;
use super::data_files::MissingDataFiles;
use super::exit::{Exit, Failure, Outcome};
use super::lock::{find, input_content, parsed};
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project};
use super::sandbox::Sandbox;
use super::{print_json, print_text, remote, text, witness};
use pipe_core::captured::captured;
use pipe_core::digest::BlobId;
use pipe_core::paint::Paint;
use pipe_engine::lock::difference::difference;
use pipe_engine::lock::follow::follow;
use pipe_engine::lock::junit::junit;
use pipe_engine::lock::report::{Check, CheckOutcome, VerifyReport};
use pipe_engine::lock::{Lock, LockRecord, path_of};
use pipe_engine::plan::Plan;
use pipe_engine::runner::libtorch::Worker;
use pipe_engine::spec::pipeline::{InputSource, Instance};
use pipe_engine::store::manifest::Stored;
use pipe_engine::store::{Condition, Store};
use pipe_stages::claim::Claim;

/// Runs `pipe verify`.
pub(super) fn verify(project: &Project, args: &VerifyArgs) -> Outcome {
    let selection = PipelineSelection::of_file(&args.file);
    let Opened { plan, store, missing_data, .. } = project.open(&selection, &[])?.find_data(project);
    let missing = match (args.strict, args.allow_missing) {
        (true, _) => CheckOutcome::Drift,
        (false, true) => CheckOutcome::NotChecked,
        (false, false) => CheckOutcome::CannotTell,
    };
    let mut report = VerifyReport::default();
    let wants_lock =
        args.lock || (!args.cache && !args.remote && args.rerun.is_none() && args.twice.is_none());
    if wants_lock || args.cache || args.remote || args.rerun.is_some() {
        match read_lock(&plan) {
            Err(missing) => report.checks.push(missing),
            Ok(lock) => {
                let checks = follow(&plan, &lock, &|path| input_content(&store, path));
                let (mut stages, files): (Vec<Check>, Vec<Check>) =
                    checks.into_iter().partition(|check| check.what == "stage");
                if wants_lock {
                    for (check, &index) in stages.iter_mut().zip(plan.topological()) {
                        if check.outcome == CheckOutcome::Same
                            && let Some(record) = lock.stages.get(&check.name)
                            && let Some(unknown) =
                                unknown_input(plan.instance(index), record, &store, &missing_data, missing)
                        {
                            *check = unknown;
                        }
                    }
                    report.checks.append(&mut stages);
                    report.checks.extend(check_libtorch(&lock));
                    report.checks.extend(witness::check(project, &plan, &lock)?);
                }
                report.checks.extend(unmet_expectations(&plan, &lock));
                report.checks.extend(placed_checks(&plan, &lock, &store, missing, files));
                // Nothing accepts that a declared directory is missing.
                let missing = missing.max(CheckOutcome::CannotTell);
                report.checks.extend(published::check_published_files(&plan, &lock, &store, missing));
                if args.cache {
                    report.checks.extend(cache_checks(&lock, &store));
                }
                if args.remote {
                    report.checks.extend(remote::compare_writers(project, &plan, &lock)?);
                }
                if let Some(selection) = &args.rerun {
                    report.checks.extend(rerun::rerun(project, args, &lock, &store, selection)?);
                }
            }
        }
    }
    if let Some(selection) = &args.twice {
        let lock = read_lock(&plan).ok();
        report.checks.extend(twice::twice(project, args, lock.as_ref(), &store, selection)?);
    }
    if let Some(path) = &args.junit {
        let xml = junit(&report, &args.file.display().to_string());
        std::fs::write(path, xml)
            .map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", path.display())))?;
    }
    if args.json {
        print_json(&json!({ "outcome": report.outcome(), "checks": report.checks }))?;
    } else {
        let found = render(&report, &args.file, project.is_verbose(), project.paint_out);
        print_text(&format!("{}{found}", recorded_claims(&plan, &store, project.paint_out)))?;
    }
    Ok(match report.outcome() {
        CheckOutcome::Same | CheckOutcome::NotChecked => Exit::Done,
        CheckOutcome::Drift | CheckOutcome::Undeclared => Exit::StageFailed,
        CheckOutcome::CannotTell => Exit::BadInput,
        CheckOutcome::Damage => Exit::CacheDamage,
    })
}

/// Returns a sandbox to compute stages of the pipeline again.
fn sandbox<'a>(project: &'a Project, args: &VerifyArgs, cache: &'a Store) -> Result<Sandbox<'a>, Failure> {
    let selection = PipelineSelection::of_file(&args.file);
    // If data is missing, cached results may be enough; a stage that needs the data fails.
    let opened = project.open(&selection, &[])?.find_data(project);
    let parent = args.scratch.as_deref().unwrap_or(&project.cache_dir);
    Sandbox::new(project, opened.plan.for_comparison(), cache, parent, args.jobs).map_err(|mut failure| {
        failure.text.push_str("; choose another place with `--scratch DIR`");
        failure
    })
}

/// Reads the lock of a pipeline; a lock that is missing or unreadable is an undetermined check.
fn read_lock(plan: &Plan) -> Result<Lock, Check> {
    let file = &plan.pipeline().file;
    let path = path_of(file);
    let undetermined = |message: String| Check::cannot_tell("lock", &path.display().to_string(), message);
    match parsed(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(undetermined(format!("there is no lock; `pipe lock {}` writes it", file.display()))),
        Err(flaw) => Err(undetermined(format!("it cannot be read: {flaw}"))),
    }
}

/// Returns what is not known about a stage that matches its record: a file that it reads is missing or cannot be read.
/// The registry knows the content of most data files, so those need not be here.
fn unknown_input(
    instance: &Instance,
    record: &LockRecord,
    store: &Store,
    missing_data: &MissingDataFiles,
    missing: CheckOutcome,
) -> Option<Check> {
    let name = instance.id.to_string();
    for input in &instance.inputs {
        for source in &input.sources {
            let InputSource::File(path) = source else { continue };
            match find(store, path) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let recorded = record.parts.get(&format!("inputs.{}", input.slot));
                    let registered = missing_data.get(path).and_then(|file| file.registered);
                    if registered.is_none_or(|blob| recorded != Some(&blob.to_string())) {
                        let message = format!("it reads `{}`, which is missing", path.display());
                        return Some(Check::new("stage", &name, missing, message));
                    }
                }
                Err(error) => return Some(Check::cannot_tell("stage", &name, error.to_string())),
            }
        }
    }
    None
}

/// Returns a check for each recorded metric that is not what the pipeline expects.
pub(super) fn unmet_expectations(plan: &Plan, lock: &Lock) -> Vec<Check> {
    let mut checks = Vec::new();
    for instance in &plan.pipeline().instances {
        let name = instance.id.to_string();
        let Some(record) = lock.stages.get(&name) else { continue };
        let violations = instance.expect.violations(&record.metrics);
        checks.extend(violations.into_iter().map(|violation| Check::drift("metric", &name, violation)));
    }
    checks
}

/// Returns what the claims say whose verdicts the lock records and the cache has.
fn recorded_claims(plan: &Plan, store: &Store, paint: Paint) -> String {
    let Ok(lock) = read_lock(plan) else { return String::new() };
    let claims = plan.pipeline().instances.iter().filter(|instance| claims::is_claim(instance));
    let verdicts: Vec<(&Instance, Stored)> = claims
        .filter_map(|instance| {
            let record = lock.stages.get(&instance.id.to_string())?;
            Some((instance, record.outputs.get(Claim::VERDICT.name())?.stored))
        })
        .collect();
    claims::sentences(store, verdicts.iter().map(|(instance, stored)| (*instance, stored)), paint)
}

/// Checks that placed files have the recorded content. `known` are findings about their lines in the lock.
fn placed_checks(
    plan: &Plan,
    lock: &Lock,
    store: &Store,
    missing: CheckOutcome,
    known: Vec<Check>,
) -> Vec<Check> {
    // The published copies are what readers see; the placed files are then only working copies.
    let missing = if plan.pipeline().published.is_some() { CheckOutcome::NotChecked } else { missing };
    let found: BTreeSet<String> = known.iter().map(|check| check.name.clone()).collect();
    let unknown = lock.placed.iter().filter(|(path, _)| !found.contains(*path));
    let contents = unknown.map(|(path, &blob)| check_placed_file(path, blob, lock, store, missing));
    known.into_iter().chain(contents).collect()
}

fn check_placed_file(path: &str, blob: BlobId, lock: &Lock, store: &Store, missing: CheckOutcome) -> Check {
    let file = Path::new(path);
    if let Err(error) = file.symlink_metadata()
        && error.kind() == ErrorKind::NotFound
    {
        return Check::new("file", path, missing, "it is missing");
    }
    let found = match store.digest_user_file(file) {
        Ok(source) if source.blob == blob => return Check::same("file", path),
        Ok(source) => source,
        Err(error) => return Check::cannot_tell("file", path, error.to_string()),
    };
    let outputs = lock
        .stages
        .iter()
        .flat_map(|(name, record)| record.outputs.iter().map(move |(output, locked)| (name, output, locked)));
    let (expected, directory) = match outputs.into_iter().find(|(_, _, locked)| locked.stored.blob == blob) {
        Some((stage, output, locked)) => {
            (format!("the output `{output}` of `{stage}`"), locked.stored.directory)
        }
        None => ("what the lock records".to_owned(), false),
    };
    let message = format!("it is not {expected}: it was edited, or comes from another run");
    let detail = if directory || found.directory {
        None
    } else {
        let original = store.read(&Stored { blob, bytes: 0, directory }).ok();
        original.and_then(|original| difference(&original, &std::fs::read(file).ok()?))
    };
    Check::drift("file", path, message).with_detail(detail.unwrap_or_default())
}

/// Returns a check if the lock has a result of another libtorch, which may or may not be the same with this one.
///
/// Starts the worker, which takes a while, only if the lock has results of libtorch at all.
fn check_libtorch(lock: &Lock) -> Option<Check> {
    let mut with_libtorch = lock
        .stages
        .iter()
        .filter_map(|(name, record)| Some((name, record.class.word("libtorch")?)))
        .peekable();
    with_libtorch.peek()?;
    let ours = worker_libtorch()?;
    let (name, theirs) = with_libtorch.find(|(_, theirs)| *theirs != ours)?;
    Some(Check::cannot_tell(
        "stage",
        name,
        format!(
            "it was computed with libtorch {theirs}, and this worker has {ours}; \
             `pipe verify --rerun` computes it again and compares"
        ),
    ))
}

fn worker_libtorch() -> Option<String> {
    let worker = Worker::find(&std::env::current_exe().ok()?).ok()?;
    let output = captured(worker.command().arg("--version")).ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_once("libtorch ")?.1;
    Some(version.split([',', ')', ' ']).next()?.to_owned())
}

/// Reads and hashes everything in the cache that the lock names.
fn cache_checks(lock: &Lock, store: &Store) -> Vec<Check> {
    let records: Vec<(&String, &LockRecord)> = lock.stages.iter().collect();
    records.par_iter().map(|(name, record)| check_cached(name, record, store)).collect()
}

fn check_cached(name: &str, record: &LockRecord, store: &Store) -> Check {
    let (condition, manifest) = store.examine(record.key);
    match condition {
        Condition::Damaged(what) => Check::new("cache", name, CheckOutcome::Damage, what),
        Condition::Missing(what) => Check::cannot_tell("cache", name, what),
        Condition::Sound => {
            let cached =
                |output: &String| manifest.as_ref().and_then(|manifest| manifest.outputs.get(output));
            let differing =
                record.outputs.iter().find(|(output, locked)| cached(output) != Some(&locked.stored));
            match differing {
                None => Check::same("cache", name),
                Some((output, _)) => Check::drift(
                    "cache",
                    name,
                    format!("the cache has another `{output}` than the lock records under the same key"),
                ),
            }
        }
    }
}

/// Returns the report for the terminal: one line per check that found something, and a summary.
fn render(report: &VerifyReport, file: &Path, verbose: bool, paint: Paint) -> String {
    let mut out = String::new();
    for check in &report.checks {
        let word = match check.outcome {
            CheckOutcome::Same if check.message.is_empty() && !verbose => continue,
            CheckOutcome::NotChecked if !verbose => continue,
            CheckOutcome::Same => paint.green("same"),
            CheckOutcome::NotChecked => paint.dim("not checked"),
            CheckOutcome::CannotTell => paint.yellow("undetermined"),
            CheckOutcome::Undeclared => paint.red("undeclared"),
            CheckOutcome::Drift => paint.red("drift"),
            CheckOutcome::Damage => paint.red("damage"),
        };
        let colon = if check.message.is_empty() { "" } else { ": " };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{word}  {}{colon}{}", check.name, check.message);
        for line in check.detail.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    let mut counts = vec![format!("{} same", report.count(CheckOutcome::Same))];
    let others = [
        (CheckOutcome::Drift, "drifted"),
        (CheckOutcome::Undeclared, "with undeclared inputs"),
        (CheckOutcome::Damage, "damaged"),
        (CheckOutcome::CannotTell, "undetermined"),
        (CheckOutcome::NotChecked, "not checked"),
    ];
    for (outcome, word) in others {
        let count = report.count(outcome);
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    let checks = text::count(report.checks.len(), "check");
    let _ = writeln!(out, "{}: {checks}: {}", file.display(), counts.join(", "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_every_outcome_and_lists_what_is_not_the_same() {
        let report = VerifyReport {
            checks: vec![
                Check::same("stage", "data"),
                Check::drift("stage", "fit", "params.lr changed").with_detail("-1\n+2".to_owned()),
                Check::cannot_tell("stage", "table", "blob is missing"),
                Check::new("file", "a.tex", CheckOutcome::NotChecked, "it is missing"),
            ],
        };
        let text = render(&report, Path::new("x.yaml"), false, Paint(false));
        let expected = "drift  fit: params.lr changed\n    -1\n    +2\nundetermined  table: blob is missing\n\
                        x.yaml: 4 checks: 1 same, 1 drifted, 1 undetermined, 1 not checked\n";
        assert_eq!(text, expected);
        let verbose = render(&report, Path::new("x.yaml"), true, Paint(false));
        assert!(verbose.contains("same  data\n"), "{verbose}");
        assert!(verbose.contains("not checked  a.tex: it is missing\n"), "{verbose}");
    }
}
