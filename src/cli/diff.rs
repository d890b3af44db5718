//! `pipe diff`: shows what differs between two runs or two locks.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::args::DiffArgs;
use super::cache::warn_of_damage;
use super::exit::{Failure, Outcome};
use super::history;
use super::metrics;
use super::project::Project;
use super::snapshot::Side;
use super::{print_json, print_status, print_text, text, write_result};
use pipe_core::captured::captured;
use pipe_core::digest::BlobId;
use pipe_core::paint::Paint;
use pipe_engine::lock::Lock;
use pipe_engine::plan::shorten::shorten;
use pipe_engine::store::{Store, TemporaryDirectory};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_report::diff::{
    CellChange, Difference, FigurePair, MetricChange, MetricVerdict, PrintedChange, page,
};
use pipe_report::page::picture::Picture;

/// Runs `pipe diff`.
pub(super) fn diff(project: &Project, args: &DiffArgs) -> Outcome {
    let store = project.store_to_read()?;
    let (mut old, old_origin) = read_side(&store, &args.old, args.volatile)?;
    let (mut new, new_origin) = read_side(&store, &args.new, args.volatile)?;
    // A lock has no evaluations, so they are compared only if both sides have them.
    if (old_origin, new_origin) == (SideOrigin::Run, SideOrigin::Run) {
        old.read_evaluations(&store);
        new.read_evaluations(&store);
    }
    old.read_tables(&store);
    new.read_tables(&store);
    warn_of_damage(project, &store);
    for side in [&old, &new] {
        if side.forgotten > 0 {
            let stages = text::count(side.forgotten, "stage");
            let name = &side.snapshot.name;
            print_status(&format!("{stages} of {name} are no longer in the cache and are left out"));
        }
    }
    let mut difference = Difference::between(&old.snapshot, &new.snapshot);
    if !args.metric.is_empty() {
        require_metrics(&args.metric, [&old, &new])?;
        difference.retain_metrics(&|name| args.metric.iter().any(|wanted| wanted == name));
    }
    match (&args.html, args.json) {
        (Some(path), _) => {
            let figures = changed_figures(&store, &difference, &old, &new)?;
            write_result(path, &page(&difference, &figures).render())
        }
        (None, true) => print_json(&difference),
        (None, false) => print_text(&render(&difference, project.paint_out)),
    }
}

/// Fails if neither side has a metric that was asked for.
fn require_metrics(asked: &[String], sides: [&Side; 2]) -> Result<(), Failure> {
    let stages = || sides.into_iter().flat_map(|side| side.snapshot.stages.values());
    let reported = stages().flat_map(|stage| stage.metrics.keys().map(String::as_str));
    let shown = stages().flat_map(|stage| stage.cells.iter().flat_map(|cells| cells.values()));
    let known: BTreeSet<&str> = reported.chain(shown.map(|cell| cell.metric().name())).collect();
    metrics::require(asked, &known, "no stage of the two has a metric")
}

/// Where one side of the comparison was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SideOrigin {
    Run,
    Lock,
}

/// Reads one side: a lock file, a lock in a git revision (`HEAD~1:pipelines/x.lock`), or a run.
fn read_side(store: &Store, word: &str, volatile: bool) -> Result<(Side, SideOrigin), Failure> {
    let text = if Path::new(word).is_file() {
        std::fs::read_to_string(word)?
    } else if word.contains(':') {
        read_from_git(word)?
    } else if word.ends_with(".lock") {
        return Err(Failure::bad_input(format!("there is no {word}; `pipe lock` writes one")));
    } else {
        let run = history::find(store, word)?;
        return Ok((Side::of_run(store, &run, volatile), SideOrigin::Run));
    };
    let lock: Lock = text.parse().map_err(|error| Failure::bad_input(format!("{word}: {error}")))?;
    Ok((Side::of_lock(word, lock, volatile), SideOrigin::Lock))
}

/// Returns the content of a file in a git revision.
fn read_from_git(word: &str) -> Result<String, Failure> {
    let output = captured(Command::new("git").args(["show", word]));
    let output =
        output.map_err(|error| Failure::bad_input(format!("cannot run git to read `{word}`: {error}")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::bad_input(format!("git has no `{word}`: {}", message.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the differences for the terminal.
fn render(difference: &Difference, paint: Paint) -> String {
    let mut out = format!("old  {}\nnew  {}\n", difference.old, difference.new);
    for stage in &difference.changed {
        let _ = writeln!(out, "\n{}", paint.bold(&stage.stage));
        let params = stage.params.iter().map(|param| &param.name);
        let metrics = stage.metrics.iter().map(|metric| &metric.name);
        // The files of a table follow from its cells.
        let outputs = if stage.cells.is_empty() { &stage.outputs[..] } else { &[] };
        let cells = stage.cells.iter().map(|cell| &cell.printed.name);
        let names = params.chain(metrics).chain(cells).chain(outputs.iter().map(|output| &output.name));
        let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
        for param in &stage.params {
            let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| NONE.to_owned());
            let (old, new) = shorten(&or_none(&param.old), &or_none(&param.new));
            let _ = writeln!(out, "  {:<width$}  {old} -> {new}", param.name);
        }
        let metrics =
            stage.metrics.iter().map(|metric| (metric.name.as_str(), metric_line(metric), metric.verdict));
        let cells = stage.cells.iter();
        let cells = cells.map(|cell| (cell.printed.name.as_str(), cell_line(cell), cell.change.verdict));
        for (name, line, verdict) in metrics.chain(cells) {
            let line = match verdict {
                MetricVerdict::Better => paint.green(&line),
                MetricVerdict::Worse => paint.red(&line),
                MetricVerdict::Other => line,
            };
            let _ = writeln!(out, "  {name:<width$}  {line}");
        }
        for output in outputs {
            let short = |blob: Option<BlobId>| blob.map_or(NONE.to_owned(), BlobId::short);
            let _ =
                writeln!(out, "  {:<width$}  {} -> {}", output.name, short(output.old), short(output.new));
        }
    }
    for (side, stages) in [("old", &difference.only_old), ("new", &difference.only_new)] {
        if !stages.is_empty() {
            let _ = writeln!(out, "\nonly in the {side} one: {}", stages.join(", "));
        }
    }
    let same = difference.same;
    let _ = if difference.is_empty() {
        writeln!(out, "\nno difference: {} the same", text::count(same, "stage"))
    } else {
        writeln!(out, "\n{} changed, {same} the same", text::count(difference.changed.len(), "stage"))
    };
    out
}

/// Shown where one side has no value.
const NONE: &str = "(none)";

fn metric_line(metric: &MetricChange) -> String {
    let value = |value: Option<Marked<f64>>| Some(text::value(value?.reveal().1));
    let signed = |change: f64| format!("{}{}", if change > 0.0 { "+" } else { "" }, text::value(change));
    changed_line([value(metric.old), value(metric.new)], metric.change.map(signed).as_deref(), metric)
}

fn cell_line(cell: &CellChange) -> String {
    let PrintedChange { old, new, change, .. } = &cell.printed;
    changed_line([old.clone(), new.clone()], change.as_deref(), &cell.change)
}

/// Returns both values of a metric and the change between them. A value of the oracle protocol is always marked.
fn changed_line([old, new]: [Option<String>; 2], change: Option<&str>, metric: &MetricChange) -> String {
    let side = |text: Option<String>, value: Option<Marked<f64>>| match (text, value.map(|v| v.protocol())) {
        (Some(text), Some(Protocol::Oracle)) => format!("{text} (oracle)"),
        (Some(text), _) => text,
        (None, _) => NONE.to_owned(),
    };
    let mut line = format!("{} -> {}", side(old, metric.old), side(new, metric.new));
    if let Some(change) = change {
        let _ = write!(line, "  {change} {} {}", metric.arrow(), metric.verdict.word());
    }
    line.trim_end().to_owned()
}

/// Returns the figures among the outputs that changed, also those inside directories.
fn changed_figures(
    store: &Store,
    difference: &Difference,
    old: &Side,
    new: &Side,
) -> Result<Vec<FigurePair>, Failure> {
    let scratch = TemporaryDirectory::new()?;
    let mut pairs = Vec::new();
    for stage in &difference.changed {
        for output in &stage.outputs {
            let figures_of = |side: &Side| -> Result<Vec<Picture>, Failure> {
                let Some(stored) = side.stored(&stage.stage, &output.name) else { return Ok(Vec::new()) };
                // A lock may name content that is not in this cache.
                let Ok(path) = store.artifact(stored, &scratch) else { return Ok(Vec::new()) };
                read_figures(&output.name, &path)
            };
            let (before, after) = (figures_of(old)?, figures_of(new)?);
            let mut names: Vec<&String> = before.iter().chain(&after).map(|picture| &picture.name).collect();
            names.sort();
            names.dedup();
            for name in names {
                let find =
                    |pictures: &[Picture]| pictures.iter().find(|picture| picture.name == *name).cloned();
                let title = format!("{}: {name}", stage.stage);
                pairs.push(FigurePair { name: title, old: find(&before), new: find(&after) });
            }
        }
    }
    Ok(pairs)
}

/// Larger files are not read.
const LARGEST_FIGURE: u64 = 8 << 20;

/// Returns the figures in a file, or in the files of a directory.
fn read_figures(name: &str, path: &Path) -> Result<Vec<Picture>, Failure> {
    if path.is_dir() {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            all.extend(read_figures(&entry.file_name().to_string_lossy(), &entry.path())?);
        }
        return Ok(all);
    }
    if path.metadata()?.len() > LARGEST_FIGURE {
        return Ok(Vec::new());
    }
    Ok(Picture::sniff(name, &std::fs::read(path)?).into_iter().collect())
}
