//! Replaces `${vars.x}`, `${matrix.x}`, `${env.X}` and `${each}` inside values.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::{Map, Value};

use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{YamlData, YamlEntry, YamlNode};
use pipe_core::scalar::{Scalar, canonical_text};
use pipe_core::suggest::closest;

/// The content of one `${...}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Placeholder<'t> {
    /// `vars.a.b`: the variable `a` and the path inside it.
    Vars(&'t str, Vec<&'t str>),
    /// `vars.a.b[matrix.x]`: the key inside `vars.a.b` that the value of the axis `x` names.
    VarsAt(&'t str, Vec<&'t str>, &'t str),
    Matrix(&'t str),
    Env(&'t str),
    Each,
}

/// Finds the values of placeholders.
pub(super) trait PlaceholderLookup {
    /// Returns the value of a placeholder. `None` after an issue was reported, here or where the value comes from.
    fn lookup(
        &mut self,
        placeholder: &Placeholder,
        span: Span,
        issues: &mut SpecIssues,
    ) -> Option<Cow<'_, YamlNode>>;
}

/// How many bytes one pipeline may grow by interpolation. Without a limit, a few nested variables would fill the
/// memory.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

/// The cost of a value apart from its text.
const VALUE_COST: usize = 32;

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(1 << 27))
    }
}

impl Budget {
    fn spend(&self, amount: usize, span: Span, issues: &mut SpecIssues) -> Option<()> {
        let left = self.0.get().checked_sub(amount);
        self.0.set(left.unwrap_or(0));
        if left.is_none() {
            issues.push(SpecIssue::new(span, "the pipeline is too large after its variables are filled in"));
        }
        left.map(drop)
    }
}

/// Returns the tree with all placeholders replaced. `None` after issues were reported.
///
/// The result is a [`YamlNode`] rather than JSON because the order of the keys matters for `matrix` and `outputs`.
/// An interpolated value keeps the span of the place where it was defined.
pub(super) fn interpolate(
    node: &YamlNode,
    names: &mut dyn PlaceholderLookup,
    budget: &Budget,
    issues: &mut SpecIssues,
) -> Option<YamlNode> {
    budget.spend(VALUE_COST, node.span, issues)?;
    let data = match &node.data {
        YamlData::Scalar(Scalar::Text(text)) => {
            return interpolate_text(text, node.span, names, budget, issues);
        }
        YamlData::Scalar(scalar) => YamlData::Scalar(scalar.clone()),
        YamlData::List(items) => {
            // All items are visited even after a failure, so that every issue is reported.
            let values: Vec<_> = items.iter().map(|item| interpolate(item, names, budget, issues)).collect();
            YamlData::List(values.into_iter().collect::<Option<Vec<_>>>()?)
        }
        YamlData::Map(entries) => {
            let mut interpolated = Vec::with_capacity(entries.len());
            for entry in entries {
                if let Some(value) = interpolate(&entry.value, names, budget, issues) {
                    interpolated.push(YamlEntry { key: entry.key.clone(), key_span: entry.key_span, value });
                }
            }
            if interpolated.len() < entries.len() {
                return None;
            }
            YamlData::Map(interpolated)
        }
    };
    Some(YamlNode { span: node.span, data })
}

/// Returns the same as [`interpolate`], as JSON. Parameters are read from JSON, and every instance has its own, so the tree in
/// between would cost a tenth of the time to load a pipeline.
pub(super) fn interpolate_to_json(
    node: &YamlNode,
    names: &mut dyn PlaceholderLookup,
    budget: &Budget,
    issues: &mut SpecIssues,
) -> Option<Value> {
    match &node.data {
        YamlData::Scalar(Scalar::Text(text)) if text.contains("${") => {
            interpolate(node, names, budget, issues).map(|value| value.to_json())
        }
        YamlData::Scalar(scalar) => {
            budget.spend(size(node), node.span, issues)?;
            Some(scalar.into())
        }
        YamlData::List(items) => {
            budget.spend(VALUE_COST, node.span, issues)?;
            let values = items.iter().filter_map(|item| interpolate_to_json(item, names, budget, issues));
            let values: Vec<Value> = values.collect();
            (values.len() == items.len()).then_some(Value::Array(values))
        }
        YamlData::Map(entries) => {
            budget.spend(VALUE_COST, node.span, issues)?;
            let mut values = Map::new();
            for entry in entries {
                if let Some(value) = interpolate_to_json(&entry.value, names, budget, issues) {
                    values.insert(entry.key.clone(), value);
                }
            }
            (values.len() == entries.len()).then_some(Value::Object(values))
        }
    }
}

/// Replaces the placeholders of one text. A text that is exactly one `${...}` becomes the value with its type;
/// otherwise the values are written into the text.
pub(super) fn interpolate_text(
    text: &str,
    span: Span,
    names: &mut dyn PlaceholderLookup,
    budget: &Budget,
    issues: &mut SpecIssues,
) -> Option<YamlNode> {
    budget.spend(text.len(), span, issues)?;
    if !text.contains("${") {
        return Some(YamlNode::text(span, text.to_owned()));
    }
    let pieces = match pieces(text) {
        Ok(pieces) => pieces,
        Err(reason) => {
            issues.push(SpecIssue::new(span, reason).hint("write `$${` for the literal characters `${`"));
            return None;
        }
    };
    if let [TemplatePiece::Placeholder(written)] = pieces.as_slice() {
        let placeholder = read_placeholder(written, span, issues)?;
        let value = names.lookup(&placeholder, span, issues)?.into_owned();
        budget.spend(size(&value), span, issues)?;
        return Some(value);
    }
    let mut result = String::new();
    let mut complete = true;
    for piece in pieces {
        let written = match piece {
            TemplatePiece::Text(text) => {
                result.push_str(text);
                continue;
            }
            TemplatePiece::Placeholder(written) => written,
        };
        match placeholder_text(written, span, names, issues) {
            Some(text) => {
                budget.spend(text.len(), span, issues)?;
                result.push_str(&text);
            }
            None => complete = false,
        }
    }
    complete.then(|| YamlNode::text(span, result))
}

fn placeholder_text(
    written: &str,
    span: Span,
    names: &mut dyn PlaceholderLookup,
    issues: &mut SpecIssues,
) -> Option<String> {
    let placeholder = read_placeholder(written, span, issues)?;
    let value = names.lookup(&placeholder, span, issues)?;
    let text = value.as_scalar().and_then(Scalar::canonical_text);
    if text.is_none() {
        let message = format!("`{written}` is {} and cannot be part of a text", describe(&value.to_json()));
        issues.push(SpecIssue::new(span, message).hint(format!("make `${{{written}}}` the whole value")));
    }
    text
}

/// Describes a value for messages: "a list", "the number `3`", "the text `abc`".
pub(super) fn describe(value: &Value) -> String {
    const LONGEST: usize = 40;
    let noun = match value {
        Value::Null => return "empty".to_owned(),
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "a map".to_owned(),
        Value::Bool(_) => "the value",
        Value::Number(_) => "the number",
        Value::String(_) => "the text",
    };
    let mut text = match value {
        // Unlike the canonical text, this distinguishes 3.0 from 3.
        Value::Number(number) => number.to_string(),
        other => canonical_text(other).unwrap_or_default(),
    };
    if text.chars().count() > LONGEST {
        text = text.chars().take(LONGEST).chain(['…']).collect();
    }
    format!("{noun} `{text}`")
}

fn size(value: &YamlNode) -> usize {
    match &value.data {
        YamlData::Scalar(Scalar::Text(text)) => VALUE_COST + text.len(),
        YamlData::Scalar(_) => VALUE_COST,
        YamlData::List(items) => VALUE_COST + items.iter().map(size).sum::<usize>(),
        YamlData::Map(entries) => VALUE_COST + entries.iter().map(|entry| size(&entry.value)).sum::<usize>(),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum TemplatePiece<'t> {
    Text(&'t str),
    /// What is written between `${` and `}`.
    Placeholder(&'t str),
}

fn pieces(text: &str) -> Result<Vec<TemplatePiece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.push(TemplatePiece::Text(&rest[..at - 1]));
            pieces.push(TemplatePiece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            pieces.push(TemplatePiece::Text(&rest[..at]));
        }
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or("the closing `}` of `${` is missing")?;
        pieces.push(TemplatePiece::Placeholder(inside[..end].trim()));
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(TemplatePiece::Text(rest));
    }
    Ok(pieces)
}

fn read_placeholder<'t>(written: &'t str, span: Span, issues: &mut SpecIssues) -> Option<Placeholder<'t>> {
    let indexed = written.strip_suffix(']').and_then(|written| written.split_once("[matrix."));
    let (named, axis) = indexed.map_or((written, None), |(named, axis)| (named, Some(axis)));
    let mut parts = named.split('.');
    let root = parts.next().unwrap_or_default();
    let path: Vec<_> = parts.collect();
    let placeholder = match (root, path.as_slice(), axis) {
        (_, path, _) if path.iter().any(|key| key.is_empty() || key.contains('[')) => None,
        ("vars", [name, path @ ..], None) => Some(Placeholder::Vars(name, path.to_vec())),
        ("vars", [name, path @ ..], Some(axis)) => Some(Placeholder::VarsAt(name, path.to_vec(), axis)),
        ("matrix", [axis], None) => Some(Placeholder::Matrix(axis)),
        ("env", [name], None) => Some(Placeholder::Env(name)),
        ("each", [], None) => Some(Placeholder::Each),
        _ => None,
    };
    if placeholder.is_none() {
        let issue = SpecIssue::new(span, format!("`${{{written}}}` has no meaning here"));
        let hint = if root == "each" && !path.is_empty() {
            format!("write `${{each}}.{}` for an output", path.join("."))
        } else if let Some(meant) =
            closest(root, ["vars", "matrix", "env", "each"]).filter(|meant| *meant != root)
        {
            format!("did you mean `${{{meant}{}}}`?", &written[root.len()..])
        } else {
            "it is one of `${vars.name}`, `${vars.name[matrix.axis]}`, `${matrix.axis}`, `${env.NAME}` and `${each}`".to_owned()
        };
        issues.push(issue.hint(hint));
    }
    placeholder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_placeholders() {
        use TemplatePiece::{Placeholder, Text};
        let split = |text| pieces(text).unwrap();
        assert_eq!(split("${ vars.x }"), [Placeholder("vars.x")]);
        assert_eq!(
            split("a${vars.x}b${each}"),
            [Text("a"), Placeholder("vars.x"), Text("b"), Placeholder("each")]
        );
        assert_eq!(split("$${x} ${each}"), [Text(""), Text("${"), Text("x} "), Placeholder("each")]);
        assert_eq!(split("$5 {x}"), [Text("$5 {x}")]);
        assert!(pieces("${vars.x").is_err());
    }
}
