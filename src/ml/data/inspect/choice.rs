//! Which columns of a table contain the text and the labels.

use std::collections::HashSet;

use super::separator::separator;
use super::{DEFAULT_LABEL_SEPARATOR, Wishes};
use crate::data::format::Format;
use crate::data::source::ReadOptions;
use crate::data::table::columns::{Cell, TableColumn};

/// Names that a column of texts usually has.
const TEXT_NAMES: &[&str] = &[
    "text",
    "description",
    "body",
    "content",
    "abstract",
    "document",
    "message",
    "comment",
    "sentence",
    "review",
    "question",
    "summary",
];
/// Names that a column of labels usually has.
const LABEL_NAMES: &[&str] = &[
    "labels",
    "label",
    "tags",
    "tag",
    "categories",
    "category",
    "topics",
    "topic",
    "classes",
    "class",
    "codes",
    "genres",
    "genre",
    "keywords",
    "targets",
    "target",
];
/// A value with more words is not a list of labels.
const LONGEST_LIST: usize = 10;
/// How many columns are listed when it is unclear which one is meant.
const MAX_LISTED: usize = 20;
/// How many characters of an example are shown.
const EXAMPLE: usize = 40;

/// The columns of the text and of the labels, and how the labels are separated.
pub(super) struct TableChoice {
    text: String,
    labels: String,
    /// `None`: the default, or lists.
    separator: Option<String>,
    /// What seems to separate the labels of JSON lines, in which labels are lists.
    pub(super) missed_separator: Option<char>,
}

/// What can be said about a column at a glance.
struct ColumnSummary<'a> {
    name: &'a str,
    filled: usize,
    distinct: usize,
    mean_words: f64,
    is_numeric: bool,
    is_list: bool,
    example: &'a str,
}

impl TableChoice {
    /// Chooses the columns: those that the user names, or those that are clearly meant.
    pub(super) fn of(table: &[TableColumn], format: Format, wishes: &Wishes) -> Result<Self, String> {
        let columns: Vec<ColumnSummary> = table.iter().map(ColumnSummary::of).collect();
        if columns.iter().all(|column| column.filled == 0) {
            return Err("it contains no rows".to_owned());
        }
        for name in [&wishes.text, &wishes.labels].into_iter().flatten() {
            if !columns.iter().any(|column| column.name == *name) {
                return Err(format!("there is no column `{name}`. The columns are\n{}", listed(&columns)));
            }
        }
        if format == Format::Jsonl && wishes.separator.is_some() {
            return Err(
                "`--separator` is for CSV: in JSON lines, several labels are a list, `[\"a\", \"b\"]`"
                    .to_owned(),
            );
        }
        if format == Format::Csv && (wishes.text.is_none() || wishes.labels.is_none()) {
            refuse_values_as_names(table)?;
        }
        let labels = match &wishes.labels {
            Some(name) => Some(name.clone()),
            None => labels_by_name(&columns, wishes.text.as_deref())?,
        };
        let text = match &wishes.text {
            Some(name) => name.clone(),
            None => text_column(&columns, labels.as_deref())?,
        };
        let labels = match labels {
            Some(labels) => labels,
            None => labels_by_content(&columns, &text)?,
        };
        if labels == text {
            return Err(format!("`{text}` cannot be both the text and the labels"));
        }
        let values = filled_texts(table, &labels);
        let (separator, missed_separator) = match (&wishes.separator, format) {
            (Some(given), _) => (Some(given.clone()), None),
            (None, Format::Csv) => (found_separator(&values, &labels)?, None),
            (None, _) => (None, separator(&values).and_then(|found| found.chars().next())),
        };
        Ok(Self { text, labels, separator, missed_separator })
    }

    /// Returns the options that differ from the defaults.
    pub(super) fn read_options(self) -> ReadOptions {
        ReadOptions {
            input_column: (self.text != "text").then_some(self.text),
            label_column: (self.labels != "labels").then_some(self.labels),
            label_separator: self.separator.filter(|separator| separator != DEFAULT_LABEL_SEPARATOR),
            ..ReadOptions::default()
        }
    }
}

impl<'a> ColumnSummary<'a> {
    fn of(column: &'a TableColumn) -> Self {
        let texts = column.cells.iter().filter_map(|cell| match cell {
            Cell::Text(text) if !text.trim().is_empty() => Some(text.trim()),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        let lists = column.cells.iter().filter(|cell| matches!(cell, Cell::List(_))).count();
        let words: usize = texts.iter().map(|text| text.split_whitespace().count()).sum();
        Self {
            name: &column.name,
            filled: texts.len() + lists,
            distinct: texts.iter().collect::<HashSet<_>>().len(),
            mean_words: words as f64 / texts.len().max(1) as f64,
            is_numeric: !texts.is_empty() && texts.iter().all(|text| text.parse::<f64>().is_ok()),
            is_list: lists > 0 && texts.is_empty(),
            example: texts.first().copied().unwrap_or_default(),
        }
    }

    fn can_be_text(&self) -> bool {
        self.filled > 0 && !self.is_numeric && !self.is_list
    }

    fn is_flag(&self) -> bool {
        self.is_numeric && self.distinct == 2 && ["0", "1"].contains(&self.example)
    }
}

/// One of two tables that are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinedFile {
    Texts,
    Labels,
}

/// Chooses the columns of texts in one table and labels in another: those that the user names, or those that are clearly meant. The error
/// says which of the files is unclear, and why.
pub(super) fn joined(
    texts: &[TableColumn],
    labels: &[TableColumn],
    wishes: &Wishes,
) -> Result<ReadOptions, (JoinedFile, String)> {
    let in_texts = |reason| (JoinedFile::Texts, reason);
    let in_labels = |reason| (JoinedFile::Labels, reason);
    if wishes.separator.is_some() {
        let reason =
            "`--separator` is for labels in one column: in a file of labels, every row has one label";
        return Err(in_labels(reason.to_owned()));
    }
    let of_texts: Vec<ColumnSummary> = texts.iter().map(ColumnSummary::of).collect();
    let of_labels: Vec<ColumnSummary> = labels.iter().map(ColumnSummary::of).collect();
    let has = |columns: &[ColumnSummary], name: &str| columns.iter().any(|column| column.name == name);
    let names = of_texts.iter().map(|column| column.name);
    let common: Vec<&str> = names.filter(|name| has(&of_labels, name)).collect();
    let key = match (wishes.join.as_deref(), common.as_slice()) {
        (_, []) => {
            return Err(in_texts(format!(
                "it has no column in common with the file of labels, by which they could be joined. Its columns are\n{}\nand those of \
                 the labels are\n{}",
                listed(&of_texts),
                listed(&of_labels)
            )));
        }
        (Some(name), common) if common.contains(&name) => name,
        (None, [only]) => only,
        (_, several) => {
            return Err(in_texts(format!(
                "the texts and the labels are joined by a column that both files have. Name it with `--join COLUMN`: {}",
                quoted(several)
            )));
        }
    };
    let wished =
        [(JoinedFile::Texts, &wishes.text, &of_texts), (JoinedFile::Labels, &wishes.labels, &of_labels)];
    for (file, wish, columns) in wished {
        if let Some(name) = wish.as_deref().filter(|name| !has(columns, name)) {
            let reason = format!("there is no column `{name}`. The columns are\n{}", listed(columns));
            return Err((file, reason));
        }
    }
    let text = match &wishes.text {
        Some(name) => name.clone(),
        None => text_column(&of_texts, Some(key)).map_err(in_texts)?,
    };
    let labels = match &wishes.labels {
        Some(name) => name.clone(),
        None => match labels_by_name(&of_labels, Some(key)).map_err(in_labels)? {
            Some(name) => name,
            None => {
                let own = of_labels.iter().map(|column| column.name).filter(|name| !common.contains(name));
                match own.collect::<Vec<_>>().as_slice() {
                    [only] => (*only).to_owned(),
                    several => return Err(in_labels(unclear("labels", several, &of_labels))),
                }
            }
        },
    };
    let key = key.to_owned();
    let choice = TableChoice { text, labels, separator: None, missed_separator: None };
    Ok(ReadOptions { join_column: Some(key), ..choice.read_options() })
}

/// Refuses a first row that seems to be a row of data, because a part of it also occurs in the column below.
fn refuse_values_as_names(table: &[TableColumn]) -> Result<(), String> {
    for column in table {
        let Some(value) = repeated_below(column) else { continue };
        let names: Vec<&str> = table.iter().map(|column| column.name.as_str()).collect();
        return Err(format!(
            "the first row has to name the columns, but it seems to be data, because `{}` also occurs below it in the same \
             column. Add a first row with names, such as `text,labels`. If these are the names, choose two of them with \
             `--text COLUMN --labels COLUMN`: {}",
            excerpt(value),
            quoted(&names)
        ));
    }
    Ok(())
}

/// Returns the name of a column, or one of the labels that it lists, if it also occurs among the values of the column. Longer
/// values are texts, in which a name may occur by chance.
fn repeated_below(column: &TableColumn) -> Option<&str> {
    let short = column.cells.iter().filter_map(|cell| match cell {
        Cell::Text(text) if text.split_whitespace().nth(LONGEST_LIST).is_none() => Some(text.as_str()),
        _ => None,
    });
    let below: HashSet<&str> = short.flat_map(items).collect();
    items(&column.name).find(|item| !item.is_empty() && below.contains(item))
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split([';', ',', '|']).map(str::trim)
}

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.contains(&name.to_lowercase().as_str())
}

/// Returns the only column that has the name or the type of labels; `None` if there is none.
fn labels_by_name(columns: &[ColumnSummary], text: Option<&str>) -> Result<Option<String>, String> {
    let others = || columns.iter().filter(|column| text != Some(column.name));
    let lists: Vec<&str> = others().filter(|column| column.is_list).map(|column| column.name).collect();
    let named: Vec<&str> =
        others().map(|column| column.name).filter(|name| is_one_of(LABEL_NAMES, name)).collect();
    let exact = named.iter().find(|name| **name == "labels");
    match (exact, lists.as_slice(), named.as_slice()) {
        (Some(name), ..) | (None, [name], _) | (None, [], [name]) => Ok(Some((*name).to_owned())),
        (None, [], []) => Ok(None),
        (None, [], several) | (None, several, _) => Err(unclear("labels", several, columns)),
    }
}

/// Returns the only other column whose values repeat.
fn labels_by_content(columns: &[ColumnSummary], text: &str) -> Result<String, String> {
    let flags: Vec<&str> =
        columns.iter().filter(|column| column.is_flag()).map(|column| column.name).collect();
    if flags.len() > 1 {
        return Err(format!(
            "the columns {} contain only 0 and 1, so each of them seems to be a label. `pipe` reads labels from one column: \
             add a column with the names of the labels of each row, separated by `;`",
            quoted(&flags)
        ));
    }
    let repeats = |column: &&ColumnSummary| {
        column.name != text && column.distinct > 1 && 2 * column.distinct <= column.filled
    };
    let candidates: Vec<&str> = columns.iter().filter(repeats).map(|column| column.name).collect();
    match candidates.as_slice() {
        [name] => Ok((*name).to_owned()),
        several => Err(unclear("labels", several, columns)),
    }
}

/// Returns the column of the text: the one that is named like it, or the one with clearly the longest texts.
fn text_column(columns: &[ColumnSummary], labels: Option<&str>) -> Result<String, String> {
    let mut candidates: Vec<&ColumnSummary> =
        columns.iter().filter(|column| column.can_be_text() && labels != Some(column.name)).collect();
    if let Some(exact) = candidates.iter().find(|column| column.name == "text") {
        return Ok(exact.name.to_owned());
    }
    candidates.sort_by(|a, b| b.mean_words.total_cmp(&a.mean_words));
    match candidates.as_slice() {
        [only] => return Ok(only.name.to_owned()),
        [first, second, ..] if first.mean_words >= 2.0 && first.mean_words >= 1.5 * second.mean_words => {
            return Ok(first.name.to_owned());
        }
        _ => {}
    }
    let named: Vec<&str> =
        candidates.iter().map(|column| column.name).filter(|name| is_one_of(TEXT_NAMES, name)).collect();
    match named.as_slice() {
        [name] => Ok((*name).to_owned()),
        _ if candidates.is_empty() && columns.iter().any(|column| column.is_numeric) => Err(format!(
            "its columns contain numbers. `pipe` reads texts from CSV; write numbers as LIBSVM text, ARFF or NumPy arrays. The columns \
             are\n{}",
            listed(columns)
        )),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|column| column.name).collect();
            Err(unclear("text", &names, columns))
        }
    }
}

/// Returns the texts of a column that are not empty.
fn filled_texts<'a>(table: &'a [TableColumn], name: &str) -> Vec<&'a str> {
    let cells = table.iter().filter(|column| column.name == name).flat_map(|column| &column.cells);
    let filled = cells.filter_map(|cell| match cell {
        Cell::Text(text) if !text.trim().is_empty() => Some(text.trim()),
        _ => None,
    });
    filled.collect()
}

/// Returns the separator of the labels of a CSV column.
fn found_separator(values: &[&str], labels: &str) -> Result<Option<String>, String> {
    let is_list = |value: &&&str| value.starts_with('[') && value.ends_with(']');
    if 2 * values.iter().filter(is_list).count() > values.len() {
        return Err(format!(
            "the column `{labels}` contains lists, such as `{}`. `pipe` reads names with a separator between them: write \
             `a;b` instead, or write the file as JSON lines",
            excerpt(values[0])
        ));
    }
    Ok(separator(values).map(str::to_owned))
}

/// Returns the message for a choice that the user has to make.
fn unclear(what: &str, candidates: &[&str], columns: &[ColumnSummary]) -> String {
    let could = match candidates {
        [] => "none of the columns looks like it".to_owned(),
        several => format!("it could be {}", quoted(several)),
    };
    format!(
        "it is unclear which column contains the {what}: {could}. Name it with `--{what} COLUMN`. The columns are\n{}",
        listed(columns)
    )
}

fn quoted(names: &[&str]) -> String {
    pipe_core::suggest::listed(names.iter().copied()).unwrap_or_default()
}

fn listed(columns: &[ColumnSummary]) -> String {
    let width = columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for column in columns.iter().take(MAX_LISTED) {
        let content = if column.is_list {
            "lists".to_owned()
        } else if column.filled == 0 {
            "empty".to_owned()
        } else {
            format!(
                "{} different values, {:.1} words on average, such as `{}`",
                column.distinct,
                column.mean_words,
                excerpt(column.example)
            )
        };
        lines.push(format!("  {:<width$}  {content}", column.name));
    }
    if columns.len() > MAX_LISTED {
        lines.push(format!("  and {} more", columns.len() - MAX_LISTED));
    }
    lines.join("\n")
}

fn excerpt(text: &str) -> String {
    let line: String = text.chars().take(EXAMPLE).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > EXAMPLE { format!("{line}...") } else { line }
}
