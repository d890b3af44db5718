//! The state of a pipeline at one time, as recorded by a run or a lock file.

use std::collections::BTreeMap;

use crate::table::Table;
use pipe_core::digest::{BlobId, StageKey};
use pipe_ml::metric::marked::Marked;
use pipe_ml::metric::registry::Metric;
use pipe_ml::metric::spread::SeedSpread;

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

/// A cell of a table, with its value as it is printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub metric: Metric,
    pub value: Marked<f64>,
}

/// Returns the cells of a table, by the titles of their row and column.
pub fn cells(table: &Table) -> BTreeMap<String, Cell> {
    let named = table.cells().map(|(row, column, cell)| {
        let titles: Vec<&str> = table.entries(row, column).map(|entry| entry.title.as_str()).collect();
        let printed =
            |spread: SeedSpread| cell.print(table.display.scale, spread.mean).parse().unwrap_or(f64::NAN);
        (titles.join(", "), Cell { metric: cell.metric, value: cell.value.map(printed) })
    });
    named.collect()
}
