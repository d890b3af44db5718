//! All columns of a table, to look at them before it is known which of them are needed.

use std::path::Path;

use super::{csv, jsonl, strip_byte_order_mark, utf8};
use crate::data::compress::InputFile;
use crate::data::detect::detect;
use crate::data::error::{DataError, Fault};
use crate::data::format::{Format, FormatContent};

/// A column of a CSV file, or a field of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    pub name: String,
    /// One cell for each row.
    pub cells: Vec<Cell>,
}

/// A value of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    Text(String),
    /// A list of texts or whole numbers, in JSON.
    List(Vec<String>),
    /// A field that is null or not there.
    Missing,
    /// A value that can be neither a text nor labels.
    Other,
}

impl TableColumn {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), cells: Vec::new() }
    }

    /// Reads all columns of a CSV file or a file of JSON lines. Text in no known format is read as CSV with one column.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, DataError> {
        let mut input = InputFile::open(path, 1)?;
        let format = detect(input.head(), false);
        if let Some(format) = format.filter(|format| format.content() != FormatContent::Text) {
            let reason = format!("it has no columns with names, because it contains {} data", format.name());
            return Err(DataError::file(path, reason));
        }
        let mut content = input.read_all()?;
        strip_byte_order_mark(&mut content);
        let located = |fault: Fault| DataError::from(fault.locate(path, &content, 0));
        let text = utf8(&content).map_err(located)?;
        let columns = if format == Some(Format::Jsonl) { jsonl::columns(text) } else { csv::columns(text) };
        columns.map_err(located)
    }

    /// Returns the values as texts. A missing value is empty, and the values of a list are separated by `;`.
    pub fn texts(&self) -> Vec<String> {
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::List(items) => items.join(";"),
            Cell::Missing | Cell::Other => String::new(),
        };
        self.cells.iter().map(text).collect()
    }
}
