//! HTML tables that can be read without scripts, and sorted and searched with them.

use serde::Serialize;

use super::html::{Html, HtmlElement, el};
use super::number::decimal;
use super::oracle_mark;
use crate::table::Rank;
use pipe_ml::metric::marked::{Marked, Protocol};

/// The number of rows that are elements. The page contains further rows as data, which scripts show, search and sort.
pub const SHOWN: usize = 200;
/// The number of rows from which on a table has a search field.
const SEARCHED: usize = 12;

/// A table on a page.
#[derive(Debug, Clone, Default)]
pub struct PageGrid {
    pub caption: String,
    pub columns: Vec<GridColumn>,
    pub rows: Vec<GridRow>,
}

/// The head of a column.
#[derive(Debug, Clone, Default)]
pub struct GridColumn {
    heading: String,
    help: Option<String>,
    number: bool,
    protocol: Protocol,
}

/// A row.
#[derive(Debug, Clone)]
pub struct GridRow {
    cells: Vec<GridCell>,
    protocol: Protocol,
    /// The instance that the row describes, on a live page.
    instance: Option<String>,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct GridCell {
    text: String,
    /// The number to sort by; `None` to sort by the text.
    key: Option<f64>,
    /// Small print below the text.
    below: Option<String>,
    code: bool,
    rank: Option<Rank>,
    status: Option<&'static str>,
}

impl GridColumn {
    /// Creates a column of text.
    pub fn text(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Creates a column of numbers.
    pub fn number(heading: impl Into<String>) -> Self {
        Self { number: true, ..Self::text(heading) }
    }

    /// Creates a column of measured values, which is marked with their protocol.
    pub fn measured(heading: Marked<String>) -> Self {
        let (protocol, heading) = heading.reveal();
        Self { protocol, ..Self::number(heading) }
    }

    /// Adds an explanation that is shown on hovering.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl GridRow {
    /// Creates a row without measured values.
    pub fn plain(cells: Vec<GridCell>) -> Self {
        Self { cells, protocol: Protocol::Honest, instance: None }
    }

    /// Creates a row of measured values, which is marked with their protocol.
    pub fn measured(cells: Marked<Vec<GridCell>>) -> Self {
        let (protocol, cells) = cells.reveal();
        Self { cells, protocol, instance: None }
    }

    /// Sets the instance that the row describes, so that a live page can update it.
    pub fn about(self, instance: impl Into<String>) -> Self {
        Self { instance: Some(instance.into()), ..self }
    }
}

impl GridCell {
    /// Creates a cell with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a cell with a formatted number and the key to sort by.
    pub fn number(text: impl Into<String>, key: f64) -> Self {
        Self { key: key.is_finite().then_some(key), ..Self::text(text) }
    }

    /// Creates a cell with a measured value, which is marked with its protocol.
    pub fn measured(value: Marked<f64>) -> Self {
        match value.reveal() {
            (Protocol::Honest, value) => Self::number(decimal(value), value),
            (Protocol::Oracle, value) => Self::number(decimal(value), value).below("oracle"),
        }
    }

    /// Creates a cell with code.
    pub fn code(text: impl Into<String>) -> Self {
        Self { code: true, ..Self::text(text) }
    }

    /// Creates a cell with a word in the colour of a status.
    pub fn status(text: impl Into<String>, class: &'static str) -> Self {
        Self { status: Some(class), ..Self::text(text) }
    }

    /// Creates a cell for a missing value.
    pub fn none() -> Self {
        Self::text("–")
    }

    /// Adds small print below the text.
    pub fn below(self, text: impl Into<String>) -> Self {
        Self { below: Some(text.into()), ..self }
    }

    /// Sets whether the value is the best or second best of its kind.
    pub fn rank(self, rank: Option<Rank>) -> Self {
        Self { rank, ..self }
    }

    fn fill(&self, element: HtmlElement) -> HtmlElement {
        let element = match self.key {
            Some(key) => element.attr("data-key", key),
            None => element,
        };
        let element = match (self.code, self.rank, self.status) {
            (_, _, Some(status)) => {
                element.child(el("span").class("status").attr("data-status", status).text(&self.text))
            }
            (true, ..) => element.child(el("code").text(&self.text)),
            (_, Some(Rank::Best), _) => element.child(el("strong").text(&self.text)),
            (_, Some(Rank::Second), _) => element.child(el("u").text(&self.text)),
            _ => element.text(&self.text),
        };
        element.maybe(self.below.as_deref().map(|below| el("small").text(below)))
    }
}

/// A row that the page contains only as data for scripts.
#[derive(Serialize)]
struct HiddenRow<'a> {
    oracle: bool,
    cells: Vec<HiddenCell<'a>>,
}

/// A cell as data. Most cells are only their text: a page about thousands of labels has a million cells.
#[derive(Serialize)]
#[serde(untagged)]
enum HiddenCell<'a> {
    Text(&'a str),
    Full {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        below: Option<&'a str>,
    },
}

impl PageGrid {
    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as HTML.
    pub fn html(&self) -> Html {
        // A live page can only update rows that are elements.
        let followed = self.rows.iter().any(|row| row.instance.is_some());
        let (shown, hidden) =
            self.rows.split_at(if followed { self.rows.len() } else { self.rows.len().min(SHOWN) });
        let heading = el("tr").children(self.columns.iter().map(GridColumn::html));
        let body = el("tbody").children(shown.iter().map(|row| self.row(row)));
        let caption = (!self.caption.is_empty()).then(|| el("caption").text(&self.caption));
        let table = el("table").maybe(caption).child(el("thead").child(heading)).child(body);
        let scrolled = el("div")
            .class("scroll")
            .attr("tabindex", 0)
            .attr("role", "group")
            .attr("aria-label", &self.caption)
            .child(table);
        let mut grid = el("div").class("grid");
        if self.rows.len() >= SEARCHED {
            grid = grid.child(self.search());
        }
        grid = grid.child(scrolled);
        if !hidden.is_empty() {
            let (all, shown) = (self.rows.len(), shown.len());
            let words =
                format!("The first {shown} of {all} rows. With scripts on, all of them can be searched.");
            let rest: Vec<HiddenRow> = hidden.iter().map(|row| row.hidden(&self.columns)).collect();
            grid = grid
                .child(el("p").class("more").text(&words))
                .child(el("script").attr("type", "application/json").class("rest").child(Html::json(&rest)));
        }
        if followed && shown.len() > SHOWN {
            // The script writes into it after a search.
            grid = grid.child(el("p").class("more").flag("hidden"));
        }
        grid.into()
    }

    fn search(&self) -> HtmlElement {
        let field =
            el("input").attr("type", "search").attr("autocomplete", "off").attr("spellcheck", "false");
        el("p").class("search js-only").child(el("label").text("Search ").child(field)).child(el("output"))
    }

    fn row(&self, row: &GridRow) -> HtmlElement {
        let mut tr = el("tr");
        if row.protocol == Protocol::Oracle {
            tr = tr.class("oracle");
        }
        if let Some(instance) = &row.instance {
            tr = tr.attr("data-instance", instance);
        }
        for (index, (cell, column)) in row.cells.iter().zip(&self.columns).enumerate() {
            let element = match index {
                0 => el("th").attr("scope", "row"),
                _ => el("td"),
            };
            let element = if column.number { element.class("number") } else { element };
            let mut element = cell.fill(element);
            if index == 0 {
                element = marked(element, row.protocol);
            }
            tr = tr.child(element);
        }
        tr
    }
}

impl GridColumn {
    fn html(&self) -> HtmlElement {
        let mut th = el("th").attr("scope", "col");
        if self.number {
            th = th.class("number");
        }
        if let Some(help) = &self.help {
            th = th.attr("title", help);
        }
        marked(th.child(el("span").text(&self.heading)), self.protocol)
    }
}

fn marked(element: HtmlElement, protocol: Protocol) -> HtmlElement {
    match oracle_mark::badge(protocol) {
        Some(badge) => element.text(" ").child(badge),
        None => element,
    }
}

impl GridRow {
    fn hidden(&self, columns: &[GridColumn]) -> HiddenRow<'_> {
        let cells =
            self.cells.iter().zip(columns).map(|(cell, column)| HiddenCell::of(cell, column)).collect();
        HiddenRow { oracle: self.protocol == Protocol::Oracle, cells }
    }
}

impl<'a> HiddenCell<'a> {
    fn of(cell: &'a GridCell, column: &GridColumn) -> Self {
        // The script parses the text of a numeric column, so the key is left out if the text gives the same order.
        let parsed = || cell.text.replace('\u{202f}', "").parse::<f64>().ok();
        let text_suffices = match cell.key {
            None => !column.number || cell.text.is_empty(),
            Some(key) => {
                column.number
                    && parsed().is_some_and(|parsed| (parsed - key).abs() <= 5e-4 * key.abs().max(0.1))
            }
        };
        match (text_suffices, &cell.below) {
            (true, None) => Self::Text(&cell.text),
            _ => Self::Full { text: &cell.text, key: cell.key, below: cell.below.as_deref() },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::html::tests::hostile;
    use super::*;

    fn grid(rows: usize) -> PageGrid {
        let row = |n: usize| {
            GridRow::plain(vec![GridCell::text(format!("row {n}")), GridCell::number("1", n as f64)])
        };
        PageGrid {
            caption: "Numbers".into(),
            columns: vec![GridColumn::text("name"), GridColumn::number("n").help("counted")],
            rows: (0..rows).map(row).collect(),
        }
    }

    #[test]
    fn rows_and_columns_have_heads() {
        let html = grid(1).html().into_string();
        for part in [
            "<caption>Numbers</caption>",
            r#"<th scope="col" class="number" title="counted"><span>n</span></th>"#,
            r#"<tr><th scope="row">row 0</th><td class="number" data-key="0">1</td></tr>"#,
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("type=\"search\""));
    }

    #[test]
    fn a_long_table_shows_its_first_rows_and_contains_the_rest_as_data() {
        let html = grid(SHOWN + 3).html().into_string();
        assert_eq!(html.matches("<tr>").count(), SHOWN + 1);
        assert!(html.contains("The first 200 of 203 rows."), "{html}");
        let (_, rest) = html.split_once("class=\"rest\">").unwrap();
        let rest: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(rest.as_array().unwrap().len(), 3);
        assert_eq!(rest[2]["cells"][0], "row 202");
    }

    #[test]
    fn all_rows_that_a_live_page_updates_are_elements() {
        let mut grid = grid(SHOWN + 3);
        for row in &mut grid.rows {
            row.instance = Some("train".to_owned());
        }
        let html = grid.html().into_string();
        assert_eq!(html.matches("<tr data-instance=\"train\">").count(), SHOWN + 3, "{html}");
        assert!(html.contains("<p class=\"more\" hidden></p>") && !html.contains("class=\"rest\""), "{html}");
    }

    #[test]
    fn an_oracle_row_or_column_is_marked() {
        let mut grid = grid(0);
        grid.columns.push(GridColumn::measured(Marked::new(Protocol::Oracle, "f1".to_owned())));
        assert!(grid.html().into_string().contains("<span>f1</span> <abbr"));
        let cells = || vec![GridCell::text("a"), GridCell::text("b")];
        grid.columns.pop();
        grid.rows.push(GridRow::measured(Marked::new(Protocol::Oracle, cells())));
        grid.rows.push(GridRow::measured(Marked::new(Protocol::Honest, cells())));
        let html = grid.html().into_string();
        assert_eq!((html.matches("<tr class=\"oracle\">").count(), html.matches("<abbr").count()), (1, 1));
    }

    proptest! {
        #[test]
        fn text_cannot_break_out_of_its_element(text in hostile()) {
            let cells = || vec![GridCell::text(&*text).below(&*text), GridCell::code(&*text)];
            let plain = || GridRow::plain(cells());
            let live = || plain().about(&*text);
            for (row, scripts) in [(&plain as &dyn Fn() -> GridRow, 1), (&live, 0)] {
                let grid = PageGrid {
                    caption: text.clone(),
                    columns: vec![GridColumn::text(&*text).help(&*text), GridColumn::text(&*text)],
                    rows: (0..=SHOWN).map(|_| row()).collect(),
                };
                let html = grid.html().into_string();
                prop_assert_eq!(html.matches("<script").count(), scripts, "only the data");
                prop_assert_eq!(html.matches("</script").count(), scripts);
                prop_assert!(!html.contains("<svg") && !html.contains("<!--"));
                prop_assert_eq!(html.matches("<tr").count(), SHOWN + 2 - scripts);
            }
        }
    }
}
