//! `pipe cache push` and `pipe cache pull`, and what other commands do with the remote.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use super::exit::{Exit, Failure, Outcome};
use super::pipeline_selection::PipelineSelection;
use super::project::Project;
use super::settings::Use;
use super::table::Grid;
use super::{print_json, print_status, print_text, text};
use pipe_core::paint::Paint;
use pipe_engine::lock::report::{Check, CheckOutcome};
use pipe_engine::lock::{EnvironmentClass, Lock, LockRecord};
use pipe_engine::plan::Plan;
use pipe_engine::remote::{Outcome as Upload, Remote, RemoteGcRequest, RemoteSummary, Testimony};
use pipe_engine::runner::{self, Options, Pulled, Stop};
use pipe_engine::store::manifest::Manifest;
use pipe_engine::store::{FsckRequest, Store};

/// Uploads the results of a pipeline, or of the whole cache, that this machine computed.
pub(super) fn push(project: &Project, file: Option<&PathBuf>, as_json: bool) -> Outcome {
    let remote = project.require_remote(Use::Write)?;
    let store = project.store()?;
    let results: Vec<Manifest> = match file {
        None => store.list()?.into_iter().map(|listed| listed.manifest).collect(),
        Some(file) => {
            let state = store.pipeline_state(file);
            if state.last.is_empty() {
                let file = file.display();
                return Err(Failure::bad_input(format!("{file} was not run with this cache; run it first")));
            }
            state.last.values().filter_map(|key| store.record(*key)).map(|manifest| *manifest).collect()
        }
    };
    let outcomes: Vec<Upload> =
        results.iter().map(|manifest| remote.upload_missing(&store, manifest)).collect();
    let count = |outcome: Upload| outcomes.iter().filter(|&&found| found == outcome).count();
    let failed = end(project, &remote);
    let (present, foreign) = (count(Upload::Present), count(Upload::NotOurs));
    let left_out = count(Upload::Failed);
    if as_json {
        let summary = remote.summary();
        print_json(
            &json!({ "remote": summary, "present": present, "not_ours": foreign, "failed": left_out }),
        )?;
    } else {
        let left_out = if left_out > 0 { format!(", {left_out} not uploaded") } else { String::new() };
        let line = format!(
            "{} uploaded ({}), {present} there already, {foreign} computed by others{left_out}\n",
            text::count(count(Upload::Uploaded), "result"),
            text::bytes(remote.summary().sent_bytes),
        );
        print_text(&line)?;
    }
    Ok(if failed || left_out > 0 { Exit::BadInput } else { Exit::Done })
}

/// Fetches the results of a pipeline that are not in the cache.
pub(super) fn pull(project: &Project, file: Option<&PathBuf>, as_json: bool) -> Outcome {
    let remote = project.require_remote(Use::Read)?;
    let selection = PipelineSelection { file: file.cloned(), stages: Vec::new() };
    let opened = project.open(&selection, &[])?.find_data(project);
    let store = project.store()?;
    let Pulled { present, taken, missing } = runner::pull(&opened.plan, &store, &Options::default(), &remote);
    let failed = end(project, &remote);
    if as_json {
        let summary = remote.summary();
        print_json(&json!({ "remote": summary, "present": present, "missing": missing }))?;
    } else {
        for (instance, why) in &missing {
            project.status(&format!("not fetched: {instance}: {why}"));
        }
        let received = text::bytes(remote.summary().received_bytes);
        let taken = text::count(taken, "result");
        print_text(&format!(
            "{taken} fetched ({received}), {present} here already, {} missing\n",
            missing.len()
        ))?;
    }
    Ok(if failed { Exit::BadInput } else { Exit::Done })
}

/// Prints what went wrong with the remote. Returns whether it failed.
fn end(project: &Project, remote: &Remote) -> bool {
    let summary = remote.summary();
    for warning in remote.warnings().into_iter().chain(summary.refusals()) {
        print_status(&format!("{} {warning}", project.paint.yellow("warning:")));
    }
    summary.unreachable.is_some()
}

/// Removes old results from the remote.
pub(super) fn gc(project: &Project, request: &RemoteGcRequest, as_json: bool) -> Outcome {
    let remote = project.require_remote(Use::Read)?;
    let report = remote.collect_garbage(request).map_err(Failure::bad_input)?;
    if as_json {
        return print_json(&report);
    }
    let mut grid = Grid::new(&["", "items", "size"]).right_aligned(&[1, 2]);
    let parts =
        [("kept", report.kept), ("results to remove", report.results), ("blobs to remove", report.blobs)];
    for (name, count) in parts {
        grid.row([name.to_owned(), count.items.to_string(), text::bytes(count.bytes)]);
    }
    let next = if report.dry_run {
        "nothing was changed; `pipe cache gc --remote --yes` removes these\n"
    } else {
        ""
    };
    print_text(&format!("{grid}{next}"))
}

/// Replaces damaged and missing blobs by those of the remote, if the project has one. Returns how many.
pub(super) fn repair(project: &Project, store: &mut Store, request: &FsckRequest) -> Result<usize, Failure> {
    let Some(remote) = project.remote(Use::AsSet, &Stop::new())? else { return Ok(0) };
    let report = store.check_some(&FsckRequest { repair: false, ..request.clone() })?;
    let fetched = store.replace_damaged(&report, &mut |id, bytes| remote.fetch(store, id, bytes))?;
    end(project, &remote);
    Ok(fetched)
}

/// Compares what different writers stored for the stages of a lock, in the order in which they are computed.
pub(super) fn compare_writers(project: &Project, plan: &Plan, lock: &Lock) -> Result<Vec<Check>, Failure> {
    let remote = project.require_remote(Use::Read)?;
    let names = plan.topological().iter().map(|&index| plan.instance(index).id.to_string());
    let records = names.filter_map(|name| Some((lock.stages.get(&name)?, name)));
    Ok(records.map(|(record, name)| compare_stage(&remote, &name, record)).collect())
}

fn compare_stage(remote: &Remote, name: &str, record: &LockRecord) -> Check {
    let witnesses = match remote.witnesses(record.key) {
        Ok(witnesses) => witnesses,
        Err(error) => return Check::cannot_tell("remote", name, error),
    };
    let outputs = record.steady_outputs();
    let all = witnesses.testimonies.len();
    let differing: Vec<(&Testimony, &str)> = witnesses
        .testimonies
        .iter()
        .filter_map(|testimony| Some((testimony, testimony.difference(&outputs)?)))
        .collect();
    let agreeing = all - differing.len();
    match differing.first() {
        _ if all == 0 => Check::cannot_tell("remote", name, nobody(&witnesses.refused)),
        None => {
            let classes: BTreeSet<&EnvironmentClass> =
                witnesses.testimonies.iter().map(|testimony| &testimony.class).collect();
            let on = text::count(classes.len(), "machine class");
            let refused = witnesses
                .refused
                .iter()
                .map(|(writer, reason)| format!("; `{writer}` was refused: {reason}"));
            let refused: String = refused.collect();
            let message = format!("{all} of {} with the lock, on {on}{refused}", agree(all));
            Check::new("remote", name, CheckOutcome::Same, message)
        }
        Some((testimony, output)) => {
            let writer = &testimony.writer;
            let message =
                format!("{agreeing} of {} with the lock; `{writer}` got another `{output}`", agree(all));
            Check::drift("remote", name, message)
        }
    }
}

fn agree(writers: usize) -> String {
    if writers == 1 { "1 writer agrees".to_owned() } else { format!("{writers} writers agree") }
}

fn nobody(refused: &[(String, String)]) -> String {
    match refused.first() {
        Some((writer, reason)) => {
            format!("no result on the remote may be used; that of `{writer}` was refused: {reason}")
        }
        None => "the remote has no result".to_owned(),
    }
}

/// Returns a line about the remote for the end of a run.
pub(super) fn summary_line(summary: &RemoteSummary, paint: Paint) -> String {
    let mut parts = Vec::new();
    if summary.taken > 0 {
        parts.push(format!("{} taken ({})", summary.taken, text::bytes(summary.received_bytes)));
    }
    if summary.uploaded > 0 {
        parts.push(format!("{} uploaded ({})", summary.uploaded, text::bytes(summary.sent_bytes)));
    }
    if summary.cheap > 0 {
        parts.push(format!("{} not uploaded (faster to compute than to fetch)", summary.cheap));
    }
    if !summary.refused.is_empty() {
        parts.push(paint.yellow(&format!("{} refused", summary.refused.len())));
    }
    if summary.unreachable.is_some() {
        parts.push(paint.yellow("unreachable"));
    }
    format!("remote: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_the_remote_says_only_what_happened() {
        let summary = RemoteSummary { taken: 3, received_bytes: 1_500_000, ..RemoteSummary::default() };
        assert_eq!(summary_line(&summary, Paint(false)), "remote: 3 taken (1.50 MB)");
        let cheap = RemoteSummary { cheap: 2, ..RemoteSummary::default() };
        let expected = "remote: 2 not uploaded (faster to compute than to fetch)";
        assert_eq!(summary_line(&cheap, Paint(false)), expected);
        let summary = RemoteSummary { unreachable: Some("refused".to_owned()), uploaded: 1, ..summary };
        assert_eq!(
            summary_line(&summary, Paint(false)),
            "remote: 3 taken (1.50 MB), 1 uploaded (0 B), unreachable"
        );
    }
}
