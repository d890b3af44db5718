//! Comma-separated values as RFC 4180 has them: quotes around a field, doubled inside it, may
//! hold separators and line ends. The first line names the columns; what parts them (comma, tab or
//! semicolon) is the one that occurs most in it.

use std::borrow::Cow;

use super::{Fields, Record};
use crate::data::error::Fault;

pub(super) fn records(text: &str, fields: &Fields) -> Result<Vec<Record>, Fault> {
    let first_line = text.lines().next().unwrap_or_default();
    let count = |c: char| first_line.matches(c).count();
    // Of equal counts the last wins: the comma.
    let separator = [';', '\t', ','].into_iter().max_by_key(|&c| count(c)).unwrap_or(',') as u8;
    let mut reader = Reader { text, separator, at: 0 };
    let columns = reader.next_row()?.unwrap_or_default();
    let find = |name: &str| {
        columns.iter().position(|column| column.trim() == name).ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.trim()).collect();
            let hint = fields.other_column();
            Fault::new(0, format!("there is no column `{name}`; the columns are: {}{hint}", names.join(", ")))
        })
    };
    let text_column = find(fields.text)?;
    let label_column = match find(fields.labels) {
        Err(_) if fields.optional => None,
        found => Some(found?),
    };
    let mut records = Vec::new();
    loop {
        let start = reader.at;
        let Some(mut row) = reader.next_row()? else { return Ok(records) };
        if row.len() == 1 && row[0].is_empty() {
            continue;
        }
        if row.len() != columns.len() {
            let reason =
                format!("this row has {} columns, the first line names {}", row.len(), columns.len());
            return Err(Fault::new(start, reason));
        }
        let labels = label_column.map(|column| row[column].split(fields.separator).map(str::trim));
        let labels = labels.into_iter().flatten();
        records.push(Record {
            labels: labels.filter(|label| !label.is_empty()).map(str::to_owned).collect(),
            text: std::mem::take(&mut row[text_column]).into_owned(),
        });
    }
}

/// The fields of a row.
type Row<'a> = Vec<Cow<'a, str>>;

struct Reader<'a> {
    text: &'a str,
    separator: u8,
    at: usize,
}

impl<'a> Reader<'a> {
    /// `None` at the end.
    fn next_row(&mut self) -> Result<Option<Row<'a>>, Fault> {
        if self.at >= self.text.len() {
            return Ok(None);
        }
        let mut row = Vec::new();
        loop {
            row.push(match self.text.as_bytes().get(self.at) {
                Some(b'"') => Cow::Owned(self.quoted()?),
                _ => Cow::Borrowed(self.plain()),
            });
            match self.text.as_bytes().get(self.at) {
                Some(&byte) if byte == self.separator => self.at += 1,
                Some(b'\n') => {
                    self.at += 1;
                    return Ok(Some(row));
                }
                Some(b'\r') if self.text[self.at..].starts_with("\r\n") => {
                    self.at += 2;
                    return Ok(Some(row));
                }
                None => return Ok(Some(row)),
                Some(_) => return Err(Fault::new(self.at, "text follows a closing quote")),
            }
        }
    }

    fn plain(&mut self) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let end = rest.iter().position(|&b| b == self.separator || b == b'\n').unwrap_or(rest.len());
        let end = if rest[..end].ends_with(b"\r") && rest.get(end) == Some(&b'\n') { end - 1 } else { end };
        let field = &self.text[self.at..self.at + end];
        self.at += end;
        field
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let open = self.at;
        let mut field = String::new();
        let mut from = open + 1;
        loop {
            let quote =
                self.text[from..].find('"').ok_or_else(|| Fault::new(open, "this quote does not end"))?;
            field.push_str(&self.text[from..from + quote]);
            from += quote + 1;
            if !self.text[from..].starts_with('"') {
                self.at = from;
                return Ok(field);
            }
            field.push('"');
            from += 1;
        }
    }
}
