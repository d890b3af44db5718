//! Tables that can be read without a script, and sorted and searched with one.

use serde::Serialize;

use super::html::{Element, Html, el};
use super::mark;
use super::number::decimal;
use pipe_ml::metric::marked::{Marked, Protocol};

/// Rows beyond these are in the page as data: scripts show them, and search and sort all of them.
pub const SHOWN: usize = 200;
/// From this many rows on there is a field to search in.
const SEARCHED: usize = 12;

#[derive(Debug, Clone, Default)]
pub struct Grid {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Default)]
pub struct Column {
    heading: String,
    help: Option<String>,
    number: bool,
    protocol: Protocol,
}

#[derive(Debug, Clone)]
pub struct Row {
    cells: Vec<Cell>,
    protocol: Protocol,
    /// The instance that the row is about, for a live page.
    instance: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    /// What to sort by, where it is not the text.
    key: Option<f64>,
    /// Small print below the text.
    below: Option<String>,
    code: bool,
    best: bool,
    status: Option<&'static str>,
}

impl Column {
    pub fn text(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    pub fn number(heading: impl Into<String>) -> Self {
        Self { number: true, ..Self::text(heading) }
    }

    /// A column of figures that were measured, marked with their protocol.
    pub fn measured(heading: Marked<String>) -> Self {
        let (protocol, heading) = heading.reveal();
        Self { protocol, ..Self::number(heading) }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

impl Row {
    /// Of things that nobody measured.
    pub fn plain(cells: Vec<Cell>) -> Self {
        Self { cells, protocol: Protocol::Honest, instance: None }
    }

    /// A row of measured figures, marked with their protocol.
    pub fn measured(cells: Marked<Vec<Cell>>) -> Self {
        let (protocol, cells) = cells.reveal();
        Self { cells, protocol, instance: None }
    }

    pub fn about(self, instance: impl Into<String>) -> Self {
        Self { instance: Some(instance.into()), ..self }
    }
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn number(text: impl Into<String>, key: f64) -> Self {
        Self { key: key.is_finite().then_some(key), ..Self::text(text) }
    }

    /// A measured figure, marked by itself.
    pub fn measured(value: Marked<f64>) -> Self {
        match value.reveal() {
            (Protocol::Honest, value) => Self::number(decimal(value), value),
            (Protocol::Oracle, value) => Self::number(decimal(value), value).below("oracle"),
        }
    }

    pub fn code(text: impl Into<String>) -> Self {
        Self { code: true, ..Self::text(text) }
    }

    /// A word with a colour of its own; the class is `status-` and this.
    pub fn status(text: impl Into<String>, class: &'static str) -> Self {
        Self { status: Some(class), ..Self::text(text) }
    }

    pub fn none() -> Self {
        Self::text("–")
    }

    pub fn below(self, text: impl Into<String>) -> Self {
        Self { below: Some(text.into()), ..self }
    }

    pub fn best(self, best: bool) -> Self {
        Self { best, ..self }
    }

    fn fill(&self, element: Element) -> Element {
        let element = match self.key {
            Some(key) => element.attr("data-key", key),
            None => element,
        };
        let element = match (self.code, self.best, self.status) {
            (_, _, Some(status)) => {
                element.child(el("span").class("status").attr("data-status", status).text(&self.text))
            }
            (true, ..) => element.child(el("code").text(&self.text)),
            (_, true, _) => element.child(el("strong").text(&self.text)),
            _ => element.text(&self.text),
        };
        element.maybe(self.below.as_deref().map(|below| el("small").text(below)))
    }
}

/// A row that only scripts see.
#[derive(Serialize)]
struct HiddenRow<'a> {
    oracle: bool,
    cells: Vec<HiddenCell<'a>>,
}

/// Most cells are their text: a page about thousands of labels has a million of them.
#[derive(Serialize)]
#[serde(untagged)]
enum HiddenCell<'a> {
    Text(&'a str),
    Whole {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        below: Option<&'a str>,
    },
}

impl Grid {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn html(&self) -> Html {
        // What a live page follows has to be an element that can be changed.
        let followed = self.rows.iter().any(|row| row.instance.is_some());
        let (shown, hidden) =
            self.rows.split_at(if followed { self.rows.len() } else { self.rows.len().min(SHOWN) });
        let heading = el("tr").children(self.columns.iter().map(Column::html));
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
            // Only a search makes the script put something there.
            grid = grid.child(el("p").class("more").flag("hidden"));
        }
        grid.into()
    }

    fn search(&self) -> Element {
        let field =
            el("input").attr("type", "search").attr("autocomplete", "off").attr("spellcheck", "false");
        el("p").class("search js-only").child(el("label").text("Search ").child(field)).child(el("output"))
    }

    fn row(&self, row: &Row) -> Element {
        let mut tr = el("tr");
        if row.protocol == Protocol::Oracle {
            tr = tr.class("oracle");
        }
        if let Some(instance) = &row.instance {
            tr = tr.attr("data-instance", instance);
        }
        for (place, (cell, column)) in row.cells.iter().zip(&self.columns).enumerate() {
            let element = match place {
                0 => el("th").attr("scope", "row"),
                _ => el("td"),
            };
            let element = if column.number { element.class("number") } else { element };
            let mut element = cell.fill(element);
            if place == 0 {
                element = marked(element, row.protocol);
            }
            tr = tr.child(element);
        }
        tr
    }
}

impl Column {
    fn html(&self) -> Element {
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

fn marked(element: Element, protocol: Protocol) -> Element {
    match mark::badge(protocol) {
        Some(badge) => element.text(" ").child(badge),
        None => element,
    }
}

impl Row {
    fn hidden(&self, columns: &[Column]) -> HiddenRow<'_> {
        let cells =
            self.cells.iter().zip(columns).map(|(cell, column)| HiddenCell::of(cell, column)).collect();
        HiddenRow { oracle: self.protocol == Protocol::Oracle, cells }
    }
}

impl<'a> HiddenCell<'a> {
    fn of(cell: &'a Cell, column: &Column) -> Self {
        // The script reads the text of a column of numbers as the number; to the digits shown it may be sorted by that.
        let read = || cell.text.replace('\u{202f}', "").parse::<f64>().ok();
        let says_it = match cell.key {
            None => !column.number || cell.text.is_empty(),
            Some(key) => {
                column.number && read().is_some_and(|read| (read - key).abs() <= 5e-4 * key.abs().max(0.1))
            }
        };
        match (says_it, &cell.below) {
            (true, None) => Self::Text(&cell.text),
            _ => Self::Whole { text: &cell.text, key: cell.key, below: cell.below.as_deref() },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::html::tests::hostile;
    use super::*;

    fn grid(rows: usize) -> Grid {
        let row = |n: usize| Row::plain(vec![Cell::text(format!("row {n}")), Cell::number("1", n as f64)]);
        Grid {
            caption: "Numbers".into(),
            columns: vec![Column::text("name"), Column::number("n").help("counted")],
            rows: (0..rows).map(row).collect(),
        }
    }

    #[test]
    fn rows_and_columns_are_headed() {
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
    fn a_long_table_shows_its_beginning_and_keeps_the_rest_as_data() {
        let html = grid(SHOWN + 3).html().into_string();
        assert_eq!(html.matches("<tr>").count(), SHOWN + 1);
        assert!(html.contains("The first 200 of 203 rows."), "{html}");
        let (_, rest) = html.split_once("class=\"rest\">").unwrap();
        let rest: serde_json::Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(rest.as_array().unwrap().len(), 3);
        assert_eq!(rest[2]["cells"][0], "row 202");
    }

    #[test]
    fn rows_that_a_live_page_follows_are_all_elements() {
        let mut grid = grid(SHOWN + 3);
        grid.rows.iter_mut().for_each(|row| row.instance = Some("train".to_owned()));
        let html = grid.html().into_string();
        assert_eq!(html.matches("<tr data-instance=\"train\">").count(), SHOWN + 3, "{html}");
        assert!(html.contains("<p class=\"more\" hidden></p>") && !html.contains("class=\"rest\""), "{html}");
    }

    #[test]
    fn an_oracle_row_or_column_is_marked() {
        let mut grid = grid(0);
        grid.columns.push(Column::measured(Marked::new(Protocol::Oracle, "f1".to_owned())));
        assert!(grid.html().into_string().contains("<span>f1</span> <abbr"));
        let cells = || vec![Cell::text("a"), Cell::text("b")];
        grid.columns.pop();
        grid.rows.push(Row::measured(Marked::new(Protocol::Oracle, cells())));
        grid.rows.push(Row::measured(Marked::new(Protocol::Honest, cells())));
        let html = grid.html().into_string();
        assert_eq!((html.matches("<tr class=\"oracle\">").count(), html.matches("<abbr").count()), (1, 1));
    }

    proptest! {
        #[test]
        fn no_text_breaks_out(text in hostile()) {
            let cells = || vec![Cell::text(&*text).below(&*text), Cell::code(&*text)];
            let plain = || Row::plain(cells());
            let live = || plain().about(&*text);
            for (row, scripts) in [(&plain as &dyn Fn() -> Row, 1), (&live, 0)] {
                let grid = Grid {
                    caption: text.clone(),
                    columns: vec![Column::text(&*text).help(&*text), Column::text(&*text)],
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
