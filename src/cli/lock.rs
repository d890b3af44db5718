//! `pipe lock`, and how `pipe run` uses and updates an existing lock.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::LockArgs;
use super::cache::warn_of_damage;
use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::project::{Opened, Project};
use super::variant_files::set_arguments;
use super::{text, verify, witness};
use pipe_core::bad_file;
use pipe_core::digest::BlobId;
use pipe_engine::lock::compare::{CompareVerdict, class_difference, compare};
use pipe_engine::lock::merge::merge;
use pipe_engine::lock::report::{Check, CheckOutcome};
use pipe_engine::lock::text::needs_a_person;
use pipe_engine::lock::{Lock, LockError, LockRecord, LockedOutput, follow, path_of};
use pipe_engine::plan::Plan;
use pipe_engine::plan::key::Content;
use pipe_engine::runner::{Options, Outlook, ResultGate, survey};
use pipe_engine::spec::pipeline::{Instance, InstanceIndex};
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::{Origin, Store, StoreError, remove_leftovers, write_atomically};

/// Writes the lock of the results in the cache. Runs nothing.
pub(super) fn lock(project: &Project, args: &LockArgs) -> Outcome {
    if let Some(files) = &args.merge {
        return merge_files(files);
    }
    let Some(file) = args.file.as_ref().or(args.named.as_ref()) else {
        return Err(Failure::bad_input("which pipeline? `pipe lock FILE`"));
    };
    let selection = PipelineSelection::of_file(file);
    let Opened { plan, store, .. } = project.open(&selection, &[])?.find_data(project);
    let manifests = results(&plan, &store)?;
    let mut new = Lock::of(plan.pipeline(), &manifests);
    warn_of_damage(project, &store);
    let path = path_of(file);
    let old = read(&path);
    if let Ok(Some(old)) = &old
        && !args.rebuild
    {
        if args.witness {
            witness::require_same_results(&plan, old, &new)?;
        }
        new.keep_equal_records(old, plan.pipeline());
    }
    require_matching_files(&plan, &store, &new)?;
    write_if_changed(project, args, file, old, &new)?;
    for unmet in verify::unmet_expectations(&plan, &new) {
        project.warn(&format!("`{}`: {}", unmet.name, unmet.message));
    }
    if args.witness { witness::record(project, &plan, &new, &manifests) } else { Ok(Exit::Done) }
}

/// Writes a lock, unless it is there already. Fails if another one is there that may not be replaced.
fn write_if_changed(
    project: &Project,
    args: &LockArgs,
    file: &Path,
    old: Result<Option<Lock>, Failure>,
    new: &Lock,
) -> Result<(), Failure> {
    let path = path_of(file);
    match old {
        Ok(None) => {}
        Ok(Some(old)) if old.is_same_text(new) => {
            project.status(&format!("{} is up to date", path.display()));
            return Ok(());
        }
        Ok(Some(old)) if !args.rebuild => {
            let count = text::count(new.changes_from(&old), "entry").replace("entrys", "entries");
            return Err(Failure::bad_input(format!(
                "{} differs from the cache in {count}; `pipe verify {}` shows where, and `pipe lock --rebuild` \
                 replaces it",
                path.display(),
                file.display()
            )));
        }
        Err(failure) if !args.rebuild => return Err(failure),
        _ => {}
    }
    write(&path, new)?;
    project.status(&format!("{} written: {}", path.display(), contents(new)));
    Ok(())
}

fn contents(lock: &Lock) -> String {
    let (stages, files) = (lock.stages.len(), lock.placed.len());
    format!("{}, {}", text::count(stages, "stage"), text::count(files, "placed file"))
}

/// Reads a lock. `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Lock>, Failure> {
    parsed(path).map_err(|flaw| Failure::bad_input(format!("cannot read {}: {flaw}", path.display())))
}

/// Reads a lock like [`read`], but with an error that does not name the file.
pub(super) fn parsed(path: &Path) -> Result<Option<Lock>, String> {
    match fs::read_to_string(path) {
        Ok(text) => text.parse().map(Some).map_err(|error: LockError| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Fails before a run if it would have to replace a lock that cannot be read. A damaged one does not count: the run keeps it
/// under another name.
pub(super) fn require_readable(pipeline: &Path) -> Result<(), Failure> {
    let path = path_of(pipeline);
    let Err(flaw) = parsed(&path) else { return Ok(()) };
    if fs::read(&path).is_ok_and(|text| !needs_a_person(&String::from_utf8_lossy(&text))) {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "cannot read {}, which this run would update: {flaw}; restore it from version control, or remove it and \
         write a new one with `pipe lock {}` after the run. Nothing was run",
        path.display(),
        pipeline.display()
    )))
}

/// Writes a lock atomically.
pub(super) fn write(path: &Path, lock: &Lock) -> Result<(), Failure> {
    let written = write_atomically(path, |file| file.write_all(lock.to_string().as_bytes()));
    written.map_err(|error| Failure::bad_input(format!("cannot write {}: {error}", path.display())))
}

/// Returns the lock of the results that the cache has for every stage of the pipeline.
fn of_cache(plan: &Plan, store: &Store) -> Result<Lock, Failure> {
    Ok(Lock::of(plan.pipeline(), &results(plan, store)?))
}

/// Returns the result that the cache has for every stage, in the order of the pipeline.
fn results(plan: &Plan, store: &Store) -> Result<Vec<Manifest>, Failure> {
    let outlooks = survey(plan, store, &Options::default());
    let mut manifests = Vec::with_capacity(outlooks.len());
    for (instance, outlook) in plan.pipeline().instances.iter().zip(outlooks) {
        match outlook {
            Outlook::Fresh(manifest) => manifests.push(*manifest),
            _ => {
                return Err(Failure::bad_input(format!(
                    "`{}` has no result in the cache for the current pipeline; run `pipe run {}` first",
                    instance.id,
                    plan.pipeline().file.display()
                )));
            }
        }
    }
    Ok(manifests)
}

/// Fails if placed files differ from the new lock, because `pipe verify` would report them as drift.
fn require_matching_files(plan: &Plan, store: &Store, lock: &Lock) -> Result<(), Failure> {
    let file = plan.pipeline().file.display();
    let mut differing = None;
    for (path, blob) in &lock.placed {
        if let Some(found) = find(store, Path::new(path))?.filter(|found| found != blob) {
            differing = Some((path, found));
            break;
        }
    }
    let Some((path, found)) = differing else { return Ok(()) };
    let state = store.pipeline_state(&plan.pipeline().file);
    let untouched = state.placed.get(path) == Some(&found);
    let (because, option) = match state.origins.get(path).filter(|_| untouched) {
        Some(Origin { run, set }) if !set.is_empty() => {
            (format!("run {run} wrote it with{}", set_arguments(set)), "")
        }
        Some(Origin { run, .. }) => (format!("run {run} wrote it from another state of the pipeline"), ""),
        None => ("it was edited, or pipe did not write it".to_owned(), " --overwrite"),
    };
    Err(Failure::bad_input(format!(
        "`{path}` is not the result of {file}, so a lock would not match it: {because}; \
         run `pipe run {file}{option}` to replace it, then `pipe lock {file}`"
    )))
}

/// Updates an existing lock after a complete and successful run.
pub(super) fn update(project: &Project, plan: &Plan, store: &Store) -> Result<(), Failure> {
    let path = path_of(&plan.pipeline().file);
    let old = match parsed(&path) {
        Ok(None) => {
            remove_leftovers(&path);
            return Ok(());
        }
        Ok(Some(old)) => old,
        // `require_readable` has looked at it before the run.
        Err(flaw) => {
            let kept = keep_copy(&path)?;
            project.warn(&format!(
                "{} is damaged ({flaw}); it is replaced by the results of this run, and kept as {}",
                path.display(),
                kept.display()
            ));
            return write(&path, &of_cache(plan, store)?);
        }
    };
    let mut new = of_cache(plan, store)?;
    new.keep_equal_records(&old, plan.pipeline());
    if old.is_same_text(&new) {
        remove_leftovers(&path);
        return Ok(());
    }
    if !old.edited.is_empty() {
        keep_edited_lock(project, &path, &old)?;
    }
    write(&path, &new)?;
    let count = new.changes_from(&old);
    let changes = text::count(count, "change");
    let cause = if count == 1 { "its cause" } else { "their cause" };
    project.status(&format!("{} updated, {changes}; commit the lock together with {cause}", path.display()));
    Ok(())
}

/// Copies a damaged lock to a new file beside it. Returns its path.
fn keep_copy(path: &Path) -> Result<PathBuf, Failure> {
    let kept = bad_file::free_path(path);
    match fs::copy(path, &kept) {
        Ok(_) => Ok(kept),
        Err(error) => Err(Failure::bad_input(format!("cannot write {}: {error}", kept.display()))),
    }
}

/// Keeps a copy of a lock that was edited by hand or merged line by line.
fn keep_edited_lock(project: &Project, path: &Path, lock: &Lock) -> Result<(), Failure> {
    let kept = keep_copy(path)?;
    let records: Vec<String> = lock.edited.iter().map(|name| format!("`{name}`")).collect();
    project.warn(&format!(
        "in {}, the record of {} was edited, or merged line by line: it does not match its checksum. \
         It is replaced by the results of this run; the old file is kept as {}",
        path.display(),
        records.join(", "),
        kept.display()
    ));
    Ok(())
}

/// Checks before `pipe run --locked` that the pipeline matches the lock; returns the check of each result.
pub(super) fn hold_to(plan: &Plan, store: &Store, cache_dir: &Path) -> Result<ResultGate, Failure> {
    let path = path_of(&plan.pipeline().file);
    let Some(lock) = read(&path)? else {
        let sentence = format!("there is no {}; `pipe lock` writes it", path.display());
        return Err(Failure::bad_input(sentence));
    };
    let drifted: Vec<Check> = follow::follow(plan, &lock, &|path| input_content(store, path))
        .into_iter()
        .filter(|check| check.outcome != CheckOutcome::Same)
        .collect();
    if let [first, rest @ ..] = &drifted[..] {
        let more = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
        let text = format!(
            "--locked: this run would not produce what {} records: `{}`: {}{more}; nothing was run",
            path.display(),
            first.name,
            first.message
        );
        return Err(Failure::new(Exit::StageFailed, text));
    }
    let instances: Vec<Instance> = plan.pipeline().instances.clone();
    let cache_dir: PathBuf = cache_dir.to_owned();
    Ok(ResultGate::new(move |InstanceIndex(index), manifest| {
        let instance = &instances[index];
        let record = lock.stages.get(&instance.id.to_string()).ok_or("it is not in the lock")?;
        check_against_lock(instance, record, manifest, &cache_dir)
    }))
}

/// Fails with the reason if a new result is not what the lock records.
fn check_against_lock(
    instance: &Instance,
    record: &LockRecord,
    manifest: &Manifest,
    cache_dir: &Path,
) -> Result<(), String> {
    let now = LockRecord::of(instance, manifest);
    if now.key != record.key {
        return Err(format!(
            "--locked: its key is {}, and the lock has {}",
            now.key.short(),
            record.key.short()
        ));
    }
    // The store is only opened for policies that compare the content of outputs.
    let read =
        |_: bool, output: &LockedOutput| Store::open_read_only(cache_dir).ok()?.read(&output.stored).ok();
    let verdicts = compare(record.into(), (&now).into(), &instance.compare, &read);
    for (name, verdict) in verdicts {
        if let CompareVerdict::Different(how) = verdict {
            let class = class_difference(&record.class, &now.class).map(|class| format!("; {class}"));
            let class = class.unwrap_or_default();
            return Err(format!("--locked: its `{name}` is not what the lock records: {how}{class}"));
        }
    }
    Ok(())
}

/// Returns the digest of a file; `None` if there is no such file.
pub(super) fn find(store: &Store, path: &Path) -> Result<Option<BlobId>, StoreError> {
    if let Err(error) = path.symlink_metadata()
        && error.kind() == io::ErrorKind::NotFound
    {
        return Ok(None);
    }
    store.digest_user_file(path).map(|file| Some(file.blob))
}

/// Returns the content of the outputs that the lock of a pipeline records, if there is a readable one.
pub(super) fn recorded_contents(pipeline: &Path) -> BTreeSet<BlobId> {
    let lock = parsed(&path_of(pipeline)).ok().flatten();
    lock.map(|lock| lock.contents()).unwrap_or_default()
}

/// Returns the content of a file of the user as an input, if it exists.
pub(super) fn input_content(store: &Store, path: &Path) -> Option<Content> {
    store.digest_user_file(path).ok().map(|file| Content::of_user_file(&file))
}

/// Merges locks as git calls a merge driver: the result is written to the second file, and the exit code says whether
/// the merge succeeded.
fn merge_files(files: &[PathBuf]) -> Outcome {
    let [base, ours, theirs] = files else {
        return Err(Failure::bad_input("--merge takes three files: BASE OURS THEIRS"));
    };
    // Two branches may each have added the lock: then git's base is an empty file.
    let empty = fs::metadata(base).is_ok_and(|file| file.len() == 0);
    let base = if empty { Some(Lock::default()) } else { read(base)? };
    let (Some(base), Some(our_lock), Some(theirs)) = (base, read(ours)?, read(theirs)?) else {
        return Err(Failure::bad_input("--merge: one of the three files does not exist"));
    };
    match merge(&base, &our_lock, &theirs) {
        Ok(merged) => {
            write(ours, &merged)?;
            Ok(Exit::Done)
        }
        Err(conflicts) => Err(Failure::new(
            Exit::StageFailed,
            format!(
                "both sides changed {}; ours is kept: merge the pipeline, then `pipe run` or `pipe lock --rebuild`",
                conflicts.join(", ")
            ),
        )),
    }
}
