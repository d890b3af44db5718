//! `${vars.x}`, `${matrix.x}`, `${env.X}` and `${each}` inside values.

use std::borrow::Cow;
use std::cell::Cell;

use serde_yaml::{Mapping, Value};

use super::node::{Data, Node};
use super::problem::{Problem, Problems};
use super::source::Span;
use pipe_core::scalar::{Scalar, canonical_text};

/// What stands between `${` and `}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name<'t> {
    /// `vars.a.b`: the variable `a` and the path inside it.
    Vars(&'t str, Vec<&'t str>),
    Matrix(&'t str),
    Env(&'t str),
    Each,
}

/// Gives names their values.
pub(super) trait Names {
    /// `None` after a problem, here or where the value comes from.
    fn lookup(&mut self, name: &Name, span: Span, problems: &mut Problems) -> Option<Cow<'_, Value>>;
}

/// How much one pipeline may grow by interpolation, in bytes: a few nested variables would
/// otherwise fill the memory.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

/// What a value costs apart from its text.
const VALUE: usize = 32;

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(1 << 27))
    }
}

impl Budget {
    fn spend(&self, amount: usize, span: Span, problems: &mut Problems) -> Option<()> {
        let left = self.0.get().checked_sub(amount);
        self.0.set(left.unwrap_or(0));
        if left.is_none() {
            problems.push(Problem::new(span, "with its variables filled in, the pipeline is too large"));
        }
        left.map(drop)
    }
}

/// A tree with all names replaced. `None` if that failed; then the problems say why.
pub(super) fn interpolate(
    node: &Node,
    names: &mut dyn Names,
    budget: &Budget,
    problems: &mut Problems,
) -> Option<Value> {
    budget.spend(VALUE, node.span, problems)?;
    match &node.data {
        Data::Scalar(Scalar::Text(text)) => interpolate_text(text, node.span, names, budget, problems),
        Data::Scalar(scalar) => Some(scalar.into()),
        Data::List(items) => {
            let values: Vec<_> =
                items.iter().map(|item| interpolate(item, names, budget, problems)).collect();
            values.into_iter().collect::<Option<Vec<_>>>().map(Value::Sequence)
        }
        Data::Map(entries) => {
            let mut mapping = Mapping::with_capacity(entries.len());
            let mut complete = true;
            for entry in entries {
                match interpolate(&entry.value, names, budget, problems) {
                    Some(value) => drop(mapping.insert(Value::String(entry.key.clone()), value)),
                    None => complete = false,
                }
            }
            complete.then_some(Value::Mapping(mapping))
        }
    }
}

/// A text that is exactly one `${...}` takes the value with its type; otherwise the values are
/// written into the text.
pub(super) fn interpolate_text(
    text: &str,
    span: Span,
    names: &mut dyn Names,
    budget: &Budget,
    problems: &mut Problems,
) -> Option<Value> {
    budget.spend(text.len(), span, problems)?;
    if !text.contains("${") {
        return Some(Value::String(text.to_owned()));
    }
    let pieces = match pieces(text) {
        Ok(pieces) => pieces,
        Err(reason) => {
            problems.push(
                Problem::new(span, reason).hint("write `$${` where the characters `${` themselves are meant"),
            );
            return None;
        }
    };
    if let [Piece::Name(written)] = pieces.as_slice() {
        let name = read_name(written, span, problems)?;
        let value = names.lookup(&name, span, problems)?.into_owned();
        budget.spend(size(&value), span, problems)?;
        return Some(value);
    }
    let mut result = String::new();
    let mut complete = true;
    for piece in pieces {
        let written = match piece {
            Piece::Text(text) => {
                result.push_str(text);
                continue;
            }
            Piece::Name(written) => written,
        };
        let text = read_name(written, span, problems).and_then(|name| {
            let value = names.lookup(&name, span, problems)?;
            let text = canonical_text(&value);
            if text.is_none() {
                let problem = Problem::new(
                    span,
                    format!("`{written}` is {} and cannot stand inside a text", describe(&value)),
                );
                problems.push(problem.hint(format!("let `${{{written}}}` be the whole value")));
            }
            text
        });
        match text {
            Some(text) => {
                budget.spend(text.len(), span, problems)?;
                result.push_str(&text);
            }
            None => complete = false,
        }
    }
    complete.then_some(Value::String(result))
}

/// "a list", "the number `3`", "the text `abc`": how a value is named in messages.
pub(super) fn describe(value: &Value) -> String {
    const LONGEST: usize = 40;
    let what = match value {
        Value::Null => return "empty".to_owned(),
        Value::Sequence(_) => return "a list".to_owned(),
        Value::Mapping(_) | Value::Tagged(_) => return "a map".to_owned(),
        Value::Bool(_) => "the value",
        Value::Number(_) => "the number",
        Value::String(_) => "the text",
    };
    let mut text = match value {
        // Other than the canonical text, this tells 3.0 from 3.
        Value::Number(number) => number.to_string(),
        other => canonical_text(other).unwrap_or_default(),
    };
    if text.chars().count() > LONGEST {
        text = text.chars().take(LONGEST).chain(['…']).collect();
    }
    format!("{what} `{text}`")
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => VALUE + text.len(),
        Value::Sequence(items) => VALUE + items.iter().map(size).sum::<usize>(),
        Value::Mapping(mapping) => VALUE + mapping.values().map(size).sum::<usize>(),
        _ => VALUE,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Name(&'t str),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.push(Piece::Text(&rest[..at - 1]));
            pieces.push(Piece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or("a closing `}` is missing behind `${`")?;
        pieces.push(Piece::Name(inside[..end].trim()));
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn read_name<'t>(written: &'t str, span: Span, problems: &mut Problems) -> Option<Name<'t>> {
    let mut parts = written.split('.');
    let root = parts.next().unwrap_or_default();
    let path: Vec<_> = parts.collect();
    let name = match (root, path.as_slice()) {
        (_, path) if path.contains(&"") => None,
        ("vars", [name, path @ ..]) => Some(Name::Vars(name, path.to_vec())),
        ("matrix", [axis]) => Some(Name::Matrix(axis)),
        ("env", [name]) => Some(Name::Env(name)),
        ("each", []) => Some(Name::Each),
        _ => None,
    };
    if name.is_none() {
        let problem = Problem::new(span, format!("`${{{written}}}` means nothing here"));
        let hint = match (root, path.is_empty()) {
            ("each", false) => format!("write `${{each}}.{}` for an output", path.join(".")),
            _ => "it is one of `${vars.name}`, `${matrix.axis}`, `${env.NAME}` and `${each}`".to_owned(),
        };
        problems.push(problem.hint(hint));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_names() {
        use Piece::{Name, Text};
        let cut = |text| pieces(text).unwrap();
        assert_eq!(cut("${ vars.x }"), [Name("vars.x")]);
        assert_eq!(cut("a${vars.x}b${each}"), [Text("a"), Name("vars.x"), Text("b"), Name("each")]);
        assert_eq!(cut("$${x} ${each}"), [Text(""), Text("${"), Text("x} "), Name("each")]);
        assert_eq!(cut("$5 {x}"), [Text("$5 {x}")]);
        assert!(pieces("${vars.x").is_err());
    }
}
