//! `pipe diff`: what differs between two runs, or two locks.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::args::DiffArgs;
use super::cache::warn_of_damage;
use super::exit::{Failure, Outcome};
use super::history;
use super::project::Project;
use super::snapshot::Side;
use super::{print_json, print_text, text, write_result};
use pipe_engine::lock::Lock;
use pipe_engine::store::Store;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_report::diff::{Difference, FigurePair, MetricChange, Verdict, page};
use pipe_report::page::picture::Picture;

pub(super) fn diff(project: &Project, args: &DiffArgs) -> Outcome {
    let store = project.store_to_read()?;
    let (mut old, mut new) =
        (side(&store, &args.old, args.volatile)?, side(&store, &args.new, args.volatile)?);
    if let (Told::Run(old), Told::Run(new)) = (&mut old, &mut new) {
        old.read_evaluations(&store);
        new.read_evaluations(&store);
    }
    let (Told::Run(old) | Told::Lock(old), Told::Run(new) | Told::Lock(new)) = (old, new);
    warn_of_damage(project, &store);
    for side in [&old, &new] {
        if side.forgotten > 0 {
            let stages = text::count(side.forgotten, "stage");
            eprintln!("the cache no longer knows {stages} of {}; they are left out", side.snapshot.name);
        }
    }
    let difference = Difference::between(&old.snapshot, &new.snapshot);
    match (&args.html, args.json) {
        (Some(path), _) => {
            let figures = figures(&store, &difference, &old, &new)?;
            write_result(path, &page(&difference, &figures).render())
        }
        (None, true) => print_json(&difference),
        (None, false) => print_text(&shown(project, &difference)),
    }
}

/// A side, and who told it.
enum Told {
    Run(Side),
    Lock(Side),
}

/// A lock file, one in a revision of git (`HEAD~1:pipelines/x.lock`), or a run.
fn side(store: &Store, word: &str, volatile: bool) -> Result<Told, Failure> {
    let parsed = |text: &str| {
        let lock: Lock = text.parse().map_err(|error| Failure::bad_input(format!("{word}: {error}")))?;
        Ok(Told::Lock(Side::of_lock(word, lock, volatile)))
    };
    if Path::new(word).is_file() {
        return parsed(&std::fs::read_to_string(word)?);
    }
    if word.contains(':') {
        return parsed(&in_revision(word)?);
    }
    if word.ends_with(".lock") {
        return Err(Failure::bad_input(format!("there is no {word}; `pipe lock` writes one")));
    }
    Ok(Told::Run(Side::of_run(store, &history::find(store, word)?, volatile)))
}

fn in_revision(word: &str) -> Result<String, Failure> {
    let output = Command::new("git").args(["show", word]).output();
    let output = output.map_err(|error| Failure::bad_input(format!("git, which `{word}` needs: {error}")))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::bad_input(format!("git has no `{word}`: {}", complaint.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(project: &Project, difference: &Difference) -> String {
    let paint = project.paint_out;
    let mut out = format!("old  {}\nnew  {}\n", difference.old, difference.new);
    for stage in &difference.changed {
        let _ = writeln!(out, "\n{}", paint.bold(&stage.stage));
        let names = stage.params.iter().map(|param| &param.name);
        let names = names.chain(stage.metrics.iter().map(|metric| &metric.name));
        let width = names
            .chain(stage.outputs.iter().map(|output| &output.name))
            .map(|name| name.chars().count())
            .max();
        let width = width.unwrap_or(0);
        for param in &stage.params {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
            let (old, new) = shortened(&value(&param.old), &value(&param.new));
            let _ = writeln!(out, "  {:<width$}  {old} -> {new}", param.name);
        }
        for metric in &stage.metrics {
            let line = metric_line(metric);
            let line = match metric.verdict {
                Verdict::Better => paint.green(&line),
                Verdict::Worse => paint.red(&line),
                Verdict::Other => line,
            };
            let _ = writeln!(out, "  {:<width$}  {line}", metric.name);
        }
        for output in &stage.outputs {
            let blob = |blob: Option<pipe_core::digest::BlobId>| {
                blob.map_or("(none)".to_owned(), |blob| blob.short())
            };
            let _ = writeln!(out, "  {:<width$}  {} -> {}", output.name, blob(output.old), blob(output.new));
        }
    }
    for (side, stages) in [("old", &difference.only_old), ("new", &difference.only_new)] {
        if !stages.is_empty() {
            let _ = writeln!(out, "\nonly in the {side}: {}", stages.join(", "));
        }
    }
    let same = text::count(difference.same, "stage");
    let _ = match difference.is_empty() {
        true => writeln!(out, "\nno difference: {same} the same"),
        false => writeln!(
            out,
            "\n{} changed, {} the same",
            text::count(difference.changed.len(), "stage"),
            difference.same
        ),
    };
    out
}

/// Long values are cut down to where they differ: the whole of them is in `--json`.
fn shortened(old: &str, new: &str) -> (String, String) {
    const LONG: usize = 60;
    const AROUND: usize = 16;
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    if old.len().max(new.len()) <= LONG {
        return (old.iter().collect(), new.iter().collect());
    }
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let shorter = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let cut = |text: &[char]| {
        let from = start.saturating_sub(AROUND);
        let to = (text.len() - end + AROUND).min(text.len()).min(from + LONG);
        let (front, back) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        format!("{front}{}{back}", text[from..to].iter().collect::<String>())
    };
    (cut(&old), cut(&new))
}

fn metric_line(metric: &MetricChange) -> String {
    let mut line = format!("{} -> {}", figure(metric.old), figure(metric.new));
    if let Some(change) = metric.change {
        let sign = if change > 0.0 { "+" } else { "" };
        let _ = write!(line, "  {sign}{} {} {}", text::figure(change), metric.arrow(), metric.verdict.word());
    }
    line.trim_end().to_owned()
}

/// An oracle figure never goes without its mark.
fn figure(value: Option<Marked<f64>>) -> String {
    match value.map(Marked::reveal) {
        None => "(none)".to_owned(),
        Some((Protocol::Honest, value)) => text::figure(value),
        Some((Protocol::Oracle, value)) => format!("{} (oracle)", text::figure(value)),
    }
}

/// The figures among the outputs that changed; of directories, those inside.
fn figures(
    store: &Store,
    difference: &Difference,
    old: &Side,
    new: &Side,
) -> Result<Vec<FigurePair>, Failure> {
    let scratch = tempfile::tempdir()?;
    let mut pairs = Vec::new();
    for stage in &difference.changed {
        for output in &stage.outputs {
            let side = |side: &Side| -> Result<Vec<Picture>, Failure> {
                let Some(stored) = side.stored(&stage.stage, &output.name) else { return Ok(Vec::new()) };
                // What a lock names may be in no cache here.
                let Ok(path) = store.artifact(stored, scratch.path()) else { return Ok(Vec::new()) };
                pictures(&output.name, &path)
            };
            let (before, after) = (side(old)?, side(new)?);
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

/// Larger files are not looked into.
const LARGEST: u64 = 8 << 20;

fn pictures(name: &str, path: &Path) -> Result<Vec<Picture>, Failure> {
    if path.is_dir() {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            all.extend(pictures(&entry.file_name().to_string_lossy(), &entry.path())?);
        }
        return Ok(all);
    }
    if path.metadata()?.len() > LARGEST {
        return Ok(Vec::new());
    }
    Ok(Picture::sniff(name, &std::fs::read(path)?).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_values_are_cut_down_to_where_they_differ() {
        let long = |middle: &str| format!("{}{middle}{}", "a".repeat(50), "z".repeat(50));
        let around = |middle: &str| format!("…{}{middle}{}…", "a".repeat(16), "z".repeat(16));
        assert_eq!(shortened(&long("1"), &long("22")), (around("1"), around("22")));
        assert_eq!(shortened("1", "2"), ("1".to_owned(), "2".to_owned()));
        let (whole, prefix) = shortened(&"a".repeat(100), &"a".repeat(90));
        assert!(whole.starts_with('…') && prefix.starts_with('…'), "{whole} {prefix}");
    }
}
