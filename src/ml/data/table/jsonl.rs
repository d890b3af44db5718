//! One JSON object per line, with a text and either a list of labels or a single label. A label is a string or a whole number.

use std::fmt;
use std::io::{BufRead, BufReader};

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::columns::{Cell, TableColumn};
use super::stream::TableText;
use super::{TextColumns, TextRow};
use crate::data::error::{DataError, Fault};

pub(super) fn rows(text: TableText, fields: &TextColumns) -> Result<Vec<TextRow>, DataError> {
    let mut rows = Vec::new();
    for_each_line(text, |line| {
        rows.push(row(line, fields)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Reads all fields: those of the first object in alphabetical order, then those that first appear in later ones.
pub(super) fn columns(text: TableText) -> Result<Vec<TableColumn>, DataError> {
    let mut columns: Vec<TableColumn> = Vec::new();
    let mut rows = 0;
    for_each_line(text, |line| {
        let value = parse(line)?;
        for (name, value) in value {
            let known = columns.iter().position(|column| column.name == name);
            let at = known.unwrap_or_else(|| {
                columns.push(TableColumn::new(&name));
                columns.len() - 1
            });
            columns[at].cells.resize(rows, Cell::Missing);
            columns[at].cells.push(cell(&value));
        }
        rows += 1;
        Ok(())
    })?;
    for column in &mut columns {
        column.cells.resize(rows, Cell::Missing);
    }
    Ok(columns)
}

/// Calls a function with every line that is not blank.
fn for_each_line(text: TableText, mut visit: impl FnMut(&str) -> Result<(), Fault>) -> Result<(), DataError> {
    let mut reader = BufReader::with_capacity(1 << 16, text);
    let (mut start, mut line) = (0, String::new());
    loop {
        line.clear();
        reader.get_mut().start_row();
        let read = reader.read_line(&mut line);
        let text = reader.get_ref();
        let length = read.map_err(|error| text.read_error(error, start))?;
        if length == 0 {
            return Ok(());
        }
        if !line.trim().is_empty() {
            visit(&line).map_err(|fault| text.fault(Fault { at: start + fault.at, ..fault }))?;
        }
        start += length;
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::String(text) => Cell::Text(text.clone()),
        Value::Array(items) => {
            items.iter().map(label_name).collect::<Option<_>>().map_or(Cell::Other, Cell::List)
        }
        Value::Number(number) => Cell::Text(number.to_string()),
        Value::Bool(_) | Value::Object(_) => Cell::Other,
    }
}

/// An object whose fields have different names.
struct UniqueFields(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueFieldsVisitor).map(Self)
    }
}

struct UniqueFieldsVisitor;

impl<'de> Visitor<'de> for UniqueFieldsVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with a text and labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("more than one field is named `{name}`")));
            }
            fields.insert(name, access.next_value()?);
        }
        Ok(fields)
    }
}

fn parse(line: &str) -> Result<Map<String, Value>, Fault> {
    serde_json::from_str::<UniqueFields>(line).map(|UniqueFields(fields)| fields).map_err(|e| {
        let message = e.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default().to_owned();
        Fault::new(e.column().saturating_sub(1).min(line.trim_end().len()), reason)
    })
}

fn row(line: &str, fields: &TextColumns) -> Result<TextRow, Fault> {
    let value = parse(line)?;
    let field = |name: &str| {
        let missing = || Fault::new(0, format!("there is no field `{name}`{}", fields.other_column(name)));
        value.get(name).ok_or_else(missing)
    };
    let text = field(fields.text)?.as_str();
    let text = text.ok_or_else(|| Fault::new(0, format!("the field `{}` is not a string", fields.text)))?;
    // Whatever rows that are to be predicted have there is ignored.
    let labels = if fields.labels_are_optional { &Value::Null } else { field(fields.labels)? };
    let labels = match labels {
        Value::Null => Some(Vec::new()),
        Value::Array(labels) => labels.iter().map(label_name).collect(),
        single => label_name(single).map(|name| vec![name]),
    };
    let reason = || format!("the field `{}` is not a list of strings or whole numbers", fields.labels);
    let labels = labels.ok_or_else(|| Fault::new(0, reason()))?;
    // Programs that split texts leave such labels behind, which would count as labels of their own.
    if let Some(label) = labels.iter().find(|label| label.is_empty() || label.trim() != label.as_str()) {
        let reason =
            format!("the label {label:?} is empty, or has blanks around it: leave it out, or remove them");
        return Err(Fault::new(0, reason));
    }
    let id = fields.id.map(|id| cell(value.get(id).unwrap_or(&Value::Null)).into_text());
    Ok(TextRow { text: text.to_owned(), labels, id })
}

fn label_name(value: &Value) -> Option<String> {
    match value {
        Value::String(label) => Some(label.clone()),
        Value::Number(number) if number.is_u64() || number.is_i64() => Some(number.to_string()),
        _ => None,
    }
}
