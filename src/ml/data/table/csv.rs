//! Comma-separated values, read with the `csv` crate.
//!
//! The first row names the columns. The separator is the one of comma, tab and semicolon that occurs most often in it.
//! Quoting follows RFC 4180; text behind a closing quote belongs to the field, as in pandas. Blank lines are skipped.

use std::cell;
use std::io::{self, Read};

use csv::{ReaderBuilder, StringRecord};

use super::columns::{Cell, TableColumn};
use super::{TOO_LONG, TextColumns, TextRow};
use crate::data::error::Fault;
use crate::data::lines::MAX_LINE;

/// A row that is appended to the text: an unclosed quote swallows it.
const END_OF_TEXT: &str = "\n\u{0}end of text\u{0}\n";

pub(super) fn rows(text: &str, columns: &TextColumns) -> Result<Vec<TextRow>, Fault> {
    let mut header: Option<CsvHeader> = None;
    let mut rows = Vec::new();
    for_each_record(text, |record, start| {
        match &header {
            None => header = Some(CsvHeader::find(record, columns)?),
            Some(header) => {
                rows.push(header.row(record, columns).map_err(|reason| Fault::new(start, reason))?);
            }
        }
        Ok(())
    })?;
    if header.is_none() {
        CsvHeader::find(&StringRecord::new(), columns)?;
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
        match self.names.iter().position(|column| column == name) {
            Some(at) => Ok(self.record[at].trim()),
            None => Err(format!("there is no column `{name}`; the columns are: {}", self.names.join(", "))),
        }
    }
}

/// Calls a function with every row below the names of the columns.
pub(super) fn for_each_row(
    text: &str,
    mut visit: impl FnMut(&CsvRow) -> Result<(), String>,
) -> Result<(), Fault> {
    let mut names: Vec<String> = Vec::new();
    for_each_record(text, |record, start| {
        if names.is_empty() {
            names.extend(record.iter().map(|name| name.trim().to_owned()));
            return Ok(());
        }
        let visited =
            check_width(record, names.len()).and_then(|()| visit(&CsvRow { names: &names, record }));
        visited.map_err(|reason| Fault::new(start, reason))
    })
}

/// Reads all columns.
pub(super) fn columns(text: &str) -> Result<Vec<TableColumn>, Fault> {
    let mut columns: Vec<TableColumn> = Vec::new();
    for_each_record(text, |record, start| {
        if columns.is_empty() {
            columns.extend(record.iter().map(|name| TableColumn::new(name.trim())));
            return Ok(());
        }
        check_width(record, columns.len()).map_err(|reason| Fault::new(start, reason))?;
        for (column, value) in columns.iter_mut().zip(record) {
            column.cells.push(Cell::Text(value.to_owned()));
        }
        Ok(())
    })?;
    Ok(columns)
}

/// Calls a function with every record and its offset in the text. The first record names the columns.
fn for_each_record(
    text: &str,
    visit: impl FnMut(&StringRecord, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for_each_limited_record(text, MAX_LINE, visit)
}

/// The bytes of a file. Reading fails once a record needs more than its limit, before the record fills the memory.
struct LimitedRecords<'a, R> {
    bytes: R,
    left: &'a cell::Cell<usize>,
}

impl<R: Read> Read for LimitedRecords<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        let left = self.left.get().checked_sub(read).ok_or_else(|| io::Error::other(TOO_LONG))?;
        self.left.set(left);
        Ok(read)
    }
}

fn for_each_limited_record(
    text: &str,
    longest: usize,
    mut visit: impl FnMut(&StringRecord, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let left = cell::Cell::new(longest);
    let bytes = text.as_bytes().chain(END_OF_TEXT.as_bytes());
    let mut reader = ReaderBuilder::new()
        .delimiter(separator(text))
        .has_headers(false)
        .flexible(true)
        .from_reader(LimitedRecords { bytes, left: &left });
    let mut record = StringRecord::new();
    let mut columns = None;
    loop {
        left.set(longest);
        let start = skip_line_ends(text, reader.position().byte() as usize);
        if !reader.read_record(&mut record).map_err(|error| Fault::new(start, error.to_string()))? {
            break;
        }
        let last_field = record.iter().next_back().unwrap_or_default();
        if last_field == END_OF_TEXT.trim() {
            break;
        }
        if last_field.ends_with(END_OF_TEXT) {
            return Err(Fault::new(start, "a quote that is opened in this row is not closed"));
        }
        // The reader itself skips blank lines, so this is `""`: an empty text if there is only one column.
        if record.len() == 1 && record[0].is_empty() && columns != Some(1) {
            continue;
        }
        columns.get_or_insert(record.len());
        visit(&record, start)?;
    }
    Ok(())
}

fn check_width(record: &StringRecord, columns: usize) -> Result<(), String> {
    if record.len() == columns {
        return Ok(());
    }
    Err(format!("this row has {} columns, but the first row has {columns}", record.len()))
}

fn separator(text: &str) -> u8 {
    let first_line = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
    let count = |separator: u8| first_line.bytes().filter(|&byte| byte == separator).count();
    // `max_by_key` returns the last of equal counts: the comma.
    [b';', b'\t', b','].into_iter().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

/// Returns the offset of a record in the text. The position that the reader gives includes the line ends before it.
fn skip_line_ends(text: &str, position: usize) -> usize {
    let start = position.min(text.len());
    start + text[start..].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

/// The positions of the columns that are read.
struct CsvHeader {
    columns: usize,
    text: usize,
    labels: Option<usize>,
}

impl CsvHeader {
    fn find(record: &StringRecord, columns: &TextColumns) -> Result<Self, Fault> {
        let names: Vec<&str> = record.iter().map(str::trim).collect();
        let find = |name: &str| {
            names.iter().position(|column| *column == name).ok_or_else(|| {
                let hint = columns.other_column();
                let reason =
                    format!("there is no column `{name}`; the columns are: {}{hint}", names.join(", "));
                Fault::new(0, reason)
            })
        };
        let text = find(columns.text)?;
        let labels = match find(columns.labels) {
            Err(_) if columns.labels_are_optional => None,
            found => Some(found?),
        };
        Ok(Self { columns: record.len(), text, labels })
    }

    fn row(&self, record: &StringRecord, columns: &TextColumns) -> Result<TextRow, String> {
        check_width(record, self.columns)?;
        let labels = self.labels.map(|column| record[column].split(columns.label_separator).map(str::trim));
        let labels = labels.into_iter().flatten().filter(|label| !label.is_empty());
        Ok(TextRow { text: record[self.text].to_owned(), labels: labels.map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_too_long_is_refused_where_it_starts() {
        let long = "x".repeat(200_000);
        let read = |text: &str| {
            let mut rows = 0;
            for_each_limited_record(text, 100_000, |_, _| {
                rows += 1;
                Ok(())
            })
            .map(|()| rows)
        };
        let many = "text,labels\n".to_owned() + &"short,a\n".repeat(50_000);
        assert_eq!(read(&many).unwrap(), 50_001);
        for row in
            [format!("{long},b\n"), format!("\"{long}\",b\n"), format!("\"{}\",b\n", "x\n".repeat(100_000))]
        {
            let fault = read(&format!("text,labels\nshort,a\n{row}short,c\n")).unwrap_err();
            assert_eq!((fault.at, fault.reason.as_str()), (20, TOO_LONG));
        }
    }
}
