//! Lays a table out: heads, rows, marks, caption and notes. Every format for people is written from the [`Sheet`], so
//! that no format can leave out a mark.

use super::display::{ShowN, TableDisplay, TableInterval};
use super::note;
use super::number::{fixed, signed};
use super::{AxisEntry, Comparison, METRIC, OtherRow, Published, Rank, Table, TableCell};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::{Direction, Metric};

/// A piece of a text in a sheet; each format has its own way to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPiece {
    Text(String),
    Number(String),
    /// A number that is the best among its competitors.
    Best(String),
    /// A number that is the second best.
    Second(String),
    PlusMinus,
    /// The bracket in front of an interval, the comma between its ends, and the bracket behind it.
    Open,
    Comma,
    Close,
    /// The mark of the oracle protocol: the labels of the evaluated rows were used to decide on them.
    Oracle,
    /// The mark of a value that a program reported.
    External,
    /// The mark of a significant difference from the row that it was tested against.
    Differs,
    /// An arrow: higher values are better.
    Up,
    /// An arrow: lower values are better.
    Down,
    /// The symbol at the head of differences.
    Difference,
    /// A dash: there is no value.
    Nothing,
}

impl TextPiece {
    /// Returns the piece as plain text, without bold print and underlines.
    pub fn plain(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Best(text) | Self::Second(text) => text,
            Self::PlusMinus => " ± ",
            Self::Open => " [",
            Self::Comma => ", ",
            Self::Close => "]",
            Self::Oracle => "†",
            Self::External => "‡",
            Self::Differs => "*",
            Self::Up => " ↑",
            Self::Down => " ↓",
            Self::Difference => "Δ",
            Self::Nothing => "–",
        }
    }
}

/// A text with marks.
pub type SheetText = Vec<TextPiece>;

/// A table as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// The titles of the axes of the rows.
    pub stub: Vec<String>,
    /// The rows of heads, from top to bottom; each covers all columns.
    pub heads: Vec<Vec<SheetHead>>,
    pub rows: Vec<SheetRow>,
    /// The caption that the user wrote.
    pub caption: Option<String>,
    /// Sentences for the caption that explain how to read the table.
    pub legend: Vec<SheetText>,
    /// The sentence of the legend about bold and underlined values, by position. Formats that show neither leave it out.
    pub rank_sentence: Option<usize>,
    /// Notes below the table.
    pub notes: Vec<SheetText>,
}

/// A head above one or several columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetHead {
    pub text: SheetText,
    /// The number of columns that it spans.
    pub columns: usize,
}

/// A row of a sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetRow {
    /// Whether a rule separates it from the row above.
    pub ruled: bool,
    pub heads: Vec<SheetText>,
    pub cells: Vec<SheetText>,
}

/// A printed column, by the position of the table's column and of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SheetColumn {
    Ours(usize),
    Published(usize, usize),
    Difference(usize, usize),
}

struct SheetLayout<'a> {
    table: &'a Table,
    columns: Vec<SheetColumn>,
    /// Rows in which every value is an oracle one: the mark is at their head.
    oracle_rows: Vec<bool>,
    /// Columns that are marked at their head.
    oracle_columns: Vec<bool>,
    counts: RunCounts,
}

/// Returns whether the title of a value says nothing without its axis: a number, true or false.
pub(super) fn needs_axis(title: &str) -> bool {
    title.parse::<f64>().is_ok() || title.parse::<bool>().is_ok()
}

/// Returns the title of a value with that of its axis.
pub(super) fn value_with_axis(axis: &str, value: &str) -> String {
    format!("{axis} = {value}")
}

/// Returns the value of a cell and its interval, without the number of runs and without marks.
pub(crate) fn value_pieces(cell: &TableCell, display: TableDisplay) -> SheetText {
    let (_, spread) = cell.value.reveal();
    let print = |value: f64| cell.print(display.scale, value);
    let mean = print(spread.mean);
    let mut text = vec![match cell.rank {
        Some(Rank::Best) => TextPiece::Best(mean),
        Some(Rank::Second) => TextPiece::Second(mean),
        None => TextPiece::Number(mean),
    }];
    match (cell.interval, spread.standard_deviation) {
        (Some((low, high)), _) => {
            let [low, high] = [low, high].map(|end| TextPiece::Number(print(end)));
            text.extend([TextPiece::Open, low, TextPiece::Comma, high, TextPiece::Close]);
        }
        (None, Some(deviation)) if display.interval == TableInterval::Deviation => {
            text.extend([TextPiece::PlusMinus, TextPiece::Number(print(deviation))]);
        }
        _ => {}
    }
    text
}

/// Lays a table out.
pub fn lay_out(table: &Table) -> Sheet {
    let (legend, rank_sentence) = note::legend(table);
    let layout = SheetLayout::new(table);
    let ours = (0..table.rows.len()).map(|row| layout.row(row));
    let others = table.others.iter().enumerate().map(|(at, other)| layout.other(at, other));
    Sheet {
        stub: table.row_axes.iter().map(|axis| axis.title.clone()).collect(),
        heads: layout.heads(),
        rows: ours.chain(others).collect(),
        caption: table.caption.as_deref().and_then(as_sentence),
        legend,
        rank_sentence,
        notes: note::notes(table),
    }
}

impl<'a> SheetLayout<'a> {
    fn new(table: &'a Table) -> Self {
        let mut columns = Vec::new();
        for column in 0..table.columns.len() {
            columns.push(SheetColumn::Ours(column));
            for set in 0..table.references.len() {
                let beside =
                    |cells: &Vec<Option<TableCell>>| comparison(cells[column].as_ref(), set).is_some();
                if table.cells.iter().any(beside) {
                    columns
                        .extend([SheetColumn::Published(column, set), SheetColumn::Difference(column, set)]);
                }
            }
        }
        let all_oracle = |mut marks: Vec<Protocol>| {
            let any = !marks.is_empty();
            marks.retain(|protocol| *protocol == Protocol::Honest);
            any && marks.is_empty()
        };
        let oracle_rows: Vec<bool> = table
            .cells
            .iter()
            .map(|cells| all_oracle(cells.iter().flatten().map(|cell| cell.value.protocol()).collect()))
            .collect();
        let mut layout =
            Self { table, columns, oracle_rows, oracle_columns: Vec::new(), counts: RunCounts::of(table) };
        let marks = |column: &SheetColumn| layout.unmarked_protocols(*column);
        layout.oracle_columns = layout.columns.iter().map(|column| all_oracle(marks(column))).collect();
        layout
    }

    /// Returns the protocols of the values in a printed column, without the rows that are marked at their head.
    fn unmarked_protocols(&self, printed: SheetColumn) -> Vec<Protocol> {
        let table = self.table;
        match printed {
            SheetColumn::Ours(column) => {
                let rows = (0..table.rows.len()).filter(|row| !self.oracle_rows[*row]);
                let ours = rows.filter_map(|row| Some(table.cells[row][column].as_ref()?.value.protocol()));
                ours.chain(self.unmarked_published(column, None)).collect()
            }
            SheetColumn::Published(column, set) => {
                let cells = table.cells.iter().map(|cells| comparison(cells[column].as_ref(), set));
                let published = cells.flatten().map(|comparison| comparison.published.protocol());
                published.chain(self.unmarked_published(column, Some(set))).collect()
            }
            SheetColumn::Difference(column, set) => {
                let rows = (0..table.rows.len()).filter(|row| !self.oracle_rows[*row]);
                let cells = rows.map(|row| comparison(table.cells[row][column].as_ref(), set));
                cells.flatten().filter_map(|comparison| Some(comparison.difference?.protocol())).collect()
            }
        }
    }

    /// Returns the same for published rows.
    fn unmarked_published(&self, column: usize, set: Option<usize>) -> impl Iterator<Item = Protocol> {
        let others = self.table.others.iter().filter(move |other| !is_oracle(other));
        let here = others.filter(move |other| self.column_of_published(column, other.reference) == set);
        here.filter_map(move |other| Some(other.values[column].as_ref()?.protocol()))
    }

    /// Returns the reference in whose column a published row has its value: its own, else the first that has a column.
    /// `None` stands for our column, which is used only if no reference has one.
    fn column_of_published(&self, column: usize, reference: usize) -> Option<usize> {
        let set_of = |printed: &SheetColumn| match *printed {
            SheetColumn::Published(at, set) if at == column => Some(set),
            _ => None,
        };
        let mut sets = self.columns.iter().filter_map(set_of);
        let first = sets.next();
        if sets.any(|set| set == reference) { Some(reference) } else { first }
    }

    fn heads(&self) -> Vec<Vec<SheetHead>> {
        let with_references = self.columns.iter().any(|printed| !matches!(printed, SheetColumn::Ours(_)));
        let paths: Vec<Vec<SheetText>> =
            (0..self.columns.len()).map(|at| self.head_path(at, with_references)).collect();
        let levels = paths.first().map_or(0, Vec::len);
        let mut heads: Vec<Vec<SheetHead>> = vec![Vec::new(); levels];
        for (at, path) in paths.iter().enumerate() {
            for (level, text) in path.iter().enumerate() {
                let last = level + 1 == levels;
                let same = at > 0 && !last && paths[at - 1][..=level] == path[..=level];
                let empty = text.is_empty();
                match heads[level].last_mut() {
                    Some(head) if same && !empty => head.columns += 1,
                    _ => heads[level].push(SheetHead { text: text.clone(), columns: 1 }),
                }
            }
        }
        heads
    }

    /// Returns the heads above a printed column, from top to bottom.
    fn head_path(&self, at: usize, with_references: bool) -> Vec<SheetText> {
        let printed = self.columns[at];
        let (SheetColumn::Ours(column)
        | SheetColumn::Published(column, _)
        | SheetColumn::Difference(column, _)) = printed;
        let values = &self.table.columns[column].values;
        let mut path: Vec<SheetText> = values.iter().map(|value| self.column_head(value)).collect();
        let compared = self
            .columns
            .iter()
            .any(|printed| matches!(printed, SheetColumn::Published(c, _) if *c == column));
        let last = match printed {
            SheetColumn::Ours(_) if compared => vec![TextPiece::Text("ours".to_owned())],
            SheetColumn::Ours(_) => SheetText::new(),
            SheetColumn::Published(_, set) => {
                vec![TextPiece::Text(self.table.references[set].heading.clone())]
            }
            SheetColumn::Difference(..) => vec![TextPiece::Difference],
        };
        if with_references && last.is_empty() && path.len() == 1 {
            // A single title is directly above its values.
            path.insert(0, SheetText::new());
        } else if with_references {
            path.push(last);
        }
        if self.oracle_columns[at]
            && let Some(text) = path.iter_mut().rev().find(|text| !text.is_empty())
        {
            text.push(TextPiece::Oracle);
        }
        path
    }

    fn row(&self, row: usize) -> SheetRow {
        let values = &self.table.rows[row].values;
        let before = row.checked_sub(1).map(|before| &self.table.rows[before].values);
        let repeats = |level: usize| before.is_some_and(|before| before[..=level] == values[..=level]);
        let mut heads: Vec<SheetText> = Vec::with_capacity(values.len());
        for (level, value) in values.iter().enumerate() {
            let last = level + 1 == values.len();
            heads.push(if repeats(level) && !last { SheetText::new() } else { self.value_head(value) });
        }
        if self.oracle_rows[row]
            && let Some(head) = heads.last_mut()
        {
            head.push(TextPiece::Oracle);
        }
        let cell = |(at, printed): (usize, &SheetColumn)| self.cell(row, at, *printed);
        SheetRow {
            ruled: row > 0 && values.len() > 1 && !repeats(0),
            heads,
            cells: self.columns.iter().enumerate().map(cell).collect(),
        }
    }

    fn cell(&self, row: usize, at: usize, printed: SheetColumn) -> SheetText {
        let column_marked = self.oracle_columns[at];
        let row_marked = column_marked || self.oracle_rows[row];
        let cells = &self.table.cells[row];
        let nothing = || vec![TextPiece::Nothing];
        let scale = self.table.display.scale;
        match printed {
            SheetColumn::Ours(column) => {
                cells[column].as_ref().map_or_else(nothing, |cell| self.value(cell, row_marked))
            }
            SheetColumn::Published(column, set) => comparison(cells[column].as_ref(), set)
                .map_or_else(nothing, |comparison| {
                    self.published(column, &comparison.published, column_marked)
                }),
            SheetColumn::Difference(column, set) => {
                let Some(cell) = cells[column].as_ref() else { return nothing() };
                let difference = comparison(Some(cell), set).and_then(|comparison| comparison.difference);
                difference.map_or_else(nothing, |difference| {
                    let (protocol, difference) = difference.reveal();
                    let text =
                        vec![TextPiece::Number(signed(scale.apply(cell.metric, difference), cell.digits))];
                    marked(text, protocol, row_marked)
                })
            }
        }
    }

    fn value(&self, cell: &TableCell, is_marked: bool) -> SheetText {
        let (protocol, spread) = cell.value.reveal();
        let display = self.table.display;
        let mut text = value_pieces(cell, display);
        if self.counts.is_shown(spread.seeds, display.show_n) {
            text.push(TextPiece::Text(format!(" (n={})", spread.seeds)));
        }
        let mut text = marked(text, protocol, is_marked);
        if cell.is_external() {
            text.push(TextPiece::External);
        }
        if cell.test.as_ref().is_some_and(|test| test.as_ref().reveal().1.differs) {
            text.push(TextPiece::Differs);
        }
        text
    }

    fn other(&self, at: usize, other: &OtherRow) -> SheetRow {
        let stub = self.table.row_axes.len();
        let mut heads = vec![SheetText::new(); stub];
        let oracle = is_oracle(other);
        if let Some(head) = heads.last_mut() {
            head.push(TextPiece::Text(other.name.clone()));
            if oracle {
                head.push(TextPiece::Oracle);
            }
        }
        let cell = |(at, printed): (usize, &SheetColumn)| {
            let (column, set) = match *printed {
                SheetColumn::Ours(column) => (column, None),
                SheetColumn::Published(column, set) => (column, Some(set)),
                SheetColumn::Difference(..) => return SheetText::new(),
            };
            if self.column_of_published(column, other.reference) != set {
                return SheetText::new();
            }
            let is_marked = oracle || self.oracle_columns[at];
            other.values[column]
                .as_ref()
                .map_or_else(|| vec![TextPiece::Nothing], |value| self.published(column, value, is_marked))
        };
        SheetRow { ruled: at == 0, heads, cells: self.columns.iter().enumerate().map(cell).collect() }
    }

    /// Returns a published value. In percent, the number that was printed elsewhere is converted, and keeps its precision.
    fn published(&self, column: usize, value: &Marked<Published>, is_marked: bool) -> SheetText {
        let (protocol, published) = value.as_ref().reveal();
        let (words, number) = match published.text.rsplit_once(char::is_whitespace) {
            Some((words, number)) => (format!("{words} "), number),
            None => (String::new(), published.text.as_str()),
        };
        let scale = self.table.display.scale;
        let metrics = self.table.columns[column].values.iter().filter(|entry| entry.axis == METRIC);
        let is_percent = metrics.filter_map(|entry| entry.value.parse().ok()).any(|m| scale.is_percent(m));
        let number = if is_percent && number.parse::<f64>().is_ok() {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            fixed(published.value * 100.0, decimals.saturating_sub(2) as u8)
        } else {
            number.to_owned()
        };
        let mut text = if words.is_empty() { SheetText::new() } else { vec![TextPiece::Text(words)] };
        text.push(TextPiece::Number(number));
        marked(text, protocol, is_marked)
    }

    /// Returns the title of a column. There is no other place for the name of its axis.
    fn column_head(&self, value: &AxisEntry) -> SheetText {
        let axis = self.table.column_axes.iter().find(|axis| axis.axis == value.axis);
        match axis.filter(|_| needs_axis(&value.title)) {
            Some(axis) => vec![TextPiece::Text(value_with_axis(&axis.title, &value.title))],
            None => self.value_head(value),
        }
    }

    /// Returns a title, with an arrow behind metrics that shows whether higher or lower values are better.
    fn value_head(&self, value: &AxisEntry) -> SheetText {
        let mut text = vec![TextPiece::Text(value.title.clone())];
        let Some(metric) = value.value.parse::<Metric>().ok().filter(|_| value.axis == METRIC) else {
            return text;
        };
        let scale = self.table.display.scale;
        if scale.is_percent(metric) && !note::is_all_percent(self.table) {
            text.push(TextPiece::Text(" (%)".to_owned()));
        }
        match metric.direction() {
            Direction::Higher => text.push(TextPiece::Up),
            Direction::Lower => text.push(TextPiece::Down),
            Direction::Neither => {}
        }
        text
    }
}

/// Whether every value of a published row is an oracle one.
fn is_oracle(other: &OtherRow) -> bool {
    other.values.iter().flatten().all(|value| value.protocol() == Protocol::Oracle)
}

fn comparison(cell: Option<&TableCell>, set: usize) -> Option<&Comparison> {
    cell?.comparisons.get(set)?.as_ref()
}

/// Appends the mark of the oracle protocol, unless the head of the row or column is marked already.
fn marked(mut text: SheetText, protocol: Protocol, is_marked: bool) -> SheetText {
    if protocol == Protocol::Oracle && !is_marked {
        text.push(TextPiece::Oracle);
    }
    text
}

/// The numbers of runs that the values of a table are means of.
pub(super) struct RunCounts {
    pub least: u32,
    pub most: u32,
    /// The most frequent number; of several, the largest.
    pub usual: u32,
}

impl RunCounts {
    /// Counts the runs of all cells. An empty table has no runs.
    pub(super) fn of(table: &Table) -> Self {
        let counts: Vec<u32> = table.cells().map(|(_, _, cell)| cell.value.reveal().1.seeds).collect();
        let frequency = |count: u32| (counts.iter().filter(|&&other| other == count).count(), count);
        Self {
            least: counts.iter().copied().min().unwrap_or(0),
            most: counts.iter().copied().max().unwrap_or(0),
            usual: counts.iter().copied().max_by_key(|&count| frequency(count)).unwrap_or(0),
        }
    }

    fn is_shown(&self, count: u32, show: ShowN) -> bool {
        match show {
            ShowN::All => self.least != self.most,
            ShowN::Differing => count != self.usual,
        }
    }
}

/// Returns a caption with a full stop, since other sentences follow; `None` if it is empty.
fn as_sentence(caption: &str) -> Option<String> {
    let caption = caption.trim();
    let ended = caption.ends_with(['.', '!', '?', ':', ';', ')']);
    (!caption.is_empty()).then(|| format!("{caption}{}", if ended { "" } else { "." }))
}
