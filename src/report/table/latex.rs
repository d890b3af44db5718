//! Writes a table as LaTeX with booktabs: as a `table` environment for `\input`, and as a document of its own.

use std::fmt::Write as _;

use super::Table;
use super::display::TableLayout;
use super::exporter::TableExporter;
use super::latex_narrow;
use super::latex_text::{self, escape};
use super::macros;
use super::sheet::{Sheet, SheetHead, SheetText, TextPiece};

/// Row heads with more characters than this are set in a column that breaks lines.
const WRAPPED_NAME: usize = 36;
/// The columns of a table with more characters than this per line are set closer together.
const CROWDED_WIDTH: usize = 72;

/// The format for `\input`.
pub const EXPORTER: TableExporter = TableExporter { name: "tex", file_suffix: ".tex", export: table };

/// The format that compiles by itself.
pub const STANDALONE_EXPORTER: TableExporter = TableExporter {
    name: "standalone",
    file_suffix: "-standalone.tex",
    export: |table, sheet| standalone(&self::table(table, sheet)),
};

/// Returns a `table` environment, to be read by `\input`. It needs `booktabs`, `array` and `graphicx`.
pub fn table(table: &Table, sheet: &Sheet) -> String {
    let body = match table.display.layout {
        TableLayout::Normal => environment(table, sheet),
        TableLayout::Narrow => latex_narrow::environment(table, sheet),
    };
    let mut out = provenance(table);
    let _ = writeln!(out, "% Needs \\usepackage{{booktabs,array,graphicx}}.");
    let _ = writeln!(out, "\\def\\{}{{{}}}", macros::hash_name(&table.name), table.digest().short());
    if body.contains("\\pipechar") {
        out.push_str(latex_text::DEFINITION);
    }
    out.push_str(&body);
    out
}

/// Returns a document that contains only the given table.
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

/// Returns comments that say what the table was computed from: the digest of its JSON, and the records.
pub(super) fn provenance(table: &Table) -> String {
    let mut out = format!(
        "% Written by pipe from evaluation records; edits are lost.\n% {}.json: blake3 {}\n",
        latex_text::comment(&table.name),
        table.digest()
    );
    for record in &table.records {
        let axes: Vec<String> = record.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let protocol = record.protocol.name();
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
    // Only LaTeX knows how wide the line is.
    let _ = writeln!(out, "\\sbox0{{%\n{}}}%", tabular(sheet));
    out.push_str("\\ifdim\\wd0>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi\n");
    out.push_str(&notes(sheet));
    let _ = writeln!(out, "\\end{{{name}}}");
    out
}

/// Returns the notes below the table.
pub(super) fn notes(sheet: &Sheet) -> String {
    if sheet.notes.is_empty() {
        return String::new();
    }
    let notes: Vec<String> = sheet.notes.iter().map(prose).collect();
    format!(
        "\n\\vspace{{0.6ex}}\n\\begin{{minipage}}{{\\linewidth}}\\footnotesize\\raggedright\n{}\n\\end{{minipage}}\n",
        notes.join("\\par\n")
    )
}

/// Returns the caption. The list of tables shows the user's text without the legend.
pub(super) fn caption(sheet: &Sheet) -> Option<String> {
    let legend: Vec<String> = sheet.legend.iter().map(prose).collect();
    let written = sheet.caption.as_deref().map(escape);
    match (written, legend.is_empty()) {
        (None, true) => None,
        (None, false) => Some(format!("\\caption{{{}}}", legend.join(" "))),
        (Some(written), true) => Some(format!("\\caption{{{written}}}")),
        // Without the inner braces, a `]` would end the optional argument.
        (Some(written), false) => Some(format!("\\caption[{{{written}}}]{{{written} {}}}", legend.join(" "))),
    }
}

fn tabular(sheet: &Sheet) -> String {
    let mut columns = String::new();
    for level in 0..sheet.stub.len() {
        let longest = sheet.rows.iter().map(|row| length(&row.heads[level])).max().unwrap_or(0);
        let is_long = longest > WRAPPED_NAME;
        columns.push_str(if is_long { ">{\\raggedright\\arraybackslash}p{0.35\\linewidth}" } else { "l" });
    }
    let leaves = sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| head.columns).sum());
    columns.push_str(&"r".repeat(leaves));
    let mut out = format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    for (level, heads) in sheet.heads.iter().enumerate() {
        let last = level + 1 == sheet.heads.len();
        let mut cells: Vec<String> =
            sheet.stub.iter().map(|title| if last { escape(title) } else { String::new() }).collect();
        cells.extend(heads.iter().map(head_cell));
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

pub(super) fn head_cell(head: &SheetHead) -> String {
    match (head.text.is_empty(), head.columns) {
        (true, 1) => String::new(),
        (_, columns) => format!("\\multicolumn{{{columns}}}{{c}}{{{}}}", cell(&head.text)),
    }
}

/// Returns a rule below each head of several columns.
pub(super) fn rules(stub: usize, heads: &[SheetHead]) -> String {
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

/// Returns the content of a cell. Marks take no width, so that numbers stay aligned.
pub(super) fn cell(text: &SheetText) -> String {
    let mut marks = String::new();
    let mut out = String::new();
    for piece in text {
        match piece {
            TextPiece::Oracle => marks.push_str("\\dagger"),
            TextPiece::External => marks.push_str("\\ddagger"),
            TextPiece::Differs => marks.push('*'),
            other => out.push_str(&piece_text(other)),
        }
    }
    let numeric = text.iter().any(|piece| !matches!(piece, TextPiece::Text(_) | TextPiece::Oracle));
    match (marks.is_empty(), numeric) {
        (true, _) => out,
        (false, true) => format!("{out}\\rlap{{$^{{{marks}}}$}}"),
        (false, false) => format!("{out}$^{{{marks}}}$"),
    }
}

/// Returns a sentence.
fn prose(text: &SheetText) -> String {
    text.iter()
        .map(|piece| match piece {
            TextPiece::Oracle => "$^{\\dagger}$".to_owned(),
            TextPiece::Differs => "$^{*}$".to_owned(),
            other => piece_text(other),
        })
        .collect()
}

pub(super) fn piece_text(piece: &TextPiece) -> String {
    match piece {
        TextPiece::Text(text) => escape(text),
        TextPiece::Number(number) => self::number(number),
        TextPiece::Best(number) => format!("\\textbf{{{}}}", self::number(number)),
        TextPiece::Second(number) => format!("\\underline{{{}}}", self::number(number)),
        TextPiece::PlusMinus => " $\\pm$ ".to_owned(),
        TextPiece::Open => " [".to_owned(),
        TextPiece::Comma => ", ".to_owned(),
        TextPiece::Close => "]".to_owned(),
        TextPiece::Oracle => "$^{\\dagger}$".to_owned(),
        TextPiece::Differs => "$^{*}$".to_owned(),
        TextPiece::External => "$^{\\ddagger}$".to_owned(),
        TextPiece::Up => " $\\uparrow$".to_owned(),
        TextPiece::Down => " $\\downarrow$".to_owned(),
        TextPiece::Difference => "$\\Delta$".to_owned(),
        TextPiece::Nothing => "\\textendash{}".to_owned(),
    }
}

/// Returns a number. Its sign is set in math mode: a minus, not a hyphen.
fn number(text: &str) -> String {
    match text.split_at_checked(1) {
        Some((sign @ ("-" | "+"), digits)) => format!("${sign}${}", escape(digits)),
        _ => escape(text),
    }
}

/// Returns about how many characters a text takes.
fn length(text: &SheetText) -> usize {
    let count = |piece: &TextPiece| match piece {
        TextPiece::Text(text) | TextPiece::Number(text) | TextPiece::Best(text) | TextPiece::Second(text) => {
            text.chars().count()
        }
        _ => 2,
    };
    text.iter().map(count).sum()
}

/// Returns about how many characters the widest line of the table takes.
fn width(sheet: &Sheet) -> usize {
    let row_width = |row: &super::sheet::SheetRow| {
        let heads: usize = row.heads.iter().map(|text| length(text).min(WRAPPED_NAME)).sum();
        heads + row.cells.iter().map(|text| length(text) + 2).sum::<usize>()
    };
    let heads =
        sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| length(&head.text) + 3).sum::<usize>());
    sheet.rows.iter().map(row_width).max().unwrap_or(0).max(heads)
}
