//! `pipe cache`: shows, lists, cleans and checks the store.

use std::time::Duration;

use serde_json::json;

use super::args::CacheCommand;
use super::exit::{Exit, Outcome};
use super::project::Project;
use super::remote;
use super::table::Grid;
use super::verify::rerun::seconds;
use super::{print_json, print_text, text};
use pipe_engine::remote::RemoteGcRequest;
use pipe_engine::store::{Count, FsckReport, FsckRequest, GcReport, GcRequest, Store, Subset};

/// Runs `pipe cache`.
pub(super) fn cache(project: &Project, command: &CacheCommand) -> Outcome {
    match command {
        CacheCommand::Du { json } => du(&project.store_to_read()?, *json),
        CacheCommand::Ls { json } => ls(project, *json),
        CacheCommand::Push { file, json } => remote::push(project, file.as_ref(), *json),
        CacheCommand::Pull { file, json } => remote::pull(project, file.as_ref(), *json),
        CacheCommand::Gc { yes, grace, remote: true, older_than, json, .. } => {
            let request = RemoteGcRequest { dry_run: !yes, max_age: days(*older_than), grace: days(*grace) };
            remote::gc(project, &request, *json)
        }
        CacheCommand::Gc { yes, grace, keep_runs, json, .. } => {
            let grace = days(*grace);
            let request = GcRequest { dry_run: !yes, grace, keep_runs: *keep_runs, ..GcRequest::default() };
            gc(project, &request, *json)
        }
        CacheCommand::Fsck { repair, subset, budget, json } => {
            fsck(project, &FsckRequest { repair: *repair, subset: *subset, budget: *budget }, *json)
        }
    }
}

fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(24 * 3600))
}

fn du(store: &Store, as_json: bool) -> Outcome {
    let usage = store.usage()?;
    if as_json {
        return print_json(&usage);
    }
    let mut grid = Grid::new(&["", "files", "size"]).right_aligned(&[1, 2]);
    let parts = [
        ("results", usage.results),
        ("blobs", usage.blobs),
        ("checkpoints", usage.checkpoints),
        ("packages", usage.packages),
        ("run logs", usage.runs),
        ("temporary", usage.temporary),
        ("trash", usage.trash),
        ("other", usage.other),
        ("total", usage.total()),
    ];
    for (name, count) in parts {
        grid.row([name.to_owned(), count.items.to_string(), text::bytes(count.bytes)]);
    }
    print_text(&grid.to_string())
}

fn ls(project: &Project, as_json: bool) -> Outcome {
    let store = project.store_to_read()?;
    let results = store.list()?;
    warn_of_damage(project, &store);
    if as_json {
        let shown: Vec<_> = results
            .iter()
            .map(|result| json!({ "bytes": result.bytes, "manifest": result.manifest }))
            .collect();
        return print_json(&shown);
    }
    let mut grid = Grid::new(&["key", "stage", "kind", "computed", "took", "size"])
        .right_aligned(&[4, 5])
        .wrapped(&[1])
        .optional(&[2, 4, 3]);
    for result in &results {
        let manifest = &result.manifest;
        grid.row([
            manifest.key.short(),
            manifest.instance.clone(),
            manifest.kind.clone(),
            manifest.finished.clone(),
            text::duration(manifest.seconds),
            text::bytes(result.bytes),
        ]);
    }
    print_text(&grid.to_string())
}

fn gc(project: &Project, request: &GcRequest, as_json: bool) -> Outcome {
    let report = if request.dry_run {
        project.store_to_read()?.collect_garbage(request)?
    } else {
        project.store()?.collect_garbage(request)?
    };
    if as_json {
        return print_json(&report);
    }
    print_text(&render_collected(&report))
}

fn render_collected(report: &GcReport) -> String {
    let mut grid = Grid::new(&["", "items", "size"]).right_aligned(&[1, 2]);
    let parts = [
        ("kept", report.kept),
        ("results to remove", report.results),
        ("blobs to remove", report.blobs),
        ("checkpoints to remove", report.checkpoints),
        ("packages to remove", report.packages),
        ("run logs to remove", report.runs),
        ("records of deleted pipelines", report.pipelines),
        ("deleted from the trash", report.purged),
    ];
    for (name, Count { items, bytes }) in parts {
        grid.row([name.to_owned(), items.to_string(), text::bytes(bytes)]);
    }
    let next = if report.dry_run { "nothing was changed; `pipe cache gc --yes` removes these\n" } else { "" };
    format!("{grid}{next}")
}

/// Reads a part of the cache, such as `3/7`.
pub(super) fn parse_subset(text: &str) -> Result<Subset, String> {
    let parse = || {
        let (part, of) = text.split_once('/')?;
        Some(Subset { part: part.parse().ok()?, of: of.parse().ok()? })
    };
    parse()
        .filter(|subset| (1..=subset.of).contains(&subset.part))
        .ok_or_else(|| "a part and the number of parts are expected, from `1/7` to `7/7`".to_owned())
}

/// Reads a duration, such as `10m`.
pub(super) fn parse_budget(text: &str) -> Result<Duration, String> {
    seconds(text)
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a duration is expected, such as `90s`, `10m` or `2h`".to_owned())
}

fn fsck(project: &Project, request: &FsckRequest, as_json: bool) -> Outcome {
    // There is nothing to repair in a cache that does not exist, and the name may be misspelt.
    let repair = request.repair && project.cache_dir.exists();
    let mut fetched = 0;
    let report = if repair {
        let mut store = project.store()?;
        fetched = remote::repair(project, &mut store, request)?;
        store.check_some(request)?
    } else {
        project.store_to_read()?.check_some(request)?
    };
    let is_sound = report.problems.is_empty();
    if as_json {
        print_json(&report)?;
    } else {
        print_text(&render_checked(&report, fetched))?;
    }
    Ok(if is_sound || repair { Exit::Done } else { Exit::CacheDamage })
}

fn render_checked(report: &FsckReport, fetched: usize) -> String {
    let mut out = String::new();
    if fetched > 0 {
        out.push_str(&format!("{} fetched again from the remote\n", text::count(fetched, "damaged blob")));
    }
    for problem in &report.problems {
        out.push_str(&format!("{}: {}\n", problem.path.display(), problem.flaw));
    }
    let bad = report.problems.len() - report.affected;
    let damaged = match report.affected {
        0 => format!("{bad} damaged"),
        affected => format!("{bad} damaged, needed by {}", text::count(affected, "result")),
    };
    let them = text::them(report.problems.len());
    let next = match (report.problems.len(), report.repaired) {
        (0, _) if report.unread.items == 0 => "no damage".to_owned(),
        (0, _) => "no damage in what was read".to_owned(),
        (_, true) => format!("{damaged}; removed, and the next run computes {them} again"),
        (_, false) => format!("{damaged}; `pipe cache fsck --repair` removes {them}"),
    };
    let (results, blobs) = (report.results.items as usize, report.blobs.items as usize);
    out.push_str(&format!(
        "{} and {} of {} checked: {next}\n",
        text::count(results, "result"),
        text::count(blobs, "blob"),
        text::bytes(report.blobs.bytes),
    ));
    if report.unread.items > 0 {
        let (blobs, bytes) = (report.unread.items as usize, report.unread.bytes);
        out.push_str(&format!("{} of {} not read\n", text::count(blobs, "blob"), text::bytes(bytes)));
    }
    if report.unsteady.items > 0 {
        let blobs = text::count(report.unsteady.items as usize, "blob");
        out.push_str(&format!(
            "{blobs} could be read correctly only the second time; check the disk and the memory of this machine\n"
        ));
    }
    out
}

/// Prints what the store noticed about damaged results to standard error.
pub(super) fn warn_of_damage(project: &Project, store: &Store) {
    for warning in store.warnings() {
        project.warn(&warning);
    }
}
