//! Evaluations in the lock of another pipeline: their axes and the metrics that they announced.

use std::collections::{BTreeMap, BTreeSet};

use super::super::naming::RunAxes;
use super::{FigureRecord, STAGE_AXIS, SourceError, SourceFile};
use pipe_core::digest::Digest;
use pipe_core::reference::{Selector, StageRef};
use pipe_core::suggest;
use pipe_ml::metric::marked::Protocol;

const HEAD: &str = "pipe lock 2";
/// How the records of evaluations say what they are.
const EVALUATION: &str = "in kind evaluate";

/// One record of a lock.
struct Record<'a> {
    /// The line of its name, counted from 1.
    line: u64,
    name: String,
    /// The lines without the seal.
    lines: Vec<&'a str>,
}

/// Returns whether a text is a lock, of any version.
pub(super) fn is_lock(text: &str) -> bool {
    text.starts_with("pipe lock ")
}

/// Reads the evaluations.
pub(super) fn read(file: &SourceFile, text: &str) -> Result<Vec<(RunAxes, FigureRecord)>, SourceError> {
    if text.lines().next() != Some(HEAD) {
        let problem = "the lock was written by another version of `pipe`; write it again with `pipe lock`";
        return Err(file.error_at(1, problem));
    }
    let mut found = Vec::new();
    for record in records(file, text)?.into_iter().filter(|record| record.lines.contains(&EVALUATION)) {
        let reference: StageRef =
            record.name.parse().map_err(|error| file.error_at(record.line, format!("{error}")))?;
        found.push((record, reference));
    }
    let stages: BTreeSet<String> = found.iter().map(|(_, name)| name.stage().to_owned()).collect();
    if stages.is_empty() {
        return Err(file.error("the lock has no evaluations"));
    }
    if let Some(wanted) = file.stages.iter().find(|wanted| !stages.contains(*wanted)) {
        let meant = suggest::closest(wanted, stages.iter().map(String::as_str));
        let meant = meant.map(|stage| format!(" (did you mean `{stage}`?)")).unwrap_or_default();
        let known: Vec<&str> = stages.iter().map(String::as_str).collect();
        let problem =
            format!("no stage `{wanted}` evaluates a model{meant}; those that do are {}", known.join(", "));
        return Err(file.error(problem));
    }
    let is_wanted = |stage: &str| file.stages.is_empty() || file.stages.iter().any(|wanted| wanted == stage);
    found.retain(|(_, name)| is_wanted(name.stage()));
    found.iter().map(|(record, name)| evaluation(file, record, name)).collect()
}

/// Returns all records that are whole.
fn records<'a>(file: &SourceFile, text: &'a str) -> Result<Vec<Record<'a>>, SourceError> {
    let mut records: Vec<Record> = Vec::new();
    let mut open: Option<Record> = None;
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(name) = content.strip_prefix("stage ") {
            let name = match name.strip_prefix('\\') {
                Some(json) => serde_json::from_str(json)
                    .map_err(|error| file.error_at(line, format!("the name cannot be read: {error}")))?,
                None => name.to_owned(),
            };
            open = Some(Record { line, name, lines: vec![content] });
        } else if let Some(seal) = content.strip_prefix("seal ") {
            let Some(record) = open.take() else { continue };
            let body = record.lines.join("\n") + "\n";
            if seal.is_empty() || !Digest::of(body.as_bytes()).to_hex().starts_with(seal) {
                let problem = format!(
                    "the record of `{}` was edited; write the lock again with `pipe lock`",
                    record.name
                );
                return Err(file.error_at(record.line, problem));
            }
            records.push(record);
        } else if let Some(record) = &mut open {
            record.lines.push(content);
        }
    }
    match open {
        Some(record) => {
            Err(file.error_at(record.line, format!("the record of `{}` has no end", record.name)))
        }
        None => Ok(records),
    }
}

fn evaluation(
    file: &SourceFile,
    record: &Record,
    name: &StageRef,
) -> Result<(RunAxes, FigureRecord), SourceError> {
    let mut axes: RunAxes = vec![(STAGE_AXIS.to_owned(), name.stage().to_owned())];
    let mut unnamed = file.axes.iter();
    let terms = match name.selector() {
        Selector::All => &[][..],
        Selector::Terms(terms) => terms,
    };
    for term in terms {
        let axis = match &term.axis {
            Some(axis) => axis,
            None => unnamed.next().ok_or_else(|| {
                let problem = format!(
                    "`{}` does not say on which axis `{}` is; add the name to `axes` of the file, \
                     for example `axes: [variant]`",
                    record.name, term.value
                );
                file.error_at(record.line, problem)
            })?,
        };
        axes.push((axis.clone(), term.value.clone()));
    }
    let mut protocol = Protocol::Honest;
    let mut values = BTreeMap::new();
    for (line, content) in (record.line..).zip(&record.lines) {
        let Some(metric) = content.strip_prefix("metric ") else { continue };
        let mut words = metric.split(' ');
        let (Some(metric), Some(value)) = (words.next(), words.next()) else { continue };
        let value: f64 =
            value.parse().map_err(|_| file.error_at(line, format!("`{value}` is not a number")))?;
        if words.next() == Some(Protocol::Oracle.name()) {
            protocol = Protocol::Oracle;
        }
        if value.is_finite() {
            values.insert(metric.to_owned(), value);
        }
    }
    Ok((axes, FigureRecord { protocol, values }))
}
