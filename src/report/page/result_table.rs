//! Shows a [`Table`] of results on a page, with the marks of the oracle protocol.

use super::grid::{GridCell, GridColumn, GridRow, PageGrid};
use super::html::{Html, el};
use super::oracle_mark;
use crate::table::markdown::column_titles;
use crate::table::sheet::{Sheet, SheetRow, SheetText, TextPiece, lay_out};
use crate::table::{Rank, Table};
use pipe_ml::metric::marked::{Marked, Protocol};

/// Returns a table with its legend and notes as HTML.
pub fn html(table: &Table) -> Html {
    let sheet = lay_out(table);
    let mut html = Html::from(el("div").class("result").child(grid(&sheet, &table.name).html()));
    for note in sheet.legend.iter().chain(&sheet.notes) {
        html.push(el("p").class("note").children(note.iter().map(note_piece)));
    }
    html
}

fn grid(sheet: &Sheet, name: &str) -> PageGrid {
    let mut columns: Vec<GridColumn> = sheet.stub.iter().map(GridColumn::text).collect();
    columns.extend(column_titles(sheet).into_iter().map(|path| {
        let protocol = protocol(path.iter().copied());
        let title: Vec<String> = path.iter().map(|part| plain(&without_mark(part))).collect();
        GridColumn::measured(Marked::new(protocol, title.join("\n")))
    }));
    let grid_row = |row: &SheetRow| {
        let heads = row.heads.iter().map(|head| GridCell::text(plain(&without_mark(head))));
        let cells = heads.chain(row.cells.iter().map(cell)).collect();
        GridRow::measured(Marked::new(protocol(row.heads.iter()), cells))
    };
    let caption = sheet.caption.clone().unwrap_or_else(|| name.to_owned());
    PageGrid { caption, columns, rows: sheet.rows.iter().map(grid_row).collect() }
}

/// Returns a piece of a note. The mark is the one that rows and columns have.
fn note_piece(piece: &TextPiece) -> Html {
    match oracle_mark::badge(Protocol::Oracle).filter(|_| *piece == TextPiece::Oracle) {
        Some(badge) => badge.into(),
        None => Html::text(piece.plain()),
    }
}

/// Returns the protocol that the marks in some texts name.
fn protocol<'a>(texts: impl Iterator<Item = &'a SheetText>) -> Protocol {
    let is_oracle = texts.flatten().any(|piece| *piece == TextPiece::Oracle);
    if is_oracle { Protocol::Oracle } else { Protocol::Honest }
}

/// Returns a text without the mark, which a badge replaces.
fn without_mark(text: &SheetText) -> SheetText {
    text.iter().filter(|piece| **piece != TextPiece::Oracle).cloned().collect()
}

/// Returns a cell. Its interval is small print, which a phone shows below the value. A mark in a cell applies only to that
/// cell, and stays in its text.
fn cell(text: &SheetText) -> GridCell {
    let is_mark =
        |piece: &&TextPiece| matches!(piece, TextPiece::Oracle | TextPiece::External | TextPiece::Differs);
    let is_interval = |piece: &TextPiece| matches!(piece, TextPiece::PlusMinus | TextPiece::Open);
    let (value, rest) = text.split_at(text.iter().position(is_interval).unwrap_or(text.len()));
    let shown: SheetText = value.iter().chain(rest.iter().filter(is_mark)).cloned().collect();
    let interval: SheetText = rest.iter().filter(|piece| !is_mark(piece)).cloned().collect();
    let number = text.iter().find_map(|piece| match piece {
        TextPiece::Number(number) | TextPiece::Best(number) | TextPiece::Second(number) => Some(number),
        _ => None,
    });
    let key = number.and_then(|number| number.replace('−', "-").parse().ok());
    let rank = text.iter().find_map(|piece| match piece {
        TextPiece::Best(_) => Some(Rank::Best),
        TextPiece::Second(_) => Some(Rank::Second),
        _ => None,
    });
    let cell = match key {
        Some(key) => GridCell::number(plain(&shown), key),
        None => GridCell::text(plain(&shown)),
    };
    let mut below = plain(&interval);
    if protocol([text].into_iter()) == Protocol::Oracle {
        below.push_str(" oracle");
    }
    let cell = cell.rank(rank);
    if below.is_empty() { cell } else { cell.below(below) }
}

fn plain(text: &SheetText) -> String {
    text.iter().map(TextPiece::plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::sheet::SheetHead;

    #[test]
    fn marks_of_rows_columns_and_cells_are_shown() {
        let plain = |text: &str| vec![TextPiece::Text(text.to_owned())];
        let row =
            |head: SheetText, cells: Vec<SheetText>| SheetRow { ruled: false, heads: vec![head], cells };
        let sheet = Sheet {
            stub: vec!["variant".to_owned()],
            heads: vec![vec![
                SheetHead { text: plain("F1"), columns: 1 },
                SheetHead { text: vec![TextPiece::Text("paper".to_owned()), TextPiece::Oracle], columns: 1 },
            ]],
            rows: vec![
                row(plain("a"), vec![vec![TextPiece::Best("0.4".to_owned())], vec![TextPiece::Nothing]]),
                row(
                    vec![TextPiece::Text("b".to_owned()), TextPiece::Oracle],
                    vec![
                        vec![TextPiece::Number("0.7".to_owned()), TextPiece::Oracle],
                        vec![
                            TextPiece::Second("0.3".to_owned()),
                            TextPiece::PlusMinus,
                            TextPiece::Number("0.1".to_owned()),
                            TextPiece::Differs,
                        ],
                    ],
                ),
            ],
            caption: Some("<b>".to_owned()),
            rank_sentence: None,
            legend: Vec::new(),
            notes: Vec::new(),
        };
        let html = grid(&sheet, "table1").html().into_string();
        assert_eq!(html.matches(">oracle</abbr>").count(), 2, "a row and a column: {html}");
        assert!(
            html.contains("0.7†<small> oracle</small>")
                && html.contains("<strong>0.4</strong>")
                && html.contains("<u>0.3*</u><small> ± 0.1</small>"),
            "{html}"
        );
        assert!(html.contains("<caption>&lt;b&gt;</caption>"), "{html}");
    }
}
