//! What a table is to show.

use std::collections::{BTreeMap, BTreeSet};

use super::reference::Reference;
use super::term::Term;
use super::title;
use super::{Axis, Table};
use pipe_core::issue::Issue;
use pipe_ml::metric::registry::Metric;

pub const DEFAULT_DIGITS: u8 = 4;

#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The base name of its files, and of its macros.
    pub name: String,
    pub rows: Vec<Term>,
    pub columns: Vec<Term>,
    pub mean_over: Vec<String>,
    /// Axis -> the values that are shown, in that order.
    pub only: BTreeMap<String, Vec<String>>,
    /// What to call axes, values (`adaptive`, or `variant=adaptive`) and metrics.
    pub names: BTreeMap<String, String>,
    pub digits: u8,
    pub digits_of: BTreeMap<Metric, u8>,
    pub caption: Option<String>,
    pub label: Option<String>,
    pub wide: bool,
    pub references: Vec<Reference>,
}

/// One level of rows or columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Level {
    Metrics(Vec<Metric>),
    Axis(String),
}

impl Request {
    /// The metrics of a side are one level, at the place of the first.
    pub(super) fn levels(terms: &[Term]) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        let mut at = None;
        for term in terms {
            match (term, at) {
                (Term::Axis(axis), _) => levels.push(Level::Axis(axis.clone())),
                (Term::Metric(metric), None) => {
                    at = Some(levels.len());
                    levels.push(Level::Metrics(vec![*metric]));
                }
                (Term::Metric(metric), Some(at)) => {
                    if let Level::Metrics(metrics) = &mut levels[at] {
                        metrics.push(*metric);
                    }
                }
            }
        }
        levels
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.rows.iter().chain(&self.columns).filter_map(|term| match term {
            Term::Metric(metric) => Some(*metric),
            Term::Axis(_) => None,
        })
    }

    pub(super) fn axes(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().chain(&self.columns).filter_map(|term| match term {
            Term::Axis(axis) => Some(axis.as_str()),
            Term::Metric(_) => None,
        })
    }

    pub(super) fn digits(&self, metric: Metric) -> u8 {
        self.digits_of.get(&metric).copied().unwrap_or(self.digits)
    }

    pub(super) fn axis(&self, name: &str) -> Axis {
        let title = self.names.get(name).cloned().unwrap_or_else(|| title::words(name));
        Axis { axis: name.to_owned(), title }
    }

    pub(super) fn value_title(&self, axis: &str, value: &str) -> String {
        let named = self.names.get(&format!("{axis}={value}")).or_else(|| self.names.get(value));
        named.cloned().unwrap_or_else(|| title::value(axis, value))
    }

    /// The keys of `names` that nothing in the table is called by.
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
pub fn issues(rows: &[Term], columns: &[Term], mean_over: &[String]) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (field, terms) in [("rows", rows), ("columns", columns)] {
        if terms.is_empty() {
            issues.push(Issue::new(field, "there is nothing to make them of"));
        }
        for (at, term) in terms.iter().enumerate() {
            let name = match term {
                Term::Metric(metric) => metric.name(),
                Term::Axis(axis) => axis.as_str(),
            };
            let mut complain = |message: String| issues.push(Issue::new(place(field, terms, at), message));
            if name == "metric" {
                complain("name the metrics themselves: `macro_f1`, `bce`".to_owned());
            }
            if terms[..at].contains(term) || (field == "columns" && rows.contains(term)) {
                complain(format!("`{name}` is given twice"));
            }
            if mean_over.iter().any(|axis| axis == name) {
                complain(format!("`{name}` is averaged over (`mean_over`) and cannot be shown"));
            }
        }
    }
    let has_metrics = |terms: &[Term]| terms.iter().any(|term| matches!(term, Term::Metric(_)));
    match (has_metrics(rows), has_metrics(columns)) {
        (false, false) => issues.push(no_metric(rows, columns)),
        (true, true) => issues.push(Issue::new("columns", "metrics are in the rows already")),
        (in_rows, _) => {
            let (field, terms) = if in_rows { ("columns", columns) } else { ("rows", rows) };
            if !terms.iter().any(|term| matches!(term, Term::Axis(_))) && !terms.is_empty() {
                issues.push(Issue::new(field, "name at least one axis"));
            }
        }
    }
    issues
}

/// Where one of the terms is written.
fn place(field: &str, terms: &[Term], at: usize) -> String {
    if terms.len() == 1 { field.to_owned() } else { format!("{field}[{at}]") }
}

fn no_metric(rows: &[Term], columns: &[Term]) -> Issue {
    for (field, terms) in [("columns", columns), ("rows", rows)] {
        for (at, term) in terms.iter().enumerate() {
            if let (Some(metric), Term::Axis(name)) = (term.misspelt(), term) {
                let message = format!("there is no metric `{name}`; did you mean `{metric}`?");
                return Issue::new(place(field, terms, at), message);
            }
        }
    }
    Issue::new("columns", "no metric is named; `pipe metrics` lists them")
}
