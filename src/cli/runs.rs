//! `pipe runs`: lists past runs, or shows one.

use serde_json::{Value, json};

use super::args::{RunsArgs, RunsCommand};
use super::cache::warn_of_damage;
use super::exit::{Exit, Outcome};
use super::history::{self, PastRun};
use super::project::Project;
use super::table::Grid;
use super::variant_files::set_arguments;
use super::{print_json, print_text, text};

/// Runs `pipe runs`.
pub(super) fn runs(project: &Project, args: &RunsArgs) -> Outcome {
    match &args.command {
        None => list(project, args.limit, args.json),
        Some(RunsCommand::Show { run, json }) => show(project, run, *json),
    }
}

fn list(project: &Project, limit: usize, as_json: bool) -> Outcome {
    let store = project.store_to_read()?;
    let records = store.runs()?.into_iter().take(limit);
    let runs: Vec<PastRun> = records.map(|record| PastRun::read(&store, record)).collect::<Result<_, _>>()?;
    warn_of_damage(project, &store);
    if as_json {
        return print_json(&runs.iter().map(run_json).collect::<Vec<_>>());
    }
    if runs.is_empty() {
        project.status("nothing has been run here yet");
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(&[
        "run", "started", "pipeline", "state", "computed", "cached", "failed", "skipped", "took", "with",
    ])
    .right_aligned(&[4, 5, 6, 7, 8]);
    for past in &runs {
        let count = |outcome| past.count(outcome).to_string();
        grid.row([
            past.record.id.clone(),
            past.started(),
            past.pipeline().to_owned(),
            past.state().to_owned(),
            count("computed"),
            count("cached"),
            count("failed"),
            count("skipped"),
            past.summary().map(|summary| text::duration(summary.seconds)).unwrap_or_default(),
            set_arguments(past.set()).trim_start().to_owned(),
        ]);
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
    if as_json {
        let mut shown = run_json(&past);
        shown["stages"] = serde_json::to_value(&instances).map_err(anyhow::Error::from)?;
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
    let mut grid = Grid::new(&["stage", "outcome", "took", "why"]).right_aligned(&[2]);
    for end in instances {
        let took = match (end.outcome, end.seconds) {
            ("computed", Some(seconds)) => text::duration(seconds),
            _ => String::new(),
        };
        let note = end.note.lines().next().unwrap_or_default().to_owned();
        grid.row([end.instance, end.outcome.to_owned(), took, note]);
    }
    print_text(&format!("{name}  run {}, started {}{with}{took}\n{grid}", past.record.id, past.started()))
}
