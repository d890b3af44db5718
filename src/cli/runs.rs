//! `pipe runs`: lists past runs, or shows one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::args::{RunsArgs, RunsCommand};
use super::cache::warn_of_damage;
use super::exit::{Exit, Outcome};
use super::history::{self, PastRun};
use super::metrics;
use super::project::Project;
use super::table::{Grid, terminal_width, wrap};
use super::variant_files::set_arguments;
use super::{print_json, print_text, text};
use pipe_core::digest::StageKey;
use pipe_core::protocol::MetricValue;
use pipe_ml::metric::registry::Metric;

/// Runs `pipe runs`.
pub(super) fn runs(project: &Project, args: &RunsArgs) -> Outcome {
    match &args.command {
        None => list(project, args),
        Some(RunsCommand::Show { run, json }) => show(project, run, *json),
    }
}

fn list(project: &Project, args: &RunsArgs) -> Outcome {
    let wanted = &args.metric;
    let store = project.store_to_read()?;
    let mut runs = Vec::new();
    let limit = if args.sort { usize::MAX } else { args.limit };
    for record in store.runs()?.into_iter().take(limit) {
        let past = PastRun::read(&store, record)?;
        let best: Vec<Option<MetricValue>> = wanted.iter().map(|metric| past.best(metric, &store)).collect();
        runs.push((past, best));
    }
    warn_of_damage(project, &store);
    let has_value = |at: usize| runs.iter().any(|(_, best)| best[at].is_some());
    if !(0..wanted.len()).all(has_value) {
        let recorded: BTreeSet<String> = runs.iter().flat_map(|(past, _)| past.metrics(&store)).collect();
        let known = recorded.iter().map(String::as_str).chain(Metric::vocabulary().words).collect();
        metrics::require(wanted, &known, "no run here has a metric")?;
    }
    if let Some(metric) = wanted.first().filter(|_| args.sort) {
        // Runs without a value come last.
        runs.sort_by(|(_, a), (_, b)| match (a[0], b[0]) {
            (Some(a), Some(b)) => history::compare(metric, a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        runs.truncate(args.limit);
    }
    if args.json {
        let shown = runs.iter().map(|(past, best)| {
            let mut shown = run_json(past);
            if !wanted.is_empty() {
                let values = wanted.iter().zip(best).map(|(metric, value)| (metric.clone(), json!(value)));
                shown["metrics"] = Value::Object(values.collect());
            }
            shown
        });
        return print_json(&shown.collect::<Vec<_>>());
    }
    if runs.is_empty() {
        project.status("nothing has been run here yet");
        return Ok(Exit::Done);
    }
    let mut heading = vec!["run", "started", "pipeline", "state"];
    heading.extend(wanted.iter().map(String::as_str));
    heading.extend(["computed", "cached", "failed", "skipped", "took", "with", "note"]);
    let numbers: Vec<usize> = (4..heading.len() - 2).collect();
    // The id contains the time, and the state says whether a stage failed.
    let (counts, last) = (4 + wanted.len(), heading.len() - 1);
    let optional = [1, counts + 3, counts + 2, counts + 1, counts, counts + 4, 2, last - 1, last];
    let mut grid =
        Grid::new(&heading).right_aligned(&numbers).wrapped(&[2, last - 1, last]).optional(&optional);
    for (past, best) in &runs {
        let mut cells =
            vec![past.record.id.clone(), past.started(), past.pipeline().to_owned(), past.state().to_owned()];
        let value = |value: &MetricValue| format!("{}{}", text::value(value.value), value.suffix());
        cells.extend(best.iter().map(|best| best.as_ref().map(value).unwrap_or_default()));
        let outcomes = ["computed", "cached", "failed", "skipped"];
        cells.extend(outcomes.map(|outcome| past.count(outcome).to_string()));
        cells.push(past.summary().map(|summary| text::duration(summary.seconds)).unwrap_or_default());
        cells.push(set_arguments(past.set()).trim_start().to_owned());
        cells.push(past.note().map(text::one_line).unwrap_or_default());
        grid.row(cells);
    }
    print_text(&grid.to_string())
}

/// Returns what `--json` prints about one run.
fn run_json(past: &PastRun) -> Value {
    json!({
        "run": past.record.id,
        "started": past.record.started().map(|time| time.to_string()),
        "pipeline": past.pipeline(),
        "set": past.set(),
        "note": past.note(),
        "commit": past.commit(),
        "state": past.state(),
        "computed": past.count("computed"),
        "cached": past.count("cached"),
        "failed": past.count("failed"),
        "skipped": past.count("skipped"),
        "seconds": past.summary().map(|summary| summary.seconds),
        "saved": past.summary().map(|summary| summary.saved),
    })
}

fn show(project: &Project, word: &str, as_json: bool) -> Outcome {
    let store = project.store_to_read()?;
    let past = history::find(&store, word)?;
    warn_of_damage(project, &store);
    let instances = past.instances();
    let warnings_of = |key: Option<StageKey>| {
        key.and_then(|key| store.record(key)).map(|manifest| manifest.warnings.clone()).unwrap_or_default()
    };
    if as_json {
        let mut shown = run_json(&past);
        let mut stages = Vec::new();
        for instance in &instances {
            let mut stage = serde_json::to_value(instance).map_err(anyhow::Error::from)?;
            stage["warnings"] = json!(warnings_of(instance.key));
            stages.push(stage);
        }
        shown["stages"] = Value::Array(stages);
        return print_json(&shown);
    }
    let took = match past.summary() {
        Some(summary) => format!(", {} in {}", past.state(), text::duration(summary.seconds)),
        None => ", killed or still running".to_owned(),
    };
    let name = project.paint_out.bold(past.pipeline());
    let with = match past.set() {
        [] => String::new(),
        set => format!(", with{}", set_arguments(set)),
    };
    let note = past.note().map(|note| format!("{}\n", text::one_line(note))).unwrap_or_default();
    let mut grid = Grid::new(&["stage", "outcome", "took", "why"]).right_aligned(&[2]).wrapped(&[0, 3]);
    let mut warnings = String::new();
    for end in instances {
        for warning in warnings_of(end.key) {
            warnings.push_str(&format!("warning: {}: {warning}\n", end.instance));
        }
        let took = match (end.outcome, end.seconds) {
            ("computed", Some(seconds)) => text::duration(seconds),
            _ => String::new(),
        };
        let note = end.note.lines().next().unwrap_or_default().to_owned();
        grid.row([end.instance, end.outcome.to_owned(), took, note]);
    }
    let heading = format!("{name}  run {}, started {}{with}{took}\n{note}", past.record.id, past.started());
    let width = terminal_width().unwrap_or(usize::MAX);
    print_text(&format!("{}{grid}{}", wrap(&heading, width), wrap(&warnings, width)))
}
