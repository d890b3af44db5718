//! Predictions in a CSV file whose first line names the columns.

use csv::{ErrorKind, ReaderBuilder, StringRecord};

use super::ExpectedPredictions;
use super::entries::{Columns, Entry, ListedPredictions};
use crate::data::compress::InputFile;
use crate::data::error::DataError;
use crate::label_finder::LabelFinder;

pub(super) fn read(
    expected: &ExpectedPredictions,
    input: &mut InputFile,
) -> Result<ListedPredictions, DataError> {
    let bytes = input.read_all()?;
    let path = input.path();
    let mut reader = ReaderBuilder::new().from_reader(&bytes[..]);
    let header = reader.headers().map_err(|error| DataError::file(path, error.to_string()))?;
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    let columns = Columns::find(&names, "column").map_err(|reason| {
        let reason = format!("{reason}; its first line must name the columns, for example `row,label,score`");
        DataError::file(path, reason)
    })?;
    let mut listed = ListedPredictions::new(columns, expected, path)?;
    let labels = expected.label_finder();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| DataError::file(path, reason(&error)))? {
        let entry = entry(&listed, expected, &labels, columns, &record).map_err(|reason| {
            let line = record.position().map_or(0, csv::Position::line);
            DataError::file(path, format!("line {line}: {reason}"))
        })?;
        listed.entries.push(entry);
    }
    Ok(listed)
}

/// Returns why a line cannot be read.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { pos: Some(position), expected_len, len } => {
            format!(
                "line {}: this line has {len} columns, but the first line has {expected_len}",
                position.line()
            )
        }
        ErrorKind::Utf8 { pos: Some(position), .. } => {
            format!("line {}: this is not UTF-8 text", position.line())
        }
        _ => error.to_string(),
    }
}

fn entry(
    listed: &ListedPredictions,
    expected: &ExpectedPredictions,
    labels: &LabelFinder,
    columns: Columns,
    record: &StringRecord,
) -> Result<Entry, String> {
    let row = record[columns.row].trim();
    let row = row.parse().map_err(|_| format!("`{row}` is not the number of a row"))?;
    let score = columns.score.map(|column| {
        let text = record[column].trim();
        let score = text.parse().map_err(|_| format!("`{text}` is not a score"))?;
        listed.check_score(expected, score)
    });
    let predicted = columns.predicted.map(|column| match record[column].trim() {
        "1" | "true" | "True" => Ok(true),
        "0" | "false" | "False" => Ok(false),
        other => Err(format!("`predicted` is `{other}`, but must be `true`, `false`, `1` or `0`")),
    });
    Ok(Entry {
        row: expected.check_row(row)?,
        label: labels.find(&record[columns.label])?,
        score: score.unwrap_or(Ok(0.0))?,
        predicted: predicted.unwrap_or(Ok(true))?,
    })
}
