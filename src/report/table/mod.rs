//! Records to a table, and the table to every format. Pure: strings come out, nothing is read or written.
//!
//! ```text
//! Measured records + Request -> build         -> Table     figures with their protocol, ranks, comparisons
//! Decisions                  -> significance  -> Table     which differences are settled
//! Table                      -> sheet         -> Sheet     heads, marks and notes, laid out once for all formats
//! Sheet                      -> latex, markdown (and the terminal, in `cli`)
//! Table                      -> csv, json, macros
//! ```
//!
//! Here is the [`Table`] itself: figures with their protocol, what they rank, how they compare, and the records that
//! they were made from. Its JSON is an output of the stage, and what `pipe table` reads.

pub mod build;
pub mod csv;
pub mod latex;
mod latex_char;
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

use pipe_core::digest::{BlobId, Digest};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::Metric;
use pipe_ml::metric::spread::SeedSpread;

/// The name of the level that metrics make up.
pub const METRIC: &str = "metric";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub name: String,
    pub caption: Option<String>,
    pub label: String,
    /// Across both columns of a page.
    pub wide: bool,
    pub row_axes: Vec<Axis>,
    pub column_axes: Vec<Axis>,
    /// The axis whose values compete for bold print.
    pub compared: String,
    pub mean_over: Vec<String>,
    pub rows: Vec<Line>,
    pub columns: Vec<Line>,
    /// By row and column; absent where there is no record.
    pub cells: Vec<Vec<Option<Cell>>>,
    pub references: Vec<Cited>,
    /// Published rows that none of ours stands for.
    pub others: Vec<OtherRow>,
    pub significance: Option<Tested>,
    pub records: Vec<RecordId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    pub axis: String,
    pub title: String,
}

/// A row or a column: one value per level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub values: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    pub axis: String,
    pub value: String,
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub metric: Metric,
    pub part: String,
    /// Decimals in print.
    pub digits: u8,
    pub figure: Marked<SeedSpread>,
    pub rank: Option<Rank>,
    pub test: Option<Marked<Test>>,
    /// By reference, in the order of [`Table::references`].
    pub comparisons: Vec<Option<Comparison>>,
    /// Positions in [`Table::records`].
    pub records: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    Best,
    Second,
}

/// Our mean minus that of the row it is tested against, with its interval over resampled rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    pub against: String,
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
    pub differs: bool,
}

/// How [`Test`]s were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// The title of the row; the best of each column if there is none.
    pub baseline: Option<String>,
    pub replicates: u32,
    pub confidence: f64,
    pub corrected: bool,
    pub untested: Vec<Metric>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub published: Marked<Published>,
    /// Ours minus theirs; absent where the protocols are different.
    pub difference: Option<Marked<f64>>,
}

/// A figure as it was printed elsewhere: `0.1712`, `about 0.07`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub text: String,
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cited {
    pub heading: String,
    pub citation: String,
    pub data: Option<String>,
}

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

/// One of the records that the table was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordId {
    pub axes: Vec<(String, String)>,
    pub protocol: Protocol,
    pub blob: BlobId,
}

impl Table {
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and finite numbers");
        text.push('\n');
        text
    }

    /// The digest of [`Table::json`]: `b3sum table.json` gives the same.
    pub fn digest(&self) -> Digest {
        Digest::of(self.json().as_bytes())
    }

    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        let row = |(row, cells): (usize, &'_ Vec<Option<Cell>>)| (row, cells.len());
        let places = self.cells.iter().enumerate().map(row);
        places
            .flat_map(|(row, columns)| (0..columns).map(move |column| (row, column)))
            .filter_map(|(row, column)| Some((row, column, self.cells[row][column].as_ref()?)))
    }

    /// The values of a cell's row and column.
    pub fn place(&self, row: usize, column: usize) -> impl Iterator<Item = &Value> {
        self.rows[row].values.iter().chain(&self.columns[column].values)
    }

    /// The cells that compete with each other: alike in everything but the compared axis, measured on the
    /// same part under the same protocol.
    pub fn contests(&self) -> Vec<Vec<(usize, usize)>> {
        let mut contests = std::collections::BTreeMap::<_, Vec<_>>::new();
        for (row, column, cell) in self.cells() {
            let rest = self.place(row, column).filter(|value| value.axis != self.compared);
            let rest: Vec<_> = rest.map(|value| (&value.axis, &value.value)).collect();
            let contest = (cell.figure.protocol(), &cell.part, rest);
            contests.entry(contest).or_default().push((row, column));
        }
        contests.into_values().collect()
    }

    pub fn value_on(&self, axis: &str, row: usize, column: usize) -> Option<&Value> {
        self.place(row, column).find(|value| value.axis == axis)
    }

    pub fn has(&self, protocol: Protocol) -> bool {
        self.records.iter().any(|record| record.protocol == protocol)
    }
}
