//! The state of a pipeline at one time, as recorded by a run or a lock file.

use std::collections::BTreeMap;

use crate::table::display::TableDisplay;
use crate::table::number::signed;
use crate::table::sheet::{self, TextPiece};
use crate::table::{Table, TableCell};
use pipe_core::digest::{BlobId, StageKey};
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::registry::Metric;

/// The state of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The name for messages: `20260131T101500Z-1a2b3c4d`, `HEAD~1:pipelines/x.lock`.
    pub name: String,
    /// The stages, by the name of the instance.
    pub stages: BTreeMap<String, StageSnapshot>,
}

/// The state of one instance of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSnapshot {
    pub key: StageKey,
    /// The key parts that a person chooses or changes: parameters, the version of the code, environment variables. They
    /// are canonical text, under the names that `pipe why` shows.
    pub params: BTreeMap<String, String>,
    pub metrics: BTreeMap<String, Marked<f64>>,
    pub outputs: BTreeMap<String, BlobId>,
    /// The cells of a table by their titles, if the stage made one and its content was read.
    pub cells: Option<BTreeMap<String, Cell>>,
}

/// A cell of a table, and how the table prints its values. Cells are equal if they have the same stored values.
#[derive(Debug, Clone)]
pub struct Cell {
    cell: TableCell,
    display: TableDisplay,
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        let stored = |cell: &Self| (cell.cell.metric, cell.cell.value, cell.cell.interval);
        stored(self) == stored(other)
    }
}

impl Cell {
    /// Returns the metric.
    pub fn metric(&self) -> Metric {
        self.cell.metric
    }

    /// Returns the mean, as it is stored.
    pub fn mean(&self) -> Marked<f64> {
        self.cell.value.map(|spread| spread.mean)
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u32 {
        self.cell.value.as_ref().reveal().1.seeds
    }

    /// Whether the values are printed in percent.
    pub fn is_percent(&self) -> bool {
        self.display.scale.is_percent(self.cell.metric)
    }

    /// Returns the number of decimals in print.
    pub fn digits(&self) -> u8 {
        self.cell.digits
    }

    /// Returns the values as the table prints them, with this number of decimals.
    pub fn text(&self, digits: u8) -> String {
        let cell = TableCell { digits, rank: None, ..self.cell.clone() };
        sheet::value_pieces(&cell, self.display).iter().map(TextPiece::plain).collect()
    }

    /// Returns a difference of means as the table prints it, with this number of decimals.
    pub fn change_text(&self, change: f64, digits: u8) -> String {
        signed(self.display.scale.apply(self.cell.metric, change), digits)
    }
}

#[cfg(test)]
impl Cell {
    /// Creates a cell with the mean of some honest values.
    pub(super) fn test(metric: Metric, values: &[f64], display: TableDisplay, digits: u8) -> Self {
        use pipe_ml::metric::marked::Protocol;
        use pipe_ml::metric::spread::SeedSpread;
        let value = Marked::new(Protocol::Honest, SeedSpread::over(values).unwrap());
        let (part, comparisons, records) = ("test".to_owned(), Vec::new(), Vec::new());
        let (interval, rank, test) = (None, None, None);
        let cell = TableCell { metric, part, digits, value, interval, rank, test, comparisons, records };
        Self { cell, display }
    }
}

/// Returns the cells of a table, by the titles of their row and column.
pub fn cells(table: &Table) -> BTreeMap<String, Cell> {
    let named = table.cells().map(|(row, column, cell)| {
        let titles: Vec<&str> = table.entries(row, column).map(|entry| entry.title.as_str()).collect();
        (titles.join(", "), Cell { cell: cell.clone(), display: table.display })
    });
    named.collect()
}
