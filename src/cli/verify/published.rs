//! Compares the published copies of results (`published:` in the pipeline) with the lock.

use std::path::Path;

use super::check_placed_file;
use pipe_engine::lock::Lock;
use pipe_engine::lock::report::{Check, CheckOutcome};
use pipe_engine::plan::Plan;
use pipe_engine::store::Store;

/// Returns one check per published file. A published directory may have fewer files than the pipeline places, but no
/// others. `missing` is the outcome if there is no such directory, or nothing in it.
pub(super) fn check_published_files(
    plan: &Plan,
    lock: &Lock,
    store: &Store,
    missing: CheckOutcome,
) -> Vec<Check> {
    let pipeline = plan.pipeline();
    let Some(directory) = &pipeline.published else { return Vec::new() };
    if !directory.is_dir() {
        let message = "there is no such directory; copy the results that you publish into it";
        return vec![Check::new("file", &directory.display().to_string(), missing, message)];
    }
    let placed_below = format!("results/{}", pipeline.name);
    let mut checks = Vec::new();
    check_directory(directory, &placed_below, lock, store, &mut checks);
    if checks.is_empty() {
        let message = "it contains no results; copy those that you publish into it";
        checks.push(Check::new("file", &directory.display().to_string(), missing, message));
    }
    checks
}

/// Checks the content of a directory whose originals are placed at `placed`.
fn check_directory(directory: &Path, placed: &str, lock: &Lock, store: &Store, checks: &mut Vec<Check>) {
    let shown = directory.display().to_string();
    let entries = std::fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return checks.push(Check::cannot_tell("file", &shown, error.to_string())),
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, original) = (format!("{shown}/{name}"), format!("{placed}/{name}"));
        match lock.placed.get(&original) {
            Some(&blob) => {
                checks.push(check_placed_file(&path, blob, lock, store, CheckOutcome::CannotTell));
            }
            None if entry.path().is_dir() => check_directory(&entry.path(), &original, lock, store, checks),
            None => {
                let message =
                    format!("the lock has no `{original}`; delete this file, or place it with `outputs:`");
                checks.push(Check::drift("file", &path, message));
            }
        }
    }
}
