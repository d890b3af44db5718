//! The parameters of an instance as named values, which is how they enter its key.

use std::collections::BTreeMap;

use serde_json::{Deserializer, Value};

/// The typed parameters of an instance in canonical form: `params.optimiser.lr` and `0.0001`.
///
/// They are kept in one text, with a tab between name and value and a line for each. JSON escapes both characters, so neither name nor
/// value contains them. A pipeline may have many thousand instances, and a tree of maps takes ten times as much memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatParams(Box<str>);

/// What all names begin with.
const ROOT: &str = "params";

impl FlatParams {
    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once('\t'))
    }

    /// Returns the parameters as JSON.
    pub fn value(&self) -> Value {
        let mut root = Value::Null;
        for (name, text) in self.iter() {
            let mut place = &mut root;
            for field in Fields(name.strip_prefix(ROOT).unwrap_or(name)) {
                place = &mut place[field];
            }
            // The text was made from a value, so it can be read.
            *place = serde_json::from_str(text).unwrap_or_default();
        }
        root
    }
}

impl From<&Value> for FlatParams {
    fn from(params: &Value) -> Self {
        let mut lines = String::with_capacity(256);
        flatten(&mut ROOT.to_owned(), params, &mut lines);
        Self(lines.into())
    }
}

/// The fields that a name consists of.
struct Fields<'a>(&'a str);

impl Iterator for Fields<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let field = self.0.strip_prefix('.')?;
        if field.starts_with('"') {
            let mut quoted = Deserializer::from_str(field).into_iter::<String>();
            let name = quoted.next()?.ok()?;
            self.0 = &field[quoted.byte_offset()..];
            return Some(name);
        }
        let (name, rest) = field.split_at(field.find('.').unwrap_or(field.len()));
        self.0 = rest;
        Some(name.to_owned())
    }
}

/// Adds the lines of a parameter: objects become dotted names, everything else one canonical text.
fn flatten(name: &mut String, value: &Value, lines: &mut String) {
    if let Value::Object(fields) = value
        && !fields.is_empty()
    {
        let length = name.len();
        for (field, value) in fields {
            name.push('.');
            if field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
                name.push_str(field);
            } else {
                push_quoted(field, name);
            }
            flatten(name, value, lines);
            name.truncate(length);
        }
        return;
    }
    lines.push_str(name);
    lines.push('\t');
    push_canonical(value, lines);
    lines.push('\n');
}

/// Appends a text as a JSON string.
fn push_quoted(text: &str, to: &mut String) {
    // Most texts need no escapes, and writing through a formatter takes several times as long.
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        to.push('"');
        to.push_str(text);
        to.push('"');
    } else {
        to.push_str(&Value::from(text).to_string());
    }
}

/// Appends the value as JSON without spaces and with sorted keys.
fn push_canonical(value: &Value, to: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            to.push('{');
            for (position, (field, value)) in sorted.into_iter().enumerate() {
                if position > 0 {
                    to.push(',');
                }
                push_quoted(field, to);
                to.push(':');
                push_canonical(value, to);
            }
            to.push('}');
        }
        Value::Array(items) => {
            to.push('[');
            for (position, value) in items.iter().enumerate() {
                if position > 0 {
                    to.push(',');
                }
                push_canonical(value, to);
            }
            to.push(']');
        }
        Value::String(text) => push_quoted(text, to),
        Value::Null => to.push_str("null"),
        leaf => to.push_str(&leaf.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_survive_their_text() {
        let odd = "with a.dot, a \"quote\",\ta tab,\na line and \u{1}\u{7f}\u{2028}ä";
        for value in [
            json!(null),
            json!({}),
            json!({ "a": { "b": { "c-d": 1, "e": [] }, "f": {} }, "g": [1, 1.0, 1e-300, 0.1, { "z": 1, "y": {} }], "h": u64::MAX }),
            json!({ odd: odd, "": { "": "" }, "a.b": { "\"": [odd] }, "a": { "b": true } }),
        ] {
            assert_eq!(FlatParams::from(&value).value(), value);
        }
    }

    #[test]
    fn names_and_values_are_pinned() {
        let value = json!({ "a": { "b c": "x\ny", "d": [1, { "f": null, "e": 0.5 }] }, "g": {} });
        let flat = FlatParams::from(&value);
        let expected = [
            ("params.a.\"b c\"", r#""x\ny""#),
            ("params.a.d", r#"[1,{"e":0.5,"f":null}]"#),
            ("params.g", "{}"),
        ];
        assert_eq!(flat.iter().collect::<Vec<_>>(), expected);
    }
}
