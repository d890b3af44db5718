//! Raw text with labels, from CSV (also parted by tabs or semicolons) and from JSON lines.

mod csv;
mod jsonl;

use std::collections::HashMap;

use super::artifact::Part;
use super::compress::Input;
use super::csr::Csr;
use super::error::{DataError, Fault};
use super::report::{Format, ReadReport, Repair};
use super::source::{ReadOptions, Source};
use super::text::RawText;

/// One row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    text: String,
    labels: Vec<String>,
}

/// Which columns or fields are read, and how labels are parted inside one.
struct Fields<'a> {
    text: &'a str,
    labels: &'a str,
    separator: &'a str,
    /// A file without labels is fine.
    optional: bool,
}

impl Fields<'_> {
    /// How to name another column of texts: new rows come by the command line, where labels are optional.
    fn other_column(&self) -> &'static str {
        if self.optional { " (`--text-column NAME` names another)" } else { "" }
    }
}

/// Reads CSV or JSON lines. Labels are numbered in the order in which they first appear.
pub fn read_table(
    source: &Source,
    inputs: Vec<Input>,
    format: Format,
    options: &ReadOptions,
) -> Result<RawText, DataError> {
    let fields = Fields {
        text: options.input_column.as_deref().unwrap_or("text"),
        labels: options.label_column.as_deref().unwrap_or("labels"),
        separator: options.label_separator.as_deref().unwrap_or(";"),
        optional: options.unlabelled,
    };
    if fields.separator.is_empty() {
        return Err(DataError::Request("`label_separator` is empty".into()));
    }
    let mut report = ReadReport::new(format);
    let mut texts = Vec::new();
    let mut rows: Vec<Vec<u32>> = Vec::new();
    let mut parts = Vec::new();
    let mut labels = Numbering::default();
    for (part, mut input) in source.parts.iter().zip(inputs) {
        let mut content = input.read_all()?;
        if content.starts_with(b"\xef\xbb\xbf") {
            content.drain(..3);
            report.repairs.add(Repair::ByteOrderMarks, 1);
        }
        let located = |fault: Fault| DataError::from(fault.locate(input.path(), &content, 0));
        let text = std::str::from_utf8(&content)
            .map_err(|e| located(Fault::new(e.valid_up_to(), "this is not UTF-8 text")))?;
        let records = match format {
            Format::Csv => csv::records(text, &fields),
            _ => jsonl::records(text, &fields),
        };
        let start = texts.len();
        for record in records.map_err(located)? {
            let mut row: Vec<u32> = record.labels.into_iter().map(|label| labels.number(label)).collect();
            let named = row.len();
            row.sort_unstable();
            row.dedup();
            report.repairs.add(Repair::RepeatedLabelsDropped, (named - row.len()) as u64);
            report.rows_without_labels += u64::from(row.is_empty());
            report.rows_without_features += u64::from(record.text.trim().is_empty());
            texts.push(record.text);
            rows.push(row);
        }
        if texts.len() == start {
            return Err(DataError::file(input.path(), "it holds no rows"));
        }
        parts.push(Part::range(&part.name, start..texts.len()));
    }
    let labels_csr = Csr::from_rows(labels.names.len(), &rows);
    Ok(RawText { texts, labels: labels_csr, label_names: labels.names, parts, report })
}

/// Numbers for names, from 0, in the order of first appearance.
#[derive(Default)]
struct Numbering {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Numbering {
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
