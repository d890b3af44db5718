//! LaTeX with booktabs: a table to `\input`, and the same as a document of its own.

use std::fmt::Write as _;

use super::Table;
use super::latex_text::{self, escape};
use super::macros;
use super::sheet::{Head, Piece, Sheet, Text};

/// Names longer than this are set in a column that breaks lines.
const WRAPPED_NAME: usize = 36;
/// Columns of a table with more characters than this per line stand closer.
const CROWDED_WIDTH: usize = 72;

/// A `table` environment, to be read by `\input`. Needs `booktabs`, `array` and `graphicx`.
pub fn table(table: &Table, sheet: &Sheet) -> String {
    let body = environment(table, sheet);
    let mut out = provenance(table);
    let _ = writeln!(out, "% Needs \\usepackage{{booktabs,array,graphicx}}.");
    let _ = writeln!(out, "\\def\\{}{{{}}}", macros::hash_name(&table.name), table.digest().short());
    if body.contains("\\pipechar") {
        out.push_str(latex_text::DEFINITION);
    }
    out.push_str(&body);
    out
}

/// A document with nothing but the table.
pub fn standalone(inner: &str) -> String {
    format!(
        "\\documentclass{{article}}\n\
         \\usepackage{{booktabs,array,graphicx}}\n\
         \\pagestyle{{empty}}\n\
         \\begin{{document}}\n\
         {inner}\
         \\end{{document}}\n"
    )
}

/// Where the table comes from: the digest of its JSON, and the records behind it.
pub(super) fn provenance(table: &Table) -> String {
    let mut out = format!(
        "% Written by pipe from evaluation records; edits are lost.\n% {}.json: blake3 {}\n",
        latex_text::comment(&table.name),
        table.digest()
    );
    for record in &table.records {
        let axes: Vec<String> = record.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let protocol = super::measured::protocol_name(record.protocol);
        let _ =
            writeln!(out, "% evaluation {} {protocol} {}", record.blob, latex_text::comment(&axes.join(",")));
    }
    out
}

fn environment(table: &Table, sheet: &Sheet) -> String {
    let name = if table.wide { "table*" } else { "table" };
    let mut out = format!("\\begin{{{name}}}[t]\n\\centering\n\\setlength{{\\abovetopsep}}{{0.8ex}}\n");
    if let Some(caption) = caption(sheet) {
        let _ = writeln!(out, "{caption}");
    }
    let _ = writeln!(out, "\\label{{{}}}", table.label);
    if width(sheet) > CROWDED_WIDTH {
        out.push_str("\\setlength{\\tabcolsep}{3.5pt}\n");
    }
    // How wide a line is, only LaTeX knows.
    let _ = writeln!(out, "\\sbox0{{%\n{}}}%", tabular(sheet));
    out.push_str("\\ifdim\\wd0>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi\n");
    if !sheet.notes.is_empty() {
        out.push_str("\n\\vspace{0.6ex}\n\\begin{minipage}{\\linewidth}\\footnotesize\\raggedright\n");
        let notes: Vec<String> = sheet.notes.iter().map(prose).collect();
        let _ = writeln!(out, "{}", notes.join("\\par\n"));
        out.push_str("\\end{minipage}\n");
    }
    let _ = writeln!(out, "\\end{{{name}}}");
    out
}

/// The list of tables gets what the user wrote, without the legend.
fn caption(sheet: &Sheet) -> Option<String> {
    let legend: Vec<String> = sheet.legend.iter().map(prose).collect();
    let written = sheet.caption.as_deref().map(escape);
    match (written, legend.is_empty()) {
        (None, true) => None,
        (None, false) => Some(format!("\\caption{{{}}}", legend.join(" "))),
        (Some(written), true) => Some(format!("\\caption{{{written}}}")),
        // A `]` would end the optional argument, but for the braces.
        (Some(written), false) => Some(format!("\\caption[{{{written}}}]{{{written} {}}}", legend.join(" "))),
    }
}

fn tabular(sheet: &Sheet) -> String {
    let mut columns = String::new();
    for level in 0..sheet.stub.len() {
        let longest = sheet.rows.iter().map(|row| length(&row.heads[level])).max().unwrap_or(0);
        columns.push_str(match longest > WRAPPED_NAME {
            true => ">{\\raggedright\\arraybackslash}p{0.35\\linewidth}",
            false => "l",
        });
    }
    let leaves = sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| head.columns).sum());
    columns.push_str(&"r".repeat(leaves));
    let mut out = format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    for (level, heads) in sheet.heads.iter().enumerate() {
        let last = level + 1 == sheet.heads.len();
        let mut cells: Vec<String> =
            sheet.stub.iter().map(|title| if last { escape(title) } else { String::new() }).collect();
        cells.extend(heads.iter().map(head));
        let _ = writeln!(out, "{} \\\\", cells.join(" & "));
        out.push_str(&rules(sheet.stub.len(), heads));
    }
    out.push_str("\\midrule\n");
    for row in &sheet.rows {
        if row.ruled {
            out.push_str("\\midrule\n");
        }
        let cells: Vec<String> = row.heads.iter().chain(&row.cells).map(cell).collect();
        let _ = writeln!(out, "{} \\\\", cells.join(" & "));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n");
    out
}

fn head(head: &Head) -> String {
    match (head.text.is_empty(), head.columns) {
        (true, 1) => String::new(),
        (_, columns) => format!("\\multicolumn{{{columns}}}{{c}}{{{}}}", cell(&head.text)),
    }
}

/// A rule below each head of several columns.
fn rules(stub: usize, heads: &[Head]) -> String {
    let mut out = String::new();
    let mut first = stub + 1;
    for head in heads {
        let end = first + head.columns - 1;
        if head.columns > 1 {
            let _ = write!(out, "\\cmidrule(lr){{{first}-{end}}}");
        }
        first = end + 1;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Marks hang out to the right, so that figures stay aligned.
fn cell(text: &Text) -> String {
    let mut marks = String::new();
    let mut out = String::new();
    for piece in text {
        match piece {
            Piece::Oracle => marks.push_str("\\dagger"),
            Piece::Differs => marks.push('*'),
            other => out.push_str(&piece_text(other)),
        }
    }
    let numeric = text.iter().any(|piece| !matches!(piece, Piece::Text(_) | Piece::Oracle));
    match (marks.is_empty(), numeric) {
        (true, _) => out,
        (false, true) => format!("{out}\\rlap{{$^{{{marks}}}$}}"),
        (false, false) => format!("{out}$^{{{marks}}}$"),
    }
}

fn prose(text: &Text) -> String {
    text.iter()
        .map(|piece| match piece {
            Piece::Oracle => "$^{\\dagger}$".to_owned(),
            Piece::Differs => "$^{*}$".to_owned(),
            other => piece_text(other),
        })
        .collect()
}

fn piece_text(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => escape(text),
        Piece::Number(number) => self::number(number),
        Piece::Best(number) => format!("\\textbf{{{}}}", self::number(number)),
        Piece::Second(number) => format!("\\underline{{{}}}", self::number(number)),
        Piece::PlusMinus => " $\\pm$ ".to_owned(),
        Piece::Oracle => "$^{\\dagger}$".to_owned(),
        Piece::Differs => "$^{*}$".to_owned(),
        Piece::Up => " $\\uparrow$".to_owned(),
        Piece::Down => " $\\downarrow$".to_owned(),
        Piece::Difference => "$\\Delta$".to_owned(),
        Piece::Nothing => "\\textendash{}".to_owned(),
    }
}

/// A sign is a minus or a plus, not a hyphen.
fn number(text: &str) -> String {
    match text.split_at_checked(1) {
        Some((sign @ ("-" | "+"), digits)) => format!("${sign}${}", escape(digits)),
        _ => escape(text),
    }
}

fn length(text: &Text) -> usize {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) | Piece::Number(text) | Piece::Best(text) | Piece::Second(text) => {
            text.chars().count()
        }
        _ => 2,
    };
    text.iter().map(piece).sum()
}

/// About how many characters a line of the table takes.
fn width(sheet: &Sheet) -> usize {
    let row = |row: &super::sheet::SheetRow| {
        let heads: usize = row.heads.iter().map(|text| length(text).min(WRAPPED_NAME)).sum();
        heads + row.cells.iter().map(|text| length(text) + 2).sum::<usize>()
    };
    let heads =
        sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| length(&head.text) + 3).sum::<usize>());
    sheet.rows.iter().map(row).max().unwrap_or(0).max(heads)
}
