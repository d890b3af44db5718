//! A table laid out: heads, rows, marks, caption and notes. Every format for people is written from this, so that
//! no format can leave out a mark.

use super::note;
use super::number::{fixed, signed};
use super::{Cell, Comparison, METRIC, OtherRow, Published, Rank, Table, Value};
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::registry::{Direction, Metric};

/// A piece of a cell; each format has its own way to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Number(String),
    Best(String),
    Second(String),
    PlusMinus,
    /// Thresholds saw the labels of the evaluated rows.
    Oracle,
    /// Differs from the row it was tested against.
    Differs,
    Up,
    Down,
    Difference,
    /// There is nothing here.
    Nothing,
}

pub type Text = Vec<Piece>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// One for each axis of the rows.
    pub stub: Vec<String>,
    /// From top to bottom; each row covers all columns.
    pub heads: Vec<Vec<Head>>,
    pub rows: Vec<SheetRow>,
    /// What the user wrote, and what must be known in order to read the table.
    pub caption: Option<String>,
    pub legend: Vec<Text>,
    pub notes: Vec<Text>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub text: Text,
    pub columns: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SheetRow {
    /// A group begins here.
    pub ruled: bool,
    pub heads: Vec<Text>,
    pub cells: Vec<Text>,
}

/// A column as it is printed: ours, or what belongs to a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Ours(usize),
    Published(usize, usize),
    Difference(usize, usize),
}

struct Layout<'a> {
    table: &'a Table,
    leaves: Vec<Leaf>,
    /// Rows of which every figure is an oracle one: the mark is at their head.
    oracle_rows: Vec<bool>,
    oracle_leaves: Vec<bool>,
    counts_differ: bool,
}

pub fn lay_out(table: &Table) -> Sheet {
    let layout = Layout::new(table);
    let ours = (0..table.rows.len()).map(|row| layout.row(row));
    let others = table.others.iter().enumerate().map(|(at, other)| layout.other(at, other));
    Sheet {
        stub: table.row_axes.iter().map(|axis| axis.title.clone()).collect(),
        heads: layout.heads(),
        rows: ours.chain(others).collect(),
        caption: table.caption.as_deref().and_then(as_sentence),
        legend: note::legend(table),
        notes: note::notes(table),
    }
}

impl<'a> Layout<'a> {
    fn new(table: &'a Table) -> Self {
        let mut leaves = Vec::new();
        for column in 0..table.columns.len() {
            leaves.push(Leaf::Ours(column));
            for set in 0..table.references.len() {
                let beside = |cells: &Vec<Option<Cell>>| comparison(cells[column].as_ref(), set).is_some();
                if table.cells.iter().any(beside) {
                    leaves.extend([Leaf::Published(column, set), Leaf::Difference(column, set)]);
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
            .map(|cells| all_oracle(cells.iter().flatten().map(|cell| cell.figure.protocol()).collect()))
            .collect();
        let mut layout = Self { table, leaves, oracle_rows, oracle_leaves: Vec::new(), counts_differ: false };
        let marks = |leaf: &Leaf| layout.open_marks(*leaf);
        layout.oracle_leaves = layout.leaves.iter().map(|leaf| all_oracle(marks(leaf))).collect();
        let mut counts: Vec<u32> = table.cells().map(|(_, _, cell)| cell.figure.reveal().1.seeds).collect();
        counts.sort_unstable();
        counts.dedup();
        layout.counts_differ = counts.len() > 1;
        layout
    }

    /// The protocols of a printed column that no mark at a row's head speaks for.
    fn open_marks(&self, leaf: Leaf) -> Vec<Protocol> {
        let table = self.table;
        match leaf {
            Leaf::Ours(column) => {
                let rows = (0..table.rows.len()).filter(|row| !self.oracle_rows[*row]);
                let ours = rows.filter_map(|row| Some(table.cells[row][column].as_ref()?.figure.protocol()));
                ours.chain(self.others_at(column, None)).collect()
            }
            Leaf::Published(column, set) => {
                let cells = table.cells.iter().map(|cells| comparison(cells[column].as_ref(), set));
                let published = cells.flatten().map(|comparison| comparison.published.protocol());
                published.chain(self.others_at(column, Some(set))).collect()
            }
            Leaf::Difference(column, set) => {
                let rows = (0..table.rows.len()).filter(|row| !self.oracle_rows[*row]);
                let cells = rows.map(|row| comparison(table.cells[row][column].as_ref(), set));
                cells.flatten().filter_map(|comparison| Some(comparison.difference?.protocol())).collect()
            }
        }
    }

    /// The protocols of published rows in a printed column, without the rows that are marked at their head.
    fn others_at(&self, column: usize, set: Option<usize>) -> impl Iterator<Item = Protocol> {
        let others = self.table.others.iter().filter(move |other| !is_oracle(other));
        let here = others.filter(move |other| self.home(column, other.reference) == set);
        here.filter_map(move |other| Some(other.values[column].as_ref()?.protocol()))
    }

    /// Where a published row has its figure for a column: with its reference, else with another one. Under
    /// `ours` it stands only where no head says `ours`.
    fn home(&self, column: usize, reference: usize) -> Option<usize> {
        let set_of = |leaf: &Leaf| match *leaf {
            Leaf::Published(at, set) if at == column => Some(set),
            _ => None,
        };
        let mut sets = self.leaves.iter().filter_map(set_of);
        let first = sets.next();
        if sets.any(|set| set == reference) { Some(reference) } else { first }
    }

    fn heads(&self) -> Vec<Vec<Head>> {
        let with_references = self.leaves.iter().any(|leaf| !matches!(leaf, Leaf::Ours(_)));
        let paths: Vec<Vec<Text>> =
            (0..self.leaves.len()).map(|at| self.head_path(at, with_references)).collect();
        let levels = paths.first().map_or(0, Vec::len);
        let mut heads: Vec<Vec<Head>> = vec![Vec::new(); levels];
        for (at, path) in paths.iter().enumerate() {
            for (level, text) in path.iter().enumerate() {
                let last = level + 1 == levels;
                let same = at > 0 && !last && paths[at - 1][..=level] == path[..=level];
                let empty = text.is_empty();
                match heads[level].last_mut() {
                    Some(head) if same && !empty => head.columns += 1,
                    _ => heads[level].push(Head { text: text.clone(), columns: 1 }),
                }
            }
        }
        heads
    }

    /// From top to bottom, what stands above a printed column.
    fn head_path(&self, at: usize, with_references: bool) -> Vec<Text> {
        let leaf = self.leaves[at];
        let (Leaf::Ours(column) | Leaf::Published(column, _) | Leaf::Difference(column, _)) = leaf;
        let values = &self.table.columns[column].values;
        let mut path: Vec<Text> = values.iter().map(value_head).collect();
        let compared = self.leaves.iter().any(|leaf| matches!(leaf, Leaf::Published(c, _) if *c == column));
        let last = match leaf {
            Leaf::Ours(_) if compared => vec![Piece::Text("ours".to_owned())],
            Leaf::Ours(_) => Text::new(),
            Leaf::Published(_, set) => vec![Piece::Text(self.table.references[set].heading.clone())],
            Leaf::Difference(..) => vec![Piece::Difference],
        };
        match with_references {
            // A lone title sinks to the figures that it is about.
            true if last.is_empty() && path.len() == 1 => path.insert(0, Text::new()),
            true => path.push(last),
            false => {}
        }
        if self.oracle_leaves[at]
            && let Some(text) = path.iter_mut().rev().find(|text| !text.is_empty())
        {
            text.push(Piece::Oracle);
        }
        path
    }

    fn row(&self, row: usize) -> SheetRow {
        let values = &self.table.rows[row].values;
        let before = row.checked_sub(1).map(|before| &self.table.rows[before].values);
        let repeats = |level: usize| before.is_some_and(|before| before[..=level] == values[..=level]);
        let mut heads: Vec<Text> = Vec::with_capacity(values.len());
        for (level, value) in values.iter().enumerate() {
            let last = level + 1 == values.len();
            heads.push(if repeats(level) && !last { Text::new() } else { value_head(value) });
        }
        if self.oracle_rows[row]
            && let Some(head) = heads.last_mut()
        {
            head.push(Piece::Oracle);
        }
        let cell = |(at, leaf): (usize, &Leaf)| self.cell(row, at, *leaf);
        SheetRow {
            ruled: row > 0 && values.len() > 1 && !repeats(0),
            heads,
            cells: self.leaves.iter().enumerate().map(cell).collect(),
        }
    }

    fn cell(&self, row: usize, at: usize, leaf: Leaf) -> Text {
        let told = self.oracle_leaves[at];
        let row_told = told || self.oracle_rows[row];
        let cells = &self.table.cells[row];
        let nothing = || vec![Piece::Nothing];
        match leaf {
            Leaf::Ours(column) => {
                cells[column].as_ref().map_or_else(nothing, |cell| self.figure(cell, row_told))
            }
            Leaf::Published(column, set) => comparison(cells[column].as_ref(), set)
                .map_or_else(nothing, |comparison| published(&comparison.published, told)),
            Leaf::Difference(column, set) => {
                let Some(cell) = cells[column].as_ref() else { return nothing() };
                let difference = comparison(Some(cell), set).and_then(|comparison| comparison.difference);
                difference.map_or_else(nothing, |difference| {
                    let (protocol, difference) = difference.reveal();
                    let text = vec![Piece::Number(signed(difference, cell.digits))];
                    marked(text, protocol, row_told)
                })
            }
        }
    }

    fn figure(&self, cell: &Cell, told: bool) -> Text {
        let (protocol, spread) = cell.figure.reveal();
        let mean = fixed(spread.mean, cell.digits);
        let mut text = vec![match cell.rank {
            Some(Rank::Best) => Piece::Best(mean),
            Some(Rank::Second) => Piece::Second(mean),
            None => Piece::Number(mean),
        }];
        if let Some(deviation) = spread.standard_deviation {
            text.extend([Piece::PlusMinus, Piece::Number(fixed(deviation, cell.digits))]);
        }
        if self.counts_differ {
            text.push(Piece::Text(format!(" (n={})", spread.seeds)));
        }
        let mut text = marked(text, protocol, told);
        if cell.test.as_ref().is_some_and(|test| test.as_ref().reveal().1.differs) {
            text.push(Piece::Differs);
        }
        text
    }

    fn other(&self, at: usize, other: &OtherRow) -> SheetRow {
        let stub = self.table.row_axes.len();
        let mut heads = vec![Text::new(); stub];
        let oracle = is_oracle(other);
        if let Some(head) = heads.last_mut() {
            head.push(Piece::Text(other.name.clone()));
            if oracle {
                head.push(Piece::Oracle);
            }
        }
        let cell = |(at, leaf): (usize, &Leaf)| {
            let (column, set) = match *leaf {
                Leaf::Ours(column) => (column, None),
                Leaf::Published(column, set) => (column, Some(set)),
                Leaf::Difference(..) => return Text::new(),
            };
            if self.home(column, other.reference) != set {
                return Text::new();
            }
            let told = oracle || self.oracle_leaves[at];
            other.values[column].as_ref().map_or_else(|| vec![Piece::Nothing], |value| published(value, told))
        };
        SheetRow { ruled: at == 0, heads, cells: self.leaves.iter().enumerate().map(cell).collect() }
    }
}

fn is_oracle(other: &OtherRow) -> bool {
    other.values.iter().flatten().all(|value| value.protocol() == Protocol::Oracle)
}

fn comparison(cell: Option<&Cell>, set: usize) -> Option<&Comparison> {
    cell?.comparisons.get(set)?.as_ref()
}

/// `told`: a head above or beside speaks for the protocol already.
fn marked(mut text: Text, protocol: Protocol, told: bool) -> Text {
    if protocol == Protocol::Oracle && !told {
        text.push(Piece::Oracle);
    }
    text
}

fn published(value: &Marked<Published>, told: bool) -> Text {
    let (protocol, published) = value.as_ref().reveal();
    let text = match published.text.rsplit_once(char::is_whitespace) {
        Some((words, number)) => {
            vec![Piece::Text(format!("{words} ")), Piece::Number(number.to_owned())]
        }
        None => vec![Piece::Number(published.text.clone())],
    };
    marked(text, protocol, told)
}

/// A metric's title has an arrow that points where it is better.
fn value_head(value: &Value) -> Text {
    let mut text = vec![Piece::Text(value.title.clone())];
    if value.axis == METRIC {
        match value.value.parse::<Metric>().map(Metric::direction) {
            Ok(Direction::Higher) => text.push(Piece::Up),
            Ok(Direction::Lower) => text.push(Piece::Down),
            _ => {}
        }
    }
    text
}
/// With a full stop, since sentences of ours follow; nothing if nothing is said.
fn as_sentence(caption: &str) -> Option<String> {
    let caption = caption.trim();
    let ended = caption.ends_with(['.', '!', '?', ':', ';', ')']);
    (!caption.is_empty()).then(|| format!("{caption}{}", if ended { "" } else { "." }))
}
