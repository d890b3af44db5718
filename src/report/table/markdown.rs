//! Writes a table as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use super::exporter::TableExporter;
use super::sheet::{Sheet, SheetText, TextPiece};

/// The format for web pages and README files.
pub const EXPORTER: TableExporter =
    TableExporter { name: "md", file_suffix: ".md", export: |_, sheet| markdown(sheet) };

/// Returns a sheet as Markdown.
pub fn markdown(sheet: &Sheet) -> String {
    let mut out = String::new();
    let mut caption: Vec<String> = sheet.caption.iter().map(|caption| escape(caption)).collect();
    caption.extend(sheet.legend.iter().map(text));
    if !caption.is_empty() {
        let _ = writeln!(out, "{}\n", caption.join(" "));
    }
    let mut titles: Vec<String> = sheet.stub.iter().map(|title| escape(title)).collect();
    titles.extend(column_titles(sheet).iter().map(|path| {
        let parts: Vec<String> = path.iter().map(|part| text(part)).collect();
        parts.join("<br>")
    }));
    let _ = writeln!(out, "| {} |", titles.join(" | "));
    let rule = |at| if at < sheet.stub.len() { "---" } else { "---:" };
    let rules: Vec<&str> = (0..titles.len()).map(rule).collect();
    let _ = writeln!(out, "| {} |", rules.join(" | "));
    for row in &sheet.rows {
        let cells: Vec<String> = row.heads.iter().chain(&row.cells).map(text).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    for note in &sheet.notes {
        let _ = writeln!(out, "\n{}", text(note));
    }
    out
}

/// Returns the heads above each column, from top to bottom, without the empty ones.
pub fn column_titles(sheet: &Sheet) -> Vec<Vec<&SheetText>> {
    let columns = sheet.heads.last().map_or(0, |heads| heads.iter().map(|head| head.columns).sum());
    let mut titles: Vec<Vec<&SheetText>> = vec![Vec::new(); columns];
    for heads in &sheet.heads {
        let mut at = 0;
        for head in heads {
            for title in titles.iter_mut().skip(at).take(head.columns).filter(|_| !head.text.is_empty()) {
                title.push(&head.text);
            }
            at += head.columns;
        }
    }
    titles
}

fn text(text: &SheetText) -> String {
    text.iter()
        .map(|piece| match piece {
            TextPiece::Text(text) => escape(text),
            TextPiece::Best(number) => format!("**{number}**"),
            TextPiece::Second(number) => format!("<ins>{number}</ins>"),
            TextPiece::Differs => "\\*".to_owned(),
            other => other.plain().to_owned(),
        })
        .collect()
}

/// Escapes text. A bar becomes a character reference, since not every reader of tables knows `\|`, and so do control
/// characters and those that change the direction of the line.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => out.push(' '),
            '|' => out.push_str("&#124;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '&' | '~' | '#' | '$' | '^'
            | '"' => {
                out.extend(['\\', character]);
            }
            c if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(out, "&#x{:X};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}
