//! Writes a table as CSV (RFC 4180): one line per cell, with unrounded values.

use ::csv::{Terminator, WriterBuilder};

use pipe_core::escape::csv_text;

use super::exporter::TableExporter;
use super::{AxisEntry, METRIC, Rank, Table, TableCell};

/// The format for programs that do not read JSON.
pub const EXPORTER: TableExporter =
    TableExporter { name: "csv", file_suffix: ".csv", export: |table, _| csv(table) };

/// Returns a table as CSV.
pub fn csv(table: &Table) -> String {
    let axes = || table.row_axes.iter().chain(&table.column_axes).filter(|axis| axis.axis != METRIC);
    let mut head: Vec<String> = axes().map(|axis| text(&axis.axis)).collect();
    let fixed = [
        "metric",
        "evaluation_protocol",
        "evaluated_part",
        "n",
        "mean",
        "standard_deviation",
        "min",
        "max",
        "rank",
        "differs",
    ];
    head.extend(fixed.map(str::to_owned));
    let ends: &[&str] = if has_intervals(table) { &["low", "high"] } else { &[] };
    head.extend(ends.iter().copied().map(str::to_owned));
    for reference in &table.references {
        for what in ["", " protocol", " difference"] {
            head.push(text(&format!("{}{what}", reference.heading)));
        }
    }
    let mut lines = vec![head];
    for (row, column, cell) in table.cells() {
        let values: Vec<&AxisEntry> =
            table.entries(row, column).filter(|value| value.axis != METRIC).collect();
        let mut fields: Vec<String> = values.iter().map(|value| text(&value.value)).collect();
        fields.extend(cell_fields(cell));
        if !ends.is_empty() {
            let text = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
            fields.extend([text(cell.interval.map(|ends| ends.0)), text(cell.interval.map(|ends| ends.1))]);
        }
        for comparison in &cell.comparisons {
            fields.extend(match comparison {
                None => [String::new(), String::new(), String::new()],
                Some(comparison) => {
                    let (protocol, published) = comparison.published.as_ref().reveal();
                    let difference =
                        comparison.difference.map(|difference| difference.reveal().1.to_string());
                    [published.value.to_string(), protocol.name().to_owned(), difference.unwrap_or_default()]
                }
            });
        }
        lines.push(fields);
    }
    lines.extend(published_lines(table, axes().count(), fixed.len() + ends.len()));
    written(&lines)
}

/// Returns whether the table prints intervals other than the standard deviation.
fn has_intervals(table: &Table) -> bool {
    table.cells().any(|(_, _, cell)| cell.interval.is_some())
}

/// Returns the fields that every table has.
fn cell_fields(cell: &TableCell) -> Vec<String> {
    let (protocol, spread) = cell.value.reveal();
    let rank = match cell.rank {
        Some(Rank::Best) => "1",
        Some(Rank::Second) => "2",
        None => "",
    };
    let differs = cell.test.as_ref().map(|test| test.as_ref().reveal().1.differs.to_string());
    vec![
        cell.metric.name().to_owned(),
        protocol.name().to_owned(),
        cell.part.clone(),
        spread.seeds.to_string(),
        spread.mean.to_string(),
        spread.standard_deviation.map(|deviation| deviation.to_string()).unwrap_or_default(),
        spread.min.to_string(),
        spread.max.to_string(),
        rank.to_owned(),
        differs.unwrap_or_default(),
    ]
}

/// Returns the lines of published rows: the name is the value of the first axis, and only the reference's fields have values.
fn published_lines(table: &Table, axes: usize, fixed: usize) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for other in &table.others {
        for (column, value) in table.columns.iter().zip(&other.values) {
            let Some(value) = value else { continue };
            let mut fields = vec![String::new(); axes + fixed + 3 * table.references.len()];
            fields[0] = text(&other.name);
            if let Some(metric) = column.values.iter().find(|value| value.axis == METRIC) {
                fields[axes] = metric.value.clone();
            }
            let (protocol, published) = value.as_ref().reveal();
            let at = axes + fixed + 3 * other.reference;
            fields[at] = published.value.to_string();
            fields[at + 1] = protocol.name().to_owned();
            lines.push(fields);
        }
    }
    lines
}

fn written(lines: &[Vec<String>]) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for fields in lines {
        writer.write_record(fields).expect("writing to memory cannot fail, and all lines are equally long");
    }
    let bytes = writer.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(bytes).expect("the fields are UTF-8")
}

fn text(field: &str) -> String {
    csv_text(field).into_owned()
}
