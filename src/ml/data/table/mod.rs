//! Raw text with labels, from CSV (with commas, tabs or semicolons) and from JSON lines.

pub mod columns;
mod csv;
mod joined;
mod jsonl;

use std::collections::HashMap;

use super::artifact::DataSetPart;
use super::csr::Csr;
use super::error::{DataError, Fault};
use super::format::Format;
use super::read::ReadJob;
use super::read_report::{ReadReport, Repair};
use super::source::DEFAULT_LABEL_SEPARATOR;
use super::text::RawText;
use joined::Join;

/// The reason for refusing a row that would fill the memory.
const TOO_LONG: &str = "this row is longer than 256 MB";

/// One row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextRow {
    text: String,
    labels: Vec<String>,
}

/// The names of the columns or fields that are read.
struct TextColumns<'a> {
    text: &'a str,
    labels: &'a str,
    /// What separates the labels inside a CSV column.
    label_separator: &'a str,
    labels_are_optional: bool,
}

impl TextColumns<'_> {
    /// Returns a hint on how to name another column of texts. Only rows that are to be predicted have optional labels, and
    /// these are read by a command with an option for it.
    fn other_column(&self) -> &'static str {
        if self.labels_are_optional { " (`--text-column NAME` names another)" } else { "" }
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
    parse: impl Fn(&str, &TextColumns) -> Result<Vec<TextRow>, Fault>,
) -> Result<RawText, DataError> {
    let ReadJob { source, inputs, options, threads, .. } = job;
    let columns = TextColumns {
        text: options.input_column.as_deref().unwrap_or("text"),
        labels: options.label_column.as_deref().unwrap_or("labels"),
        label_separator: options.label_separator.as_deref().unwrap_or(DEFAULT_LABEL_SEPARATOR),
        labels_are_optional: options.unlabelled,
    };
    if columns.label_separator.is_empty() {
        return Err(DataError::Request("`label_separator` must not be empty".into()));
    }
    let join = options.join_column.as_deref().map(|key| Join { key, only: &options.only });
    if join.is_some() && format != Format::Csv {
        return Err(DataError::Request("`join_column` is for CSV files".into()));
    }
    if join.is_none() && !options.only.is_empty() {
        return Err(DataError::Request("`only` needs `join_column`".into()));
    }
    let mut report = ReadReport::new(format);
    let mut texts = Vec::new();
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut parts = Vec::new();
    let mut labels = LabelNumbering::default();
    for (part, mut input) in source.parts.iter().zip(inputs) {
        let mut content = input.read_all()?;
        report.repairs.add(Repair::ByteOrderMarks, u64::from(strip_byte_order_mark(&mut content)));
        let located = |fault: Fault| DataError::from(fault.locate(input.path(), &content, 0));
        let text = utf8(&content).map_err(located)?;
        let start = texts.len();
        let text_rows = match (&join, &part.labels) {
            (None, _) => parse(text, &columns).map_err(located)?,
            (Some(join), Some(labels)) => {
                let labels = join.labels(labels, &columns, threads)?;
                join.rows(text, &columns, labels).map_err(located)?
            }
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
            rows.push(row);
        }
        if texts.len() == start {
            return Err(DataError::file(input.path(), "it contains no rows"));
        }
        parts.push(DataSetPart::range(&part.name, start..texts.len()));
    }
    let labels_csr = Csr::from_rows(labels.names.len(), &rows);
    Ok(RawText { texts, labels: labels_csr, label_names: labels.names, parts, report })
}

/// Removes a byte-order mark, and returns whether there was one.
fn strip_byte_order_mark(content: &mut Vec<u8>) -> bool {
    let marked = content.starts_with(b"\xef\xbb\xbf");
    if marked {
        content.drain(..3);
    }
    marked
}

fn utf8(content: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(content).map_err(|error| Fault::new(error.valid_up_to(), "this is not UTF-8 text"))
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
