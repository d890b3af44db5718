//! Raw text with labels, from CSV (with commas, tabs or semicolons) and from JSON lines.

pub mod columns;
mod csv;
mod joined;
mod jsonl;
mod stream;

use std::collections::HashMap;

use super::artifact::DataSetPart;
use super::csr::Csr;
use super::error::DataError;
use super::format::Format;
use super::read::ReadJob;
use super::read_report::{ReadReport, Repair};
use super::source::DEFAULT_LABEL_SEPARATOR;
use super::text::RawText;
use joined::Join;
use stream::TableText;

/// One row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextRow {
    text: String,
    labels: Vec<String>,
    id: Option<String>,
}

/// The names of the columns or fields that are read.
struct TextColumns<'a> {
    text: &'a str,
    labels: &'a str,
    /// The column that identifies a row, if it is needed.
    id: Option<&'a str>,
    /// What separates the labels inside a CSV column.
    label_separator: &'a str,
    labels_are_optional: bool,
}

impl TextColumns<'_> {
    /// Returns a hint on how to name another column in place of a missing one. Only rows that are to be predicted have
    /// optional labels, and these are read by a command with an option for it.
    fn other_column(&self, missing: &str) -> &'static str {
        if self.labels_are_optional {
            "; `--text-column NAME` names another one"
        } else if missing == self.text {
            "; `read: { input_column: NAME }` names another one"
        } else {
            "; `read: { label_column: NAME }` names another one"
        }
    }
}

/// Reads CSV files.
pub(crate) fn read_csv(job: ReadJob) -> Result<RawText, DataError> {
    read_table(job, Format::Csv, csv::rows)
}

/// Reads files of JSON lines.
pub(crate) fn read_jsonl(job: ReadJob) -> Result<RawText, DataError> {
    read_table(job, Format::Jsonl, jsonl::rows)
}

/// Reads all parts. Labels are numbered in the order in which they first appear.
fn read_table(
    job: ReadJob,
    format: Format,
    parse: impl Fn(TableText, &TextColumns) -> Result<Vec<TextRow>, DataError>,
) -> Result<RawText, DataError> {
    let ReadJob { source, inputs, options, threads, .. } = job;
    let columns = TextColumns {
        text: options.input_column.as_deref().unwrap_or("text"),
        labels: options.label_column.as_deref().unwrap_or("labels"),
        id: options.id_column.as_deref(),
        label_separator: options.label_separator.as_deref().unwrap_or(DEFAULT_LABEL_SEPARATOR),
        labels_are_optional: options.unlabelled,
    };
    if columns.label_separator.is_empty() {
        return Err(DataError::Request("`label_separator` must not be empty".into()));
    }
    if format == Format::Jsonl && options.label_separator.is_some() {
        let reason =
            "a separator of labels is for CSV: in JSON lines, several labels are a list, `[\"a\", \"b\"]`";
        return Err(DataError::Request(reason.into()));
    }
    let join = options.join_column.as_deref().map(|key| Join { key, only: &options.only });
    if join.is_some() && format != Format::Csv {
        let reason = if options.unlabelled {
            "the texts of this model were joined by a column, so that it needs CSV with this column"
        } else {
            "`join_column` is for CSV files"
        };
        return Err(DataError::Request(reason.into()));
    }
    if join.is_none() && !options.only.is_empty() {
        return Err(DataError::Request("`only` needs `join_column`".into()));
    }
    let mut report = ReadReport::new(format);
    let mut texts = Vec::new();
    let mut ids = columns.id.map(|_| Vec::new());
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut parts = Vec::new();
    let mut labels = LabelNumbering::default();
    let mut warnings = Vec::new();
    for (part, input) in source.parts.iter().zip(inputs) {
        let text = TableText::new(input)?;
        report.repairs.add(Repair::ByteOrderMarks, u64::from(text.has_byte_order_mark));
        let start = texts.len();
        let text_rows = match (&join, &part.labels) {
            (None, None) => parse(text, &columns)?,
            (None, Some(_)) => {
                let reason = "the file of labels would be ignored: add `read: { join_column: NAME }` with the column that \
                              it has in common with the file of texts, or leave it out if the texts have their labels";
                return Err(DataError::Request(reason.into()));
            }
            (Some(join), Some(labels)) => {
                let labels = join.labels(labels, &columns, threads)?;
                join.rows(text, &columns, labels, &mut warnings)?
            }
            (Some(join), None) if options.unlabelled => join.new_rows(text, &columns, &mut warnings)?,
            (Some(_), None) => {
                let reason = "`join_column` needs a file of labels: `labels`, `train_labels` or `test_labels` of `files`";
                return Err(DataError::Request(reason.into()));
            }
        };
        for text_row in text_rows {
            let mut row: Vec<u32> = text_row.labels.into_iter().map(|label| labels.number(label)).collect();
            let before = row.len();
            row.sort_unstable();
            row.dedup();
            report.repairs.add(Repair::RepeatedLabelsDropped, (before - row.len()) as u64);
            report.rows_without_labels += u64::from(row.is_empty());
            report.rows_without_features += u64::from(text_row.text.trim().is_empty());
            texts.push(text_row.text);
            if let Some(ids) = &mut ids {
                ids.push(text_row.id.unwrap_or_default());
            }
            rows.push(row);
        }
        if texts.len() == start {
            return Err(DataError::file(&part.data, "it contains no rows"));
        }
        parts.push(DataSetPart::range(&part.name, start..texts.len()));
    }
    let labels_csr = Csr::from_rows(labels.names.len(), &rows);
    Ok(RawText { texts, ids, labels: labels_csr, label_names: labels.names, parts, report, warnings })
}

/// Numbers label names from 0 in the order of their first appearance.
#[derive(Default)]
struct LabelNumbering {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl LabelNumbering {
    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests;
