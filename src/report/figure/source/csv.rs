//! Results in a CSV file: one row for each, with the names of axes and values in the first row.

use std::collections::{BTreeMap, BTreeSet};

use ::csv::{ReaderBuilder, StringRecord};

use super::super::naming::RunAxes;
use super::{FigureRecord, SOURCE_AXIS, SourceError, SourceFile};
use pipe_core::scalar::canonical_plain;
use pipe_core::suggest;
use pipe_ml::metric::marked::Protocol;

/// The column of the protocol, if there is one.
const PROTOCOL: &str = "protocol";

/// A row, with its line in the file.
type Row = (u64, StringRecord);

/// Reads all rows.
pub(super) fn read(
    file: &SourceFile,
    text: &str,
    shown: &BTreeSet<&str>,
) -> Result<Vec<(RunAxes, FigureRecord)>, SourceError> {
    if let Some(stage) = file.stages.first() {
        return Err(file.error(format!("`stages: {stage}` selects stages of a lock, but this is no lock")));
    }
    let mut rows = rows(file, text)?.into_iter();
    let Some((line, names)) = rows.next() else { return Err(file.error("the file is empty")) };
    let rows: Vec<Row> = rows.collect();
    let names: Vec<&str> = names.iter().collect();
    check_names(file, line, &names)?;
    if rows.is_empty() {
        return Err(file.error("there are no rows below the names of the columns"));
    }
    for axis in file.axes {
        if !names.contains(&axis.as_str()) {
            let problem = format!("there is no column `{axis}`, which `axes` names{}", columns(&names, axis));
            return Err(file.error(problem));
        }
    }
    let is_axis: Vec<bool> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let is_named = shown.contains(name) || file.axes.iter().any(|axis| axis == name);
            is_named || rows.iter().all(|(_, row)| number(&row[at]).is_none())
        })
        .collect();
    rows.iter().map(|row| record(file, &names, &is_axis, row)).collect()
}

fn rows(file: &SourceFile, text: &str) -> Result<Vec<Row>, SourceError> {
    let first = text.lines().next().unwrap_or_default();
    let count = |separator: &u8| first.bytes().filter(|byte| byte == separator).count();
    let separator = [b';', b'\t', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut rows: Vec<Row> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for record in reader.records() {
        let record = record.map_err(|error| file.error(error.to_string()))?;
        // The reader skips blank lines in front of a record, and its position is before them.
        let start = record.position().map_or(counted, |position| position.byte() as usize);
        let blank = text.as_bytes()[start..].iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        line += text.as_bytes()[counted..start + blank].iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = start + blank;
        if let Some((_, names)) = rows.first()
            && names.len() != record.len()
        {
            let problem =
                format!("the row has {} columns, but the first one has {}", record.len(), names.len());
            return Err(file.error_at(line, problem));
        }
        rows.push((line, record));
    }
    Ok(rows)
}

fn check_names(file: &SourceFile, line: u64, names: &[&str]) -> Result<(), SourceError> {
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(file.error_in(line, at, "the column has no name"));
        }
        if names[..at].contains(name) {
            return Err(file.error_in(line, at, format!("two columns are called `{name}`")));
        }
        if *name == SOURCE_AXIS {
            let problem = "the name `source` stands for the file; rename the column";
            return Err(file.error_in(line, at, problem));
        }
    }
    Ok(())
}

/// Returns the end of a message about a column that does not exist.
fn columns(names: &[&str], wanted: &str) -> String {
    let meant = suggest::closest(wanted, names.iter().copied());
    let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    format!("{meant}; the columns are: {}", names.join(", "))
}

fn record(
    file: &SourceFile,
    names: &[&str],
    is_axis: &[bool],
    (line, row): &Row,
) -> Result<(RunAxes, FigureRecord), SourceError> {
    let mut axes = RunAxes::new();
    let mut values = BTreeMap::new();
    let mut protocol = Protocol::Honest;
    for (at, (name, text)) in names.iter().zip(row).enumerate() {
        if text.is_empty() {
            continue;
        }
        if *name == PROTOCOL {
            protocol = [Protocol::Honest, Protocol::Oracle]
                .into_iter()
                .find(|known| known.name() == text)
                .ok_or_else(|| {
                    let problem = format!("the protocol is `honest` or `oracle`, not `{text}`");
                    file.error_in(*line, at, problem)
                })?;
        } else if is_axis[at] {
            axes.push(((*name).to_owned(), canonical_plain(text).into_owned()));
        } else {
            let value = number(text).ok_or_else(|| {
                let problem = format!(
                    "`{text}` is not a number, but other values of `{name}` are; if the column is an axis, \
                     add `axes: [{name}]` to the file"
                );
                file.error_in(*line, at, problem)
            })?;
            values.insert((*name).to_owned(), value);
        }
    }
    Ok((axes, FigureRecord { protocol, values }))
}

/// Returns a number, if the text is one.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
