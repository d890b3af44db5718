//! Comma-separated values, read with the `csv` crate.
//!
//! The first row names the columns. The separator is the one of comma, tab and semicolon that occurs most often in it.
//! Quoting follows RFC 4180; text behind a closing quote belongs to the field, as in pandas. Blank lines are skipped.

use std::io::Read;

use csv::{ErrorKind, ReaderBuilder, StringRecord};

use super::columns::{Cell, TableColumn};
use super::stream::TableText;
use super::{TextColumns, TextRow};
use crate::data::error::{DataError, Fault};

/// A row that is appended to the text: an unclosed quote swallows it.
const END_OF_TEXT: &str = "\n\u{0}end of text\u{0}\n";
/// How many names of columns, and how many characters of each, a message lists.
const LISTED_NAMES: usize = 20;
const LISTED_CHARACTERS: usize = 40;

pub(super) fn rows(text: TableText, columns: &TextColumns) -> Result<Vec<TextRow>, DataError> {
    let mut header: Option<CsvHeader> = None;
    let mut rows = Vec::new();
    let text = for_each_record(text, |record| {
        match &header {
            None => header = Some(CsvHeader::find(record, columns)?),
            Some(header) => rows.push(header.row(record, columns)?),
        }
        Ok(())
    })?;
    if header.is_none() {
        let reason = "it contains only blank lines, but the first row has to name the columns";
        return Err(DataError::file(text.path(), reason));
    }
    Ok(rows)
}

/// A row of a table with named columns.
pub(super) struct CsvRow<'a> {
    names: &'a [String],
    record: &'a StringRecord,
}

impl CsvRow<'_> {
    /// Returns the value of a column without surrounding blanks.
    pub(super) fn value(&self, name: &str) -> Result<&str, String> {
        let at = find_column(self.names.iter().map(String::as_str), name)?;
        Ok(self.record[at].trim())
    }

    /// Returns whether there is a column of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|column| column == name)
    }
}

/// Calls a function with every row below the names of the columns.
pub(super) fn for_each_row(
    text: TableText,
    mut visit: impl FnMut(&CsvRow) -> Result<(), String>,
) -> Result<TableText, DataError> {
    let mut names: Vec<String> = Vec::new();
    for_each_record(text, |record| {
        if names.is_empty() {
            names.extend(record.iter().map(|name| name.trim().to_owned()));
            return Ok(());
        }
        check_width(record, names.len())?;
        visit(&CsvRow { names: &names, record })
    })
}

/// Reads all columns.
pub(super) fn columns(text: TableText) -> Result<Vec<TableColumn>, DataError> {
    let mut columns: Vec<TableColumn> = Vec::new();
    for_each_record(text, |record| {
        if columns.is_empty() {
            columns.extend(record.iter().map(|name| TableColumn::new(name.trim())));
            return Ok(());
        }
        check_width(record, columns.len())?;
        for (column, value) in columns.iter_mut().zip(record) {
            column.cells.push(Cell::Text(value.to_owned()));
        }
        Ok(())
    })?;
    Ok(columns)
}

/// Calls a function with every record, which returns what is wrong with it. The first record names the columns.
fn for_each_record(
    text: TableText,
    mut visit: impl FnMut(&StringRecord) -> Result<(), String>,
) -> Result<TableText, DataError> {
    let separator = separator(text.head());
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(1 << 16)
        .from_reader(text.chain(END_OF_TEXT.as_bytes()));
    let mut record = StringRecord::new();
    let mut columns = None;
    loop {
        // Includes the line ends before the record.
        let start = reader.position().byte() as usize;
        reader.get_mut().get_mut().0.start_row();
        let read = reader.read_record(&mut record);
        let text = reader.get_ref().get_ref().0;
        let is_record = read.map_err(|error| match error.into_kind() {
            ErrorKind::Io(error) => text.read_error(error, start),
            kind => text.fault(Fault::new(start, format!("{kind:?}"))),
        })?;
        let last_field = record.iter().next_back().unwrap_or_default();
        if !is_record || last_field == END_OF_TEXT.trim() {
            break;
        }
        if last_field.ends_with(END_OF_TEXT) {
            let reason = "a quote that is opened in this row is not closed";
            return Err(text.fault(Fault::new(start, reason)));
        }
        // The reader itself skips blank lines, so this is `""`: an empty text if there is only one column.
        if record.len() == 1 && record[0].is_empty() && columns != Some(1) {
            continue;
        }
        columns.get_or_insert(record.len());
        visit(&record).map_err(|reason| text.fault(Fault::new(start, reason)))?;
    }
    Ok(reader.into_inner().into_inner().0)
}

fn check_width(record: &StringRecord, columns: usize) -> Result<(), String> {
    if record.len() == columns {
        return Ok(());
    }
    Err(format!("this row has {} columns, but the first row has {columns}", record.len()))
}

fn separator(head: &[u8]) -> u8 {
    let mut lines = head.split(|byte| matches!(byte, b'\n' | b'\r'));
    let first_line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let count = |separator: u8| first_line.iter().filter(|&&byte| byte == separator).count();
    // `max_by_key` returns the last of equal counts: the comma.
    [b';', b'\t', b','].into_iter().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

/// Returns the position of the only column of this name.
fn find_column<'a>(names: impl Iterator<Item = &'a str> + Clone, name: &str) -> Result<usize, String> {
    let mut found = names.clone().enumerate().filter(|(_, column)| *column == name).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err(format!("more than one column is named `{name}`: rename the others")),
        (None, _) => Err(format!(
            "there is no column `{name}`; the columns are: {} (the first row names them)",
            listed(names)
        )),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let count = names.clone().count();
    let shortened = |name: &'a str| match name.char_indices().nth(LISTED_CHARACTERS) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    };
    let mut listed = names.take(LISTED_NAMES).map(shortened).collect::<Vec<_>>().join(", ");
    if count > LISTED_NAMES {
        listed.push_str(&format!(" and {} more", count - LISTED_NAMES));
    }
    listed
}

/// The positions of the columns that are read.
struct CsvHeader {
    columns: usize,
    text: usize,
    labels: Option<usize>,
    id: Option<usize>,
}

impl CsvHeader {
    fn find(record: &StringRecord, columns: &TextColumns) -> Result<Self, String> {
        let names: Vec<&str> = record.iter().map(str::trim).collect();
        let find = |name: &str| {
            find_column(names.iter().copied(), name).map_err(|reason| reason + columns.other_column(name))
        };
        let text = find(columns.text)?;
        // Whatever rows that are to be predicted have there is ignored.
        let labels = (!columns.labels_are_optional).then(|| find(columns.labels)).transpose()?;
        let id = columns.id.map(|name| find_column(names.iter().copied(), name)).transpose()?;
        Ok(Self { columns: record.len(), text, labels, id })
    }

    fn row(&self, record: &StringRecord, columns: &TextColumns) -> Result<TextRow, String> {
        check_width(record, self.columns)?;
        let labels = self.labels.map(|column| record[column].split(columns.label_separator).map(str::trim));
        let labels = labels.into_iter().flatten().filter(|label| !label.is_empty());
        Ok(TextRow {
            text: record[self.text].to_owned(),
            labels: labels.map(str::to_owned).collect(),
            id: self.id.map(|column| record[column].to_owned()),
        })
    }
}
