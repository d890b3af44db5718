//! Deserializes JSON into typed structs and reports everything that is wrong with it, in plain words and at the right
//! place in the source.
//!
//! Serde stops at the first error. So after an error the wrong value is removed and the rest is deserialized again,
//! until no error is left.

use pipe_core::issue::Issue;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::interpolate::describe;
use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{PathStep, YamlNode};
use pipe_core::strict_json::StrictJson;
use pipe_core::suggest::did_you_mean;

pub(super) type PathError = serde_path_to_error::Error<serde_json::Error>;

/// Where a value was written, and what messages call it.
pub(super) struct ValueContext<'a> {
    /// With its quotes: "`train`" in "`train` has no parameter `epoch`".
    pub name: String,
    /// What its keys are called: "parameter".
    pub key: &'static str,
    /// The place for issues of the value as a whole, such as a missing key.
    pub span: Span,
    /// The value as it was written, before interpolation.
    pub node: &'a YamlNode,
    pub note: Option<String>,
}

/// More rounds than any real file needs.
const MOST_ROUNDS: usize = 50;

/// Deserializes a struct. `None` after all its issues were reported.
pub(super) fn read<T: DeserializeOwned>(
    value: Value,
    context: &ValueContext,
    issues: &mut SpecIssues,
) -> Option<T> {
    let first = match serde_path_to_error::deserialize(StrictJson(&value)) {
        Ok(typed) => return Some(typed),
        Err(error) => error,
    };
    let check = |value: Value| serde_path_to_error::deserialize::<_, T>(StrictJson(&value)).map(drop);
    report_all(value, first, context, &check, &[], issues);
    None
}

/// Reports `first` and every further error of the value. `required` are the keys that the value as a whole must have,
/// as far as they are known.
pub(super) fn report_all(
    mut value: Value,
    first: PathError,
    context: &ValueContext,
    check: &dyn Fn(Value) -> Result<(), PathError>,
    required: &[String],
    issues: &mut SpecIssues,
) {
    let mut removed: Vec<Vec<PathStep>> = Vec::new();
    let mut error = first;
    for _ in 0..MOST_ROUNDS {
        let path = steps(error.path(), &value);
        let written = path_in_source(&path, &removed);
        let error_kind = DeserializeError::parse(&error.inner().to_string());
        if let DeserializeError::MissingField(field) = &error_kind {
            let path_of = |key: &str| [written.as_slice(), &[PathStep::Key(key.to_owned())]].concat();
            let mut missing = vec![field.as_str()];
            if path.is_empty() {
                let absent = |key: &&String| value.get(key.as_str()).is_none() && *key != field;
                missing.extend(required.iter().filter(absent).map(String::as_str));
            }
            for key in missing.into_iter().filter(|key| !removed.contains(&path_of(key))) {
                issues.push(context.missing(&written, key));
            }
        } else {
            issues.push(context.issue(&error_kind, &written, at(&value, &path)));
        }
        if path.is_empty() || !remove(&mut value, &path) {
            return;
        }
        removed.push(written);
        match check(value.clone()) {
            Ok(()) => return,
            Err(next) => error = next,
        }
    }
}

impl ValueContext<'_> {
    fn with_note(&self, span: Span, message: String) -> SpecIssue {
        let issue = SpecIssue::new(span, message);
        match &self.note {
            Some(note) => issue.note(note),
            None => issue,
        }
    }

    /// Adds the place in the source to an issue of a field such as `optimiser.lr`.
    pub(super) fn issue_at(&self, issue: Issue) -> SpecIssue {
        let Issue { field, message, hint } = issue;
        let path = parse_path(&field);
        let is_written = matches!(path.first(), Some(PathStep::Key(key)) if self.node.get(key).is_some());
        let span = if is_written { self.node.locate(&path) } else { self.span };
        let message = if field.is_empty() { message } else { format!("`{field}`: {message}") };
        self.with_note(span, message).maybe_hint(hint)
    }

    fn missing(&self, path: &[PathStep], field: &str) -> SpecIssue {
        let (span, name) = match path {
            [] => (self.span, self.name.clone()),
            _ => (self.node.locate_key(path), shown(path)),
        };
        self.with_note(span, format!("{name} needs `{field}`")).hint(format!("add `{field}: ...`"))
    }

    fn issue(&self, error: &DeserializeError, path: &[PathStep], found: Option<&Value>) -> SpecIssue {
        let span = self.node.locate(path);
        let field = if path.is_empty() { self.name.clone() } else { shown(path) };
        match error {
            DeserializeError::UnknownField { name, known } => {
                // Serde reads a value whose kind decides on its fields as a whole, and reports the whole.
                let own = PathStep::Key(name.clone());
                let within = [path, std::slice::from_ref(&own)].concat();
                let is_within =
                    path.last() != Some(&own) && found.is_some_and(|found| found.get(name).is_some());
                let path = if is_within { within.as_slice() } else { path };
                let parent = match path.split_last() {
                    None | Some((_, [])) => self.name.clone(),
                    Some((_, parent)) => shown(parent),
                };
                let message = format!("{parent} has no {} `{name}`", self.key);
                let issue = self.with_note(self.node.locate_key(path), message);
                issue.maybe_hint(did_you_mean(name, "it has", known.iter().map(String::as_str)))
            }
            DeserializeError::UnknownVariant { name, known } => {
                let issue = self.with_note(span, format!("{field} cannot be `{name}`"));
                issue.maybe_hint(did_you_mean(name, "it is one of", known.iter().map(String::as_str)))
            }
            DeserializeError::WrongType { expected } => {
                let found_text = found.map_or("something else".to_owned(), describe);
                let message = format!("{field} expects {expected}, but this is {found_text}");
                let is_stages = matches!(path, [PathStep::Key(key)] if key == "stages");
                let of_stages = is_stages && matches!(found, Some(Value::Array(_)));
                let hint = of_stages.then(|| STAGES_HINT.to_owned()).or_else(|| type_hint(expected, found));
                self.with_note(span, message).maybe_hint(hint)
            }
            DeserializeError::Other(message) => {
                // In a map from words of a fixed vocabulary, the key itself can be wrong.
                let quoted =
                    message.split('`').nth(1).filter(|word| found.and_then(Value::as_str) != Some(word));
                let of_key = matches!(path.last(), Some(PathStep::Key(key)) if quoted == Some(key.as_str()));
                let span = if of_key { self.node.locate_key(path) } else { span };
                self.with_note(span, format!("{field}: {message}"))
            }
            DeserializeError::MissingField(name) => self.missing(path, name),
        }
    }
}

const STAGES_HINT: &str = "use the name of each stage as its key: `a: { command: ... }`";

/// What a value whose `kind` decides on its other fields is called.
const KIND_MAP: &str = "a map with its `kind`";

fn type_hint(expected: &str, found: Option<&Value>) -> Option<String> {
    match (expected, found?) {
        ("text", Value::Number(_) | Value::Bool(_)) => Some("put it in quotes".to_owned()),
        ("a list", Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            Some("write a list: `[...]`".to_owned())
        }
        (KIND_MAP, Value::String(kind)) => Some(format!("write `{{ kind: {kind} }}`")),
        (expected, Value::Array(_)) if expected.starts_with("a map") => {
            Some("write `name: ...` lines, without the `-` in front of them".to_owned())
        }
        ("true or false", Value::String(text)) => match text.to_lowercase().as_str() {
            "yes" | "on" | "y" => Some("write `true`".to_owned()),
            "no" | "off" | "n" => Some("write `false`".to_owned()),
            _ => None,
        },
        (expected, Value::String(text)) if expected.contains("number") && text.contains('_') => {
            Some("write the number without `_`".to_owned())
        }
        _ => None,
    }
}

/// An error message of serde, parsed.
///
/// Serde's errors are only text. `tests::serde_still_words_*` pins every wording that is parsed here.
#[derive(Debug, PartialEq, Eq)]
enum DeserializeError {
    UnknownField { name: String, known: Vec<String> },
    UnknownVariant { name: String, known: Vec<String> },
    MissingField(String),
    WrongType { expected: String },
    Other(String),
}

impl DeserializeError {
    fn parse(message: &str) -> Self {
        let names = || message.split('`').skip(1).step_by(2).map(str::to_owned);
        let first = || names().next().unwrap_or_default();
        let known = || names().skip(1).collect();
        if message.starts_with("unknown field `") {
            Self::UnknownField { name: first(), known: known() }
        } else if message.starts_with("unknown variant `") {
            Self::UnknownVariant { name: first(), known: known() }
        } else if message.starts_with("missing field `") {
            Self::MissingField(first())
        } else if let Some((_, expected)) = message
            .strip_prefix("invalid type: ")
            .or_else(|| message.strip_prefix("invalid value: "))
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            Self::WrongType { expected: plain_words(expected).to_owned() }
        } else {
            Self::Other(message.to_owned())
        }
    }
}

/// Translates Rust's names of types, which mean nothing to the author of a pipeline.
fn plain_words(expected: &str) -> &str {
    match expected {
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "a string" | "string" | "str" | "a borrowed string" | "path string" => "text",
        "a boolean" | "boolean" => "true or false",
        "a sequence" | "sequence" => "a list",
        "a map" | "map" => "a map",
        "unit" | "null" => "nothing",
        other if other.starts_with("a nonzero u") => "a whole number, 1 or more",
        other if other.starts_with("struct ") || other.starts_with("variant ") => "a map of parameters",
        other if other.starts_with("internally tagged enum ") => KIND_MAP,
        other if other.starts_with("enum ") => "one of its names",
        other => other,
    }
}

fn steps(path: &serde_path_to_error::Path, value: &Value) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut value = Some(value);
    for segment in path {
        let step = match segment {
            Segment::Seq { index } => PathStep::Index(*index),
            Segment::Map { key } => PathStep::Key(key.clone()),
            Segment::Enum { variant } if value.and_then(|value| value.get(variant)).is_some() => {
                PathStep::Key(variant.clone())
            }
            Segment::Enum { .. } => continue,
            Segment::Unknown => break,
        };
        value = value.and_then(|value| child(value, &step));
        steps.push(step);
    }
    steps
}

fn child<'v>(value: &'v Value, step: &PathStep) -> Option<&'v Value> {
    match step {
        PathStep::Key(key) => value.get(key.as_str()),
        PathStep::Index(index) => value.get(*index),
    }
}

fn at<'v>(value: &'v Value, path: &[PathStep]) -> Option<&'v Value> {
    path.iter().try_fold(value, child)
}

/// Returns the value at a path, to change it.
pub(super) fn at_mut<'v>(value: &'v mut Value, path: &[PathStep]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        PathStep::Key(key) => value.get_mut(key.as_str()),
        PathStep::Index(index) => value.get_mut(*index),
    })
}

/// Returns the path to a value that should have been text.
pub(super) fn path_that_expects_text(error: &PathError, value: &Value) -> Option<Vec<PathStep>> {
    match DeserializeError::parse(&error.inner().to_string()) {
        DeserializeError::WrongType { expected } if expected == "text" => Some(steps(error.path(), value)),
        _ => None,
    }
}

/// Removes the value at a path; returns whether there was one.
fn remove(value: &mut Value, path: &[PathStep]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    match (at_mut(value, parents), last) {
        (Some(Value::Object(object)), PathStep::Key(key)) => object.remove(key.as_str()).is_some(),
        (Some(Value::Array(items)), PathStep::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

/// Translates a path into the value as it was written: removed items have shifted the later items of their list.
fn path_in_source(path: &[PathStep], removed: &[Vec<PathStep>]) -> Vec<PathStep> {
    let mut written: Vec<PathStep> = Vec::with_capacity(path.len());
    for step in path {
        let step = match step {
            PathStep::Key(key) => PathStep::Key(key.clone()),
            PathStep::Index(index) => {
                let mut gone: Vec<usize> = removed
                    .iter()
                    .filter_map(|gone| match gone.split_last() {
                        Some((PathStep::Index(index), parent)) if parent == written => Some(*index),
                        _ => None,
                    })
                    .collect();
                gone.sort_unstable();
                PathStep::Index(
                    gone.into_iter()
                        .fold(*index, |index, gone| if gone <= index { index + 1 } else { index }),
                )
            }
        };
        written.push(step);
    }
    written
}

/// Prints a path: "`optimiser.lr`", "`figures[1]`".
fn shown(path: &[PathStep]) -> String {
    let mut text = String::from("`");
    for (position, step) in path.iter().enumerate() {
        match step {
            PathStep::Key(key) if position == 0 => text.push_str(key),
            PathStep::Key(key) => text.extend([".", key]),
            PathStep::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text.push('`');
    text
}

/// Parses a path in the form that [`shown`] prints, without the quotes.
fn parse_path(text: &str) -> Vec<PathStep> {
    let words = text.split(['.', '[', ']']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_or_else(|_| PathStep::Key(word.to_owned()), PathStep::Index)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZero;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code)]
        depth: u32,
        #[serde(default)]
        #[allow(dead_code)]
        word: Option<Word>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        Plain,
        KnnOnly,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Shape {
        Round,
    }

    fn error<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> DeserializeError {
        let error = serde_path_to_error::deserialize::<_, T>(StrictJson(&value)).unwrap_err();
        DeserializeError::parse(&error.inner().to_string())
    }

    fn wrong_type(expected: &str) -> DeserializeError {
        DeserializeError::WrongType { expected: expected.to_owned() }
    }

    #[test]
    fn serde_still_words_an_unknown_field_as_parsed_here() {
        let known = vec!["depth".to_owned(), "word".to_owned()];
        assert_eq!(
            error::<Sample>(json!({ "depth": 1, "dept": 2 })),
            DeserializeError::UnknownField { name: "dept".to_owned(), known }
        );
    }

    #[test]
    fn serde_still_words_an_unknown_variant_as_parsed_here() {
        let known = vec!["plain".to_owned(), "knn-only".to_owned()];
        assert_eq!(
            error::<Word>(json!("knn")),
            DeserializeError::UnknownVariant { name: "knn".to_owned(), known }
        );
    }

    #[test]
    fn serde_still_words_a_missing_field_as_parsed_here() {
        assert_eq!(error::<Sample>(json!({})), DeserializeError::MissingField("depth".to_owned()));
    }

    #[test]
    fn serde_still_words_a_wrong_number_as_parsed_here() {
        assert_eq!(error::<f64>(json!("x")), wrong_type("a number"));
        assert_eq!(error::<u32>(json!(1.5)), wrong_type("a whole number, 0 or more"));
        assert_eq!(error::<u32>(json!(-1)), wrong_type("a whole number, 0 or more"));
        assert_eq!(error::<i64>(json!("x")), wrong_type("a whole number"));
        assert_eq!(error::<NonZero<u32>>(json!(0)), wrong_type("a whole number, 1 or more"));
    }

    #[test]
    fn serde_still_words_a_wrong_text_or_bool_as_parsed_here() {
        assert_eq!(error::<String>(json!(1)), wrong_type("text"));
        assert_eq!(error::<std::path::PathBuf>(json!(1)), wrong_type("text"));
        assert_eq!(error::<bool>(json!("yes")), wrong_type("true or false"));
    }

    #[test]
    fn serde_still_words_a_wrong_list_or_map_as_parsed_here() {
        assert_eq!(error::<Vec<u32>>(json!(1)), wrong_type("a list"));
        assert_eq!(error::<BTreeMap<String, u32>>(json!(1)), wrong_type("a map"));
        assert_eq!(error::<Sample>(json!(1)), wrong_type("a map of parameters"));
        assert_eq!(error::<Sample>(json!([1])), wrong_type("a map of parameters"));
    }

    #[test]
    fn serde_still_words_a_wrong_enum_as_parsed_here() {
        assert_eq!(error::<Word>(json!(1)), wrong_type("one of its names"));
        assert_eq!(error::<Word>(json!({ "plain": null })), wrong_type("one of its names"));
    }

    #[test]
    fn a_name_in_place_of_a_map_with_a_kind_gets_the_map() {
        assert_eq!(error::<Shape>(json!("round")), wrong_type("a map with its `kind`"));
        let hint = type_hint(KIND_MAP, Some(&json!("round")));
        assert_eq!(hint.as_deref(), Some("write `{ kind: round }`"));
    }

    #[test]
    fn a_path_is_printed_as_it_is_parsed() {
        assert_eq!(shown(&parse_path("figures[1].size")), "`figures[1].size`");
    }
}
