//! The request for a table: which records, axes and metrics it shows, and under which names.

use std::collections::{BTreeMap, BTreeSet};

use super::display::{TableDisplay, TableScale};
use super::reference::Reference;
use super::term::TableTerm;
use super::title;
use super::{Table, TableAxis};
use pipe_core::issue::Issue;
use pipe_ml::metric::registry::Metric;

/// What a table shows.
#[derive(Debug, Clone, Default)]
pub struct TableRequest {
    /// The base name of the files and macros.
    pub name: String,
    pub rows: Vec<TableTerm>,
    pub columns: Vec<TableTerm>,
    pub mean_over: Vec<String>,
    /// For an axis, the values that are shown, in that order.
    pub only: BTreeMap<String, Vec<String>>,
    /// Titles of axes, values (`adaptive`, or `variant=adaptive`) and metrics.
    pub names: BTreeMap<String, String>,
    /// The number of decimals in print; `None` for that of the scale.
    pub digits: Option<u8>,
    pub digits_of: BTreeMap<Metric, u8>,
    pub caption: Option<String>,
    pub label: Option<String>,
    pub wide: bool,
    pub display: TableDisplay,
    pub references: Vec<Reference>,
}

/// One level of rows or columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TableLevel {
    Metrics(Vec<Metric>),
    Axis(String),
}

impl TableRequest {
    /// Returns the levels of rows or columns. All metrics form one level, at the position of the first.
    pub(super) fn levels(terms: &[TableTerm]) -> Vec<TableLevel> {
        let mut levels: Vec<TableLevel> = Vec::new();
        let mut at = None;
        for term in terms {
            match (term, at) {
                (TableTerm::Axis(axis), _) => levels.push(TableLevel::Axis(axis.clone())),
                (TableTerm::Metric(metric), None) => {
                    at = Some(levels.len());
                    levels.push(TableLevel::Metrics(vec![*metric]));
                }
                (TableTerm::Metric(metric), Some(at)) => {
                    if let TableLevel::Metrics(metrics) = &mut levels[at] {
                        metrics.push(*metric);
                    }
                }
            }
        }
        levels
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.rows.iter().chain(&self.columns).filter_map(|term| match term {
            TableTerm::Metric(metric) => Some(*metric),
            TableTerm::Axis(_) => None,
        })
    }

    pub(super) fn axes(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().chain(&self.columns).filter_map(|term| match term {
            TableTerm::Axis(axis) => Some(axis.as_str()),
            TableTerm::Metric(_) => None,
        })
    }

    pub(super) fn digits(&self, metric: Metric) -> u8 {
        let scale = self.display.scale;
        // Digits that are chosen for percentages would print most losses as 0.
        let stated = self.digits.filter(|_| scale == TableScale::Fraction || scale.is_percent(metric));
        let stated = self.digits_of.get(&metric).copied().or(stated);
        stated.unwrap_or_else(|| scale.default_digits(metric))
    }

    pub(super) fn axis(&self, name: &str) -> TableAxis {
        let title = self.names.get(name).cloned().unwrap_or_else(|| title::words(name));
        TableAxis { axis: name.to_owned(), title }
    }

    pub(super) fn value_title(&self, axis: &str, value: &str) -> String {
        let named = self.names.get(&format!("{axis}={value}")).or_else(|| self.names.get(value));
        named.cloned().unwrap_or_else(|| title::value(axis, value))
    }

    /// Returns the keys of `names` that match nothing in the table.
    pub fn unused_names(&self, table: &Table) -> Vec<&str> {
        let mut used: BTreeSet<String> =
            table.row_axes.iter().chain(&table.column_axes).map(|axis| axis.axis.clone()).collect();
        for value in table.rows.iter().chain(&table.columns).flat_map(|line| &line.values) {
            used.insert(format!("{}={}", value.axis, value.value));
            used.insert(value.value.clone());
        }
        self.names.keys().map(String::as_str).filter(|name| !used.contains(*name)).collect()
    }

    pub(super) fn metric_title(&self, metric: Metric) -> String {
        self.names.get(metric.name()).cloned().unwrap_or_else(|| title::metric(metric))
    }
}

/// Returns the fields that cannot be used together.
pub fn issues(rows: &[TableTerm], columns: &[TableTerm], mean_over: &[String]) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (field, terms) in [("rows", rows), ("columns", columns)] {
        if terms.is_empty() {
            issues.push(Issue::new(field, "name at least one axis or metric"));
        }
        for (at, term) in terms.iter().enumerate() {
            let name = match term {
                TableTerm::Metric(metric) => metric.name(),
                TableTerm::Axis(axis) => axis.as_str(),
            };
            let mut add = |message: String| issues.push(Issue::new(field_of(field, terms, at), message));
            if name == "metric" {
                add("name the metrics themselves: `macro_f1`, `bce`".to_owned());
            }
            if terms[..at].contains(term) || (field == "columns" && rows.contains(term)) {
                add(format!("`{name}` is given twice"));
            }
            if mean_over.iter().any(|axis| axis == name) {
                add(format!("`{name}` is averaged over (`mean_over`) and cannot be shown"));
            }
        }
    }
    let has_metrics = |terms: &[TableTerm]| terms.iter().any(|term| matches!(term, TableTerm::Metric(_)));
    match (has_metrics(rows), has_metrics(columns)) {
        (false, false) => issues.extend(no_metric(rows, columns)),
        (true, true) => issues.push(Issue::new("columns", "the metrics are in the rows already")),
        (in_rows, _) => {
            let (field, terms) = if in_rows { ("columns", columns) } else { ("rows", rows) };
            if !terms.iter().any(|term| matches!(term, TableTerm::Axis(_))) && !terms.is_empty() {
                issues.push(Issue::new(field, "name at least one axis"));
            }
        }
    }
    issues
}

/// Returns the path of the field that a term is written in.
fn field_of(field: &str, terms: &[TableTerm], at: usize) -> String {
    if terms.len() == 1 { field.to_owned() } else { format!("{field}[{at}]") }
}

/// Returns the issues of a table without metrics; misspelt metrics were read as axes.
fn no_metric(rows: &[TableTerm], columns: &[TableTerm]) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (field, terms) in [("columns", columns), ("rows", rows)] {
        for (at, term) in terms.iter().enumerate() {
            if let (Some(metric), TableTerm::Axis(name)) = (term.misspelt(), term) {
                let message = format!("there is no metric `{name}`; did you mean `{metric}`?");
                issues.push(Issue::new(field_of(field, terms, at), message));
            }
        }
    }
    if issues.is_empty() {
        issues.push(Issue::new("columns", "no metric is named; `pipe metrics` lists the metrics"));
    }
    issues
}
