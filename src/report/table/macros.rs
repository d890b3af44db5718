//! Writes the values of a table as LaTeX macros, for use in the text of a paper.
//!
//! A name such as `\tableAdaptiveMacroFOne` consists of the table's name, the values of the axes and the metric. It uses
//! values, not titles, so that a new title does not rename a macro. It has letters only; digits are spelt out. The name
//! of an oracle value contains `Oracle`, and that of a reported one `External`, so that nobody uses it by accident. Names that would be equal all get letters
//! of a digest, so that a new row never changes the meaning of a macro.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::exporter::TableExporter;
use super::latex::provenance;
use super::latex_text;
use super::{METRIC, Table};
use pipe_core::digest::Digest;
use pipe_ml::metric::marked::Protocol;

struct Macro {
    name: String,
    /// What the name was made from, in full.
    origin: String,
    value: String,
    records: Vec<usize>,
}

/// The format for values in the text of a paper.
pub const EXPORTER: TableExporter =
    TableExporter { name: "macros", file_suffix: "-macros.tex", export: |table, _| macros(table) };

/// Returns the definitions of the macros.
pub fn macros(table: &Table) -> String {
    let mut macros: Vec<Macro> =
        table.cells().flat_map(|(row, column, _)| cell_macros(table, row, column)).collect();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    uses.insert(hash_name(&table.name), 1);
    for one in &macros {
        *uses.entry(one.name.clone()).or_default() += 1;
    }
    for one in &mut macros {
        if uses[&one.name] > 1 {
            one.name.push_str(&digest_letters(Digest::of(one.origin.as_bytes())));
        }
    }
    let mut out = provenance(table);
    let _ = writeln!(out, "\\def\\{}{{{}}}", hash_name(&table.name), table.digest().short());
    for one in macros {
        let _ = writeln!(out, "% {}", latex_text::comment(&one.origin));
        for record in one.records {
            let _ = writeln!(out, "%   from evaluation {}", table.records[record].blob);
        }
        let _ = writeln!(out, "\\newcommand{{\\{}}}{{{}}}", one.name, one.value);
    }
    out
}

/// Returns the name of the macro for the short hash of the table.
pub(super) fn hash_name(table: &str) -> String {
    format!("{}Hash", prefix(table))
}

/// Returns the macros of a cell: its mean, its standard deviation if there is one, and the ends of its interval.
fn cell_macros(table: &Table, row: usize, column: usize) -> Vec<Macro> {
    let Some(cell) = &table.cells[row][column] else { return Vec::new() };
    let (protocol, spread) = cell.value.reveal();
    let mut name = prefix(&table.name);
    let mut origin = protocol.name().to_owned();
    if protocol == Protocol::Oracle {
        name.push_str("Oracle");
    }
    if cell.is_external() {
        name.push_str("External");
        origin.push_str(" external");
    }
    let values = || table.entries(row, column).filter(|value| value.axis != METRIC);
    for value in values() {
        let is_named = value.axis == super::measured::PROTOCOL && protocol == Protocol::Oracle;
        if !is_named {
            name.push_str(&letters(&value.value));
        }
        let _ = write!(origin, " {}={}", value.axis, value.value);
    }
    name.push_str(&letters(cell.metric.name()));
    let _ = write!(origin, " {}", cell.metric);
    let new_macro = |suffix: &str, what: &str, value: f64| Macro {
        name: format!("{name}{suffix}"),
        origin: format!("{origin}{what}"),
        value: cell.print(table.display.scale, value),
        records: cell.records.clone(),
    };
    let mean = new_macro("", "", spread.mean);
    let deviation = spread.standard_deviation.map(|sd| new_macro("Sd", ", standard deviation", sd));
    let ends = cell.interval.map(|(low, high)| {
        [
            new_macro("Low", ", lower end of the interval", low),
            new_macro("High", ", upper end of the interval", high),
        ]
    });
    std::iter::once(mean).chain(deviation).chain(ends.into_iter().flatten()).collect()
}

/// Returns the letters of a table's name: `tableOne` for `table-1`.
fn prefix(name: &str) -> String {
    let letters = letters(name);
    let mut characters = letters.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// Returns a text as letters: `MacroFOne` for `macro_f1`. Other characters than ASCII letters and digits are left out.
fn letters(text: &str) -> String {
    const DIGITS: [&str; 10] =
        ["Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"];
    let mut out = String::new();
    let mut starts = true;
    for character in text.chars() {
        match character.to_digit(10) {
            Some(digit) => {
                out.push_str(DIGITS[digit as usize]);
                starts = true;
            }
            None if character.is_ascii_alphabetic() => {
                out.push(if starts { character.to_ascii_uppercase() } else { character });
                starts = false;
            }
            None => starts = true,
        }
    }
    out
}

fn digest_letters(digest: Digest) -> String {
    digest.as_bytes()[..8].iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}
