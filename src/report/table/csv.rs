//! One line per figure, unrounded, as RFC 4180 has it: fields with a comma, a quote or a line end in quotes, quotes
//! doubled, lines ended by CR LF.
//!
//! Text that a spreadsheet would take for a formula (it starts with `=`, `+`, `-`, `@`, a tab or a line end) gets an
//! apostrophe in front, as does text that starts with an apostrophe: taking one away always gives back the text.

use super::measured::protocol_name;
use super::{Cell, METRIC, Rank, Table, Value};
use pipe_ml::metric::marked::Protocol;

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
    for reference in &table.references {
        for what in ["", " protocol", " difference"] {
            head.push(text(&format!("{}{what}", reference.heading)));
        }
    }
    let mut out = line(head);
    for (row, column, cell) in table.cells() {
        let values: Vec<&Value> = table.place(row, column).filter(|value| value.axis != METRIC).collect();
        let mut fields: Vec<String> = values.iter().map(|value| text(&value.value)).collect();
        fields.extend(figures(cell));
        for comparison in &cell.comparisons {
            fields.extend(match comparison {
                None => [String::new(), String::new(), String::new()],
                Some(comparison) => {
                    let (protocol, published) = comparison.published.as_ref().reveal();
                    let difference =
                        comparison.difference.map(|difference| difference.reveal().1.to_string());
                    [published.value.to_string(), under(protocol), difference.unwrap_or_default()]
                }
            });
        }
        out.push_str(&line(fields));
    }
    out.push_str(&others(table, axes().count(), fixed.len()));
    out
}

fn under(protocol: Protocol) -> String {
    protocol_name(protocol).to_owned()
}

fn figures(cell: &Cell) -> Vec<String> {
    let (protocol, spread) = cell.figure.reveal();
    let rank = match cell.rank {
        Some(Rank::Best) => "1",
        Some(Rank::Second) => "2",
        None => "",
    };
    let differs = cell.test.as_ref().map(|test| test.as_ref().reveal().1.differs.to_string());
    vec![
        cell.metric.name().to_owned(),
        under(protocol),
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

/// Published rows: the name stands on the first axis, and only the reference's fields have figures.
fn others(table: &Table, axes: usize, fixed: usize) -> String {
    let mut out = String::new();
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
            fields[at + 1] = under(protocol);
            out.push_str(&line(fields));
        }
    }
    out
}

fn line(fields: Vec<String>) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    format!("{}\r\n", quoted.join(","))
}

fn quote(field: &str) -> String {
    let special = field.contains([',', '"', '\r', '\n']);
    if special { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// Text that stays text in a spreadsheet.
pub(super) fn text(field: &str) -> String {
    let suspicious = field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\'']);
    if suspicious { format!("'{field}") } else { field.to_owned() }
}
