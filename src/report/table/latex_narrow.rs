//! Writes a LaTeX table for one column of a two-column paper.
//!
//! The text has 8 points, and intervals have 7. If the table is wider than the line, the intervals are printed below their values;
//! if it still is, the text has 7 points. Nothing is shrunk further: LaTeX warns about a table that is too wide even then.

use std::fmt::Write as _;

use super::Table;
use super::latex::{caption, cell, head_cell, notes, piece_text, rules};
use super::latex_text::escape;
use super::sheet::{Sheet, SheetHead, SheetText, TextPiece, needs_axis, value_with_axis};

/// A word that would make a line of a heading longer than this starts the next line.
const HEAD_WIDTH: usize = 7;

/// Sets `\pipetable` in the largest way that fits. `\pipecell` has the value, its interval and its marks.
const FITTING: &str = r"\setlength{\tabcolsep}{3pt}%
\def\pipehead#1{\begin{tabular}[b]{@{}c@{}}#1\end{tabular}}%
\def\pipecell#1#2#3{#1\,{\fontsize{7}{8}\selectfont#2}#3}%
\fontsize{8}{9.6}\selectfont\sbox0{\pipetable}%
\ifdim\wd0>\linewidth
\def\pipecell#1#2#3{\begin{tabular}[t]{@{}r@{}}#1#3\\[-0.3ex]\fontsize{7}{8}\selectfont#2\rule[-0.9ex]{0pt}{0pt}\end{tabular}}%
\sbox0{\pipetable}\fi
\ifdim\wd0>\linewidth\setlength{\tabcolsep}{1.5pt}\fontsize{7}{8.4}\selectfont\sbox0{\pipetable}\fi
";

/// Returns the `table` environment.
pub(super) fn environment(table: &Table, sheet: &Sheet) -> String {
    let mut out = "\\begin{table}[t]\n\\centering\n\\setlength{\\abovetopsep}{0.8ex}\n".to_owned();
    if let Some(caption) = caption(sheet) {
        let _ = writeln!(out, "{caption}");
    }
    let _ = writeln!(out, "\\label{{{}}}\n\\begingroup", table.label);
    let _ = writeln!(out, "\\def\\pipetable{{%\n{}}}%", tabular(sheet));
    out.push_str(FITTING);
    let _ = writeln!(
        out,
        "\\ifdim\\wd0>\\linewidth\\GenericWarning{{}}{{LaTeX Warning: Table {} is wider than the line even in 7 pt; \
         use wide: true, or fewer columns}}\\fi",
        table.label
    );
    out.push_str("\\usebox0\n\\endgroup\n");
    out.push_str(&notes(sheet));
    out.push_str("\\end{table}\n");
    out
}

fn tabular(sheet: &Sheet) -> String {
    let leaves: usize = sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| head.columns).sum());
    let mut out =
        format!("\\begin{{tabular}}{{@{{}}l{}@{{\\hspace{{3pt}}}}}}\n\\toprule\n", "r".repeat(leaves));
    for (level, heads) in sheet.heads.iter().enumerate() {
        let is_last = level + 1 == sheet.heads.len();
        let stub = sheet.stub.last().filter(|_| is_last).map(|title| escape(title)).unwrap_or_default();
        let cells: Vec<String> = std::iter::once(stub).chain(heads.iter().map(narrow_head)).collect();
        let _ = writeln!(out, "{} \\\\", cells.join(" & "));
        out.push_str(&rules(1, heads));
    }
    out.push_str("\\midrule\n");
    for row in &sheet.rows {
        if row.ruled {
            out.push_str("\\midrule\n");
        }
        let Some((head, groups)) = row.heads.split_last() else { continue };
        let named = groups.iter().zip(&sheet.stub).filter(|(text, _)| !text.is_empty());
        let groups: Vec<String> = named.map(|(text, axis)| group_head(text, axis)).collect();
        if !groups.is_empty() {
            // The heading of a group of rows takes no column of its own.
            let _ = writeln!(
                out,
                "\\multicolumn{{{}}}{{@{{}}l}}{{\\emph{{{}}}}} \\\\",
                leaves + 1,
                groups.join(", ")
            );
        }
        let cells: Vec<String> =
            std::iter::once(cell(head)).chain(row.cells.iter().map(narrow_cell)).collect();
        let _ = writeln!(out, "{} \\\\", cells.join(" & "));
    }
    out.push_str("\\bottomrule\n\\end{tabular}");
    out
}

/// Returns a part of the heading of a group of rows. There is no other place for the name of its axis.
fn group_head(text: &SheetText, axis: &str) -> String {
    match text.as_slice() {
        [TextPiece::Text(value)] if needs_axis(value) => escape(&value_with_axis(axis, value)),
        _ => cell(text),
    }
}

/// Returns a heading. Above a single column, it is broken into short lines.
fn narrow_head(head: &SheetHead) -> String {
    if head.columns > 1 || head.text.is_empty() {
        return head_cell(head);
    }
    let mut lines = vec![String::new()];
    for piece in &head.text {
        let TextPiece::Text(text) = piece else { continue };
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) if line.chars().count() + 1 + word.chars().count() <= HEAD_WIDTH => {
                    let _ = write!(line, " {word}");
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    let marks: String =
        head.text.iter().filter(|piece| !matches!(piece, TextPiece::Text(_))).map(piece_text).collect();
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    format!("\\multicolumn{{1}}{{c}}{{\\pipehead{{{}{marks}}}}}", lines.join("\\\\"))
}

/// Returns a cell: its value, and separately its interval and its marks.
fn narrow_cell(text: &SheetText) -> String {
    let start = text.iter().position(|piece| matches!(piece, TextPiece::PlusMinus | TextPiece::Open));
    let Some(start) = start else { return cell(text) };
    let is_mark =
        |piece: &TextPiece| matches!(piece, TextPiece::Oracle | TextPiece::External | TextPiece::Differs);
    let interval: String = text[start..].iter().filter(|piece| !is_mark(piece)).map(piece_text).collect();
    let marks: SheetText = text.iter().filter(|piece| is_mark(piece)).cloned().collect();
    let marks = if marks.is_empty() { String::new() } else { numeric_marks(marks) };
    let value: String = text[..start].iter().map(piece_text).collect();
    let interval = interval.trim().replace("$\\pm$ ", "$\\pm$").replace(", ", ",\\,");
    format!("\\pipecell{{{value}}}{{{interval}}}{{{marks}}}")
}

/// Returns marks that take no width, as behind a number.
fn numeric_marks(mut marks: SheetText) -> String {
    marks.insert(0, TextPiece::Number(String::new()));
    cell(&marks)
}
