//! The file formats of a table.
//!
//! To add a format, write its module with an `EXPORTER` and add that to [`EXPORTERS`], which the `table` stage goes
//! through. `pipe table --format` has a list of its own: the formats that are readable in a terminal or a script.

use super::sheet::Sheet;
use super::{Table, csv, latex, macros, markdown};

/// A file format that a table can be written in.
#[derive(Debug, Clone, Copy)]
pub struct TableExporter {
    /// The name of the format, which is also the name of the stage's output: `tex`.
    pub name: &'static str,
    /// What follows the name of the table in the name of the file: `-macros.tex`.
    pub file_suffix: &'static str,
    /// Returns the content of the file.
    pub export: fn(&Table, &Sheet) -> String,
}

/// The format that a [`Table`] can be read from again.
pub const JSON: TableExporter =
    TableExporter { name: "json", file_suffix: ".json", export: |table, _| table.json() };

/// All formats, in the order of the stage's outputs.
pub const EXPORTERS: [TableExporter; 6] =
    [latex::EXPORTER, latex::STANDALONE_EXPORTER, markdown::EXPORTER, csv::EXPORTER, JSON, macros::EXPORTER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_of_formats_are_unique() {
        for (at, exporter) in EXPORTERS.iter().enumerate() {
            for other in &EXPORTERS[..at] {
                assert!(exporter.name != other.name && exporter.file_suffix != other.file_suffix);
            }
        }
    }
}
