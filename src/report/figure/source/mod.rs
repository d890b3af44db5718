//! The results that figures of metrics are drawn from: evaluations of the pipeline, rows of a CSV file, and evaluations in the
//! lock of another pipeline.

mod csv;
mod lock;

use std::collections::{BTreeMap, BTreeSet};

use super::naming::RunAxes;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::record::EvaluationRecord;
use pipe_ml::metric::registry::Metric;

/// The axis that distinguishes the files of a stage and the pipeline itself.
pub const SOURCE_AXIS: &str = "source";
/// The value of that axis for the evaluations of the pipeline itself.
pub const OWN_SOURCE: &str = "here";
/// The axis that distinguishes the stages of the evaluations.
pub const STAGE_AXIS: &str = "stage";

/// The values of one result, by the names of metrics or of columns.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureRecord {
    protocol: Protocol,
    values: BTreeMap<String, f64>,
}

/// A file to read, and how.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// The path, for messages.
    pub path: &'a str,
    /// The value of the axis [`SOURCE_AXIS`].
    pub name: &'a str,
    /// For a CSV file, further columns that are axes; for a lock, the axes of the values that are written without one.
    pub axes: &'a [String],
    /// For a lock, the stages to take; all evaluations if there are none.
    pub stages: &'a [String],
}

/// The reason why a file cannot be read, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`{place}: {problem}")]
pub struct SourceError {
    path: String,
    /// `, line 3, column 2`, or nothing for the whole file.
    place: String,
    problem: String,
}

impl FigureRecord {
    /// Returns the protocol of all values.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns a value by its name.
    pub fn get(&self, name: &str) -> Option<Marked<f64>> {
        self.values.get(name).map(|value| Marked::new(self.protocol, *value))
    }

    /// Returns the names of all values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

impl From<&EvaluationRecord> for FigureRecord {
    fn from(record: &EvaluationRecord) -> Self {
        // The protocol stays with the values.
        let value = |metric: &Metric| Some((metric.name().to_owned(), record.get(*metric)?.reveal().1));
        Self { protocol: record.protocol(), values: Metric::ALL.iter().filter_map(value).collect() }
    }
}

impl SourceFile<'_> {
    /// Reads the results in a file. In a CSV file, the columns that `shown` names are axes, like those that have other values
    /// than numbers.
    pub fn read(
        &self,
        text: &str,
        shown: &BTreeSet<&str>,
    ) -> Result<Vec<(RunAxes, FigureRecord)>, SourceError> {
        let text = text.trim_start_matches('\u{feff}');
        let records =
            if lock::is_lock(text) { lock::read(self, text)? } else { csv::read(self, text, shown)? };
        let with_source = |(mut axes, record): (RunAxes, FigureRecord)| {
            axes.insert(0, (SOURCE_AXIS.to_owned(), self.name.to_owned()));
            (axes, record)
        };
        Ok(records.into_iter().map(with_source).collect())
    }

    fn error(&self, problem: impl Into<String>) -> SourceError {
        SourceError { path: self.path.to_owned(), place: String::new(), problem: problem.into() }
    }

    fn error_at(&self, line: u64, problem: impl Into<String>) -> SourceError {
        SourceError { place: format!(", line {line}"), ..self.error(problem) }
    }

    fn error_in(&self, line: u64, column: usize, problem: impl Into<String>) -> SourceError {
        SourceError { place: format!(", line {line}, column {}", column + 1), ..self.error(problem) }
    }
}

#[cfg(test)]
mod tests;
