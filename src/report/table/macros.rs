//! The figures as LaTeX macros, for use in the text of a paper.
//!
//! `\tableAdaptiveMacroFOne` is made from the table's name, the values of the axes and the metric: from values, not
//! from titles, so that another title does not rename a macro. Letters only; digits are spelt out. An oracle figure
//! has `Oracle` in its name, so that it cannot be used unawares. Names that would be alike get letters of a
//! digest, all of them: a macro never comes to mean another figure because a row was added.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::latex::provenance;
use super::latex_text;
use super::number::fixed;
use super::{METRIC, Table};
use pipe_core::digest::Digest;
use pipe_ml::metric::marked::Protocol;

struct Macro {
    name: String,
    /// What the name was made from.
    origin: String,
    value: String,
    records: Vec<usize>,
}

pub fn macros(table: &Table) -> String {
    let mut macros: Vec<Macro> =
        table.cells().flat_map(|(row, column, _)| figures(table, row, column)).collect();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    uses.insert(hash_name(&table.name), 1);
    for made in &macros {
        *uses.entry(made.name.clone()).or_default() += 1;
    }
    for made in &mut macros {
        if uses[&made.name] > 1 {
            made.name.push_str(&letters_of(Digest::of(made.origin.as_bytes())));
        }
    }
    let mut out = provenance(table);
    let _ = writeln!(out, "\\def\\{}{{{}}}", hash_name(&table.name), table.digest().short());
    for made in macros {
        let _ = writeln!(out, "% {}", latex_text::comment(&made.origin));
        for record in made.records {
            let _ = writeln!(out, "%   from evaluation {}", table.records[record].blob);
        }
        let _ = writeln!(out, "\\newcommand{{\\{}}}{{{}}}", made.name, made.value);
    }
    out
}

/// The macro that holds the short hash of the table.
pub(super) fn hash_name(table: &str) -> String {
    format!("{}Hash", prefix(table))
}

/// The mean, and the standard deviation if there is one.
fn figures(table: &Table, row: usize, column: usize) -> Vec<Macro> {
    let Some(cell) = &table.cells[row][column] else { return Vec::new() };
    let (protocol, spread) = cell.figure.reveal();
    let mut name = prefix(&table.name);
    let mut origin = super::measured::protocol_name(protocol).to_owned();
    if protocol == Protocol::Oracle {
        name.push_str("Oracle");
    }
    let values = || table.place(row, column).filter(|value| value.axis != METRIC);
    for value in values() {
        let already = value.axis == super::measured::PROTOCOL && protocol == Protocol::Oracle;
        if !already {
            name.push_str(&letters(&value.value));
        }
        let _ = write!(origin, " {}={}", value.axis, value.value);
    }
    name.push_str(&letters(cell.metric.name()));
    let _ = write!(origin, " {}", cell.metric);
    let one = |suffix: &str, what: &str, figure: f64| Macro {
        name: format!("{name}{suffix}"),
        origin: format!("{origin}{what}"),
        value: fixed(figure, cell.digits),
        records: cell.records.clone(),
    };
    let mean = one("", "", spread.mean);
    let deviation = spread.standard_deviation.map(|sd| one("Sd", ", standard deviation", sd));
    std::iter::once(mean).chain(deviation).collect()
}

/// `table-1` -> `tableOne`.
fn prefix(name: &str) -> String {
    let letters = letters(name);
    let mut characters = letters.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// `macro_f1` -> `MacroFOne`. What has no ASCII letter or digit is left out.
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

fn letters_of(digest: Digest) -> String {
    digest.as_bytes()[..8].iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}
