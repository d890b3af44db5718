//! Turns evaluation records into a table, and the table into every format. Nothing is read or written here: all
//! functions return strings.
//!
//! ```text
//! MeasuredRecords, TableRequest -> build        -> Table     values with their protocol, ranks, comparisons
//! Decisions                     -> significance -> Table     which differences are significant
//! Table                         -> sheet        -> Sheet     heads, marks and notes, laid out once for all formats
//! Table and Sheet               -> exporter     -> LaTeX, Markdown, CSV, JSON, macros
//! ```
//!
//! This module has the [`Table`] itself: values with their protocol, their ranks, how they compare with published
//! results, and the records that they were computed from. Its JSON is an output of the `table` stage, and `pipe table`
//! reads it.

pub mod build;
pub mod csv;
pub mod display;
pub mod exporter;
pub mod latex;
mod latex_char;
mod latex_narrow;
pub mod latex_text;
pub mod macros;
pub mod markdown;
pub mod measured;
pub mod note;
pub mod number;
mod rank;
pub mod reference;
pub mod request;
pub mod sheet;
pub mod significance;
pub mod term;
#[cfg(test)]
mod tests;
pub mod title;

use serde::{Deserialize, Serialize};

use display::{TableDisplay, TableScale};
use pipe_core::default_value::is_default;
use pipe_core::digest::{BlobId, Digest};
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::Metric;
use pipe_ml::metric::spread::SeedSpread;

/// The name of the axis that the metrics of a table form.
pub const METRIC: &str = "metric";

/// A table of evaluation results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub name: String,
    pub caption: Option<String>,
    /// The label for `\ref` in LaTeX.
    pub label: String,
    /// Whether the table spans both columns of a page.
    pub wide: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub display: TableDisplay,
    pub row_axes: Vec<TableAxis>,
    pub column_axes: Vec<TableAxis>,
    /// The axis whose entries compete for bold print.
    pub compared: String,
    /// The bootstrap of the intervals that are printed, if they are those of the evaluations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// The axes that values are averaged over.
    pub mean_over: Vec<String>,
    pub rows: Vec<TableLine>,
    pub columns: Vec<TableLine>,
    /// By row and column; `None` where there is no record.
    pub cells: Vec<Vec<Option<TableCell>>>,
    pub references: Vec<CitedReference>,
    /// Published rows without a corresponding row of ours.
    pub others: Vec<OtherRow>,
    /// How differences were tested, if they were.
    pub significance: Option<SignificanceInfo>,
    /// Two entries that were not evaluated on the same rows, if there are such. Nothing is ranked across them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub different_rows: Option<(String, String)>,
    /// The records that the table was computed from.
    pub records: Vec<RecordId>,
}

/// An axis of the rows or the columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableAxis {
    pub axis: String,
    pub title: String,
}

/// A row or a column: one entry per axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableLine {
    pub values: Vec<AxisEntry>,
}

/// A value of an axis, with the title that is printed for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisEntry {
    pub axis: String,
    pub value: String,
    pub title: String,
}

/// The content at one row and one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableCell {
    pub metric: Metric,
    /// The name of the part of the data that was evaluated: `test`, `validation`, or [`measured::EXTERNAL`].
    pub part: String,
    /// Decimals in print.
    pub digits: u8,
    /// Mean and spread over the averaged records.
    #[serde(rename = "figure")]
    pub value: Marked<SeedSpread>,
    /// The ends of the printed interval, unless it is the standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    pub rank: Option<Rank>,
    pub test: Option<Marked<DifferenceTest>>,
    /// By reference, in the order of [`Table::references`].
    pub comparisons: Vec<Option<Comparison>>,
    /// Positions in [`Table::records`].
    pub records: Vec<usize>,
}

impl TableCell {
    /// Returns whether a program reported the value. Such values are neither ranked nor tested, because `pipe` has not seen
    /// the decisions behind them.
    pub fn is_external(&self) -> bool {
        self.part == measured::EXTERNAL
    }

    /// Returns a value of the cell as it is printed.
    pub fn print(&self, scale: TableScale, value: f64) -> String {
        number::fixed(scale.apply(self.metric, value), self.digits)
    }
}

/// The rank of a cell among the cells that it competes with, as far as it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    Best,
    Second,
}

/// The difference between the mean of a cell and that of the cell it is tested against, with a bootstrap interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DifferenceTest {
    /// The title of the row that the cell is tested against.
    pub against: String,
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
    /// Whether the interval excludes zero.
    pub differs: bool,
}

/// How the [`DifferenceTest`]s of a table were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignificanceInfo {
    /// The title of the baseline; `None` if every cell is tested against the best one.
    pub baseline: Option<String>,
    pub replicates: u32,
    pub confidence: f64,
    /// Whether the confidence is corrected for several comparisons.
    pub corrected: bool,
    /// Metrics that the bootstrap cannot resample.
    pub untested: Vec<Metric>,
}

/// A published value beside a cell of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub published: Marked<Published>,
    /// Ours minus theirs; `None` where the protocols differ.
    pub difference: Option<Marked<f64>>,
}

/// A value as it was printed elsewhere: `0.1712`, `about 0.07`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub text: String,
    pub value: f64,
}

/// A publication whose values are printed beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CitedReference {
    /// The head of its columns.
    pub heading: String,
    pub citation: String,
    /// The data that it was measured on.
    pub data: Option<String>,
}

/// A published row without a corresponding row of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherRow {
    /// Position in [`Table::references`].
    pub reference: usize,
    pub name: String,
    pub citation: Option<String>,
    /// By column.
    pub values: Vec<Option<Marked<Published>>>,
}

/// One of the records that a table was computed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordId {
    pub axes: Vec<(String, String)>,
    pub protocol: Protocol,
    pub blob: BlobId,
}

impl Table {
    /// Returns the table as indented JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and finite numbers");
        text.push('\n');
        text
    }

    /// Returns the digest of [`Table::json`], which is also what `b3sum table.json` prints.
    pub fn digest(&self) -> Digest {
        Digest::of(self.json().as_bytes())
    }

    /// Returns the cells that have a value, with the positions of their row and column.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, &TableCell)> {
        let rows = self.cells.iter().enumerate();
        rows.flat_map(|(row, cells)| {
            let columns = cells.iter().enumerate();
            columns.filter_map(move |(column, cell)| Some((row, column, cell.as_ref()?)))
        })
    }

    /// Returns the entries of a cell's row and column.
    pub fn entries(&self, row: usize, column: usize) -> impl Iterator<Item = &AxisEntry> {
        self.rows[row].values.iter().chain(&self.columns[column].values)
    }

    /// Returns the positions of the cells that compete with each other: they differ only in the compared axis, and were
    /// measured on the same part under the same protocol. Values
    /// that a program reported do not compete.
    pub fn contests(&self) -> Vec<Vec<(usize, usize)>> {
        let mut contests = std::collections::BTreeMap::<_, Vec<_>>::new();
        for (row, column, cell) in self.cells().filter(|(_, _, cell)| !cell.is_external()) {
            let rest = self.entries(row, column).filter(|value| value.axis != self.compared);
            let rest: Vec<_> = rest.map(|value| (&value.axis, &value.value)).collect();
            let contest = (cell.value.protocol(), &cell.part, rest);
            contests.entry(contest).or_default().push((row, column));
        }
        contests.into_values().collect()
    }

    /// Returns the entry of a cell on an axis.
    pub fn entry_on(&self, axis: &str, row: usize, column: usize) -> Option<&AxisEntry> {
        self.entries(row, column).find(|value| value.axis == axis)
    }

    /// Whether a record of the table was evaluated under this protocol.
    pub fn has(&self, protocol: Protocol) -> bool {
        self.records.iter().any(|record| record.protocol == protocol)
    }
}
