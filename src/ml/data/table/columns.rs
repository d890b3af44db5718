//! All columns of a table, to look at them before it is known which of them are needed.

use std::path::Path;

use super::stream::TableText;
use super::{csv, jsonl};
use crate::data::compress::InputFile;
use crate::data::detect::detect;
use crate::data::error::DataError;
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
        let input = InputFile::open(path, 1)?;
        let format = detect(input.head(), false);
        if let Some(format) = format.filter(|format| format.content() != FormatContent::Text) {
            let reason = format!("it has no columns with names, because it contains {} data", format.name());
            return Err(DataError::file(path, reason));
        }
        let text = TableText::new(input)?;
        if format == Some(Format::Jsonl) { jsonl::columns(text) } else { csv::columns(text) }
    }

    /// Returns the values as texts.
    pub fn texts(&self) -> Vec<String> {
        self.cells.iter().cloned().map(Cell::into_text).collect()
    }
}

impl Cell {
    /// Returns the value as a text. A missing value is empty, and the values of a list are separated by `;`.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::List(items) => items.join(";"),
            Self::Missing | Self::Other => String::new(),
        }
    }
}
