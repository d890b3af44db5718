//! Reads values into typed structs and says everything that is wrong with them, in plain words
//! and at the right place.
//!
//! Serde stops at the first error. So after an error the offending value is struck out and the
//! rest is tried again, until nothing is left to complain of.

use pipe_core::issue::Issue;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use serde_yaml::Value;

use super::interpolate::describe;
use super::node::{Node, Step};
use super::problem::{Problem, Problems};
use super::source::Span;
use pipe_core::suggest::did_you_mean;

pub(super) type PathError = serde_path_to_error::Error<serde_yaml::Error>;

/// Where a value was written, and what to call it in messages.
pub(super) struct Subject<'a> {
    /// With its quotes: "`train`" in "`train` has no parameter `epoch`".
    pub name: String,
    /// What its keys are called: "parameter".
    pub key: &'static str,
    /// The place for what concerns it as a whole, such as a missing key.
    pub span: Span,
    pub node: &'a Node,
    pub note: Option<String>,
}

/// More rounds than any honest file needs.
const MOST_ERRORS: usize = 50;

/// Reads a struct; on failure, all its problems have been reported.
pub(super) fn read<T: DeserializeOwned>(
    value: Value,
    subject: &Subject,
    problems: &mut Problems,
) -> Option<T> {
    let first = match serde_path_to_error::deserialize(value.clone()) {
        Ok(typed) => return Some(typed),
        Err(error) => error,
    };
    let again = |value: Value| serde_path_to_error::deserialize::<_, T>(value).map(drop);
    report_all(value, first, subject, &again, &[], problems);
    None
}

/// Reports `first` and every further problem of the value. `required` are the keys that the
/// value as a whole must have, as far as they are known.
pub(super) fn report_all(
    mut value: Value,
    first: PathError,
    subject: &Subject,
    read: &dyn Fn(Value) -> Result<(), PathError>,
    required: &[String],
    problems: &mut Problems,
) {
    let mut struck: Vec<Vec<Step>> = Vec::new();
    let mut error = first;
    for _ in 0..MOST_ERRORS {
        let path = steps(error.path(), &value);
        let written = path_in_source(&path, &struck);
        let fault = Fault::read(&error.inner().to_string());
        if let Fault::Missing(field) = &fault {
            let named = |key: &str| [written.as_slice(), &[Step::Key(key.to_owned())]].concat();
            let mut missing = vec![field.as_str()];
            if path.is_empty() {
                let absent = |key: &&String| value.get(key.as_str()).is_none() && *key != field;
                missing.extend(required.iter().filter(absent).map(String::as_str));
            }
            for key in missing.into_iter().filter(|key| !struck.contains(&named(key))) {
                problems.push(subject.missing(&written, key));
            }
        } else {
            problems.push(subject.fault(&fault, &written, at(&value, &path)));
        }
        if path.is_empty() || !strike(&mut value, &path) {
            return;
        }
        struck.push(written);
        match read(value.clone()) {
            Ok(()) => return,
            Err(next) => error = next,
        }
    }
}

impl Subject<'_> {
    fn problem(&self, span: Span, message: String) -> Problem {
        let problem = Problem::new(span, message);
        match &self.note {
            Some(note) => problem.note(note),
            None => problem,
        }
    }

    /// Returns an issue of a field together with its place in the file.
    pub(super) fn issue(&self, issue: Issue) -> Problem {
        let Issue { field, message, hint } = issue;
        let path = parse_path(&field);
        let written =
            |path: &[Step]| matches!(path.first(), Some(Step::Key(key)) if self.node.get(key).is_some());
        let span = if written(&path) { self.node.locate(&path) } else { self.span };
        let message = if field.is_empty() { message } else { format!("`{field}`: {message}") };
        self.problem(span, message).maybe_hint(hint)
    }

    fn missing(&self, path: &[Step], field: &str) -> Problem {
        let (span, name) = match path {
            [] => (self.span, self.name.clone()),
            _ => (self.node.locate_key(path), shown(path)),
        };
        self.problem(span, format!("{name} needs `{field}`")).hint(format!("add `{field}: ...`"))
    }

    fn fault(&self, fault: &Fault, path: &[Step], found: Option<&Value>) -> Problem {
        let place = self.node.locate(path);
        let field = if path.is_empty() { self.name.clone() } else { shown(path) };
        match fault {
            Fault::UnknownField { name, known } => {
                let parent = match path.split_last() {
                    None | Some((_, [])) => self.name.clone(),
                    Some((_, parent)) => shown(parent),
                };
                let problem = self
                    .problem(self.node.locate_key(path), format!("{parent} has no {} `{name}`", self.key));
                problem.maybe_hint(did_you_mean(name, "it has", known.iter().map(String::as_str)))
            }
            Fault::UnknownVariant { name, known } => {
                let problem = self.problem(place, format!("{field} cannot be `{name}`"));
                problem.maybe_hint(did_you_mean(name, "it is one of", known.iter().map(String::as_str)))
            }
            Fault::Type { expected } => {
                let found_text = found.map_or("something else".to_owned(), describe);
                let problem =
                    self.problem(place, format!("{field} expects {expected}, but this is {found_text}"));
                problem.maybe_hint(type_hint(expected, found))
            }
            Fault::Other(message) => {
                // Of a map whose keys are words of a kind, the key itself can be wrong.
                let named =
                    message.split('`').nth(1).filter(|word| found.and_then(Value::as_str) != Some(word));
                let of_key = matches!(path.last(), Some(Step::Key(key)) if named == Some(key.as_str()));
                let place = if of_key { self.node.locate_key(path) } else { place };
                self.problem(place, format!("{field}: {message}"))
            }
            Fault::Missing(name) => self.missing(path, name),
        }
    }
}

fn type_hint(expected: &str, found: Option<&Value>) -> Option<String> {
    match (expected, found?) {
        ("text", Value::Number(_) | Value::Bool(_)) => Some("put it in quotes".to_owned()),
        ("a list", Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            Some("write a list: `[...]`".to_owned())
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

/// One of serde's messages, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    UnknownField { name: String, known: Vec<String> },
    UnknownVariant { name: String, known: Vec<String> },
    Missing(String),
    Type { expected: String },
    Other(String),
}

impl Fault {
    fn read(message: &str) -> Self {
        let names = || message.split('`').skip(1).step_by(2).map(str::to_owned);
        let first = || names().next().unwrap_or_default();
        let known = || names().skip(1).collect();
        if message.starts_with("unknown field `") {
            Self::UnknownField { name: first(), known: known() }
        } else if message.starts_with("unknown variant `") {
            Self::UnknownVariant { name: first(), known: known() }
        } else if message.starts_with("missing field `") {
            Self::Missing(first())
        } else if let Some((_, expected)) = message
            .strip_prefix("invalid type: ")
            .or_else(|| message.strip_prefix("invalid value: "))
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            Self::Type { expected: plain_words(expected).to_owned() }
        } else {
            Self::Other(message.to_owned())
        }
    }
}

/// Rust's names of types mean nothing to the writer of a pipeline.
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
        "a Value::Tagged enum" | "a YAML tag starting with '!'" => "one of its names",
        other if other.starts_with("a nonzero u") => "a whole number, 1 or more",
        other if other.starts_with("struct ") || other.starts_with("variant ") => "a map of parameters",
        other if other.starts_with("enum ") => "one of its names",
        other => other,
    }
}

fn steps(path: &serde_path_to_error::Path, value: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut value = Some(value);
    for segment in path {
        let step = match segment {
            Segment::Seq { index } => Step::Index(*index),
            Segment::Map { key } => Step::Key(key.clone()),
            Segment::Enum { variant } if value.and_then(|value| value.get(variant)).is_some() => {
                Step::Key(variant.clone())
            }
            Segment::Enum { .. } => continue,
            Segment::Unknown => break,
        };
        value = value.and_then(|value| child(value, &step));
        steps.push(step);
    }
    steps
}

fn child<'v>(value: &'v Value, step: &Step) -> Option<&'v Value> {
    match step {
        Step::Key(key) => value.get(key.as_str()),
        Step::Index(index) => value.get(*index),
    }
}

fn at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, child)
}

pub(super) fn at_mut<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// The path to a value that should have been text.
pub(super) fn wants_text(error: &PathError, value: &Value) -> Option<Vec<Step>> {
    match Fault::read(&error.inner().to_string()) {
        Fault::Type { expected } if expected == "text" => Some(steps(error.path(), value)),
        _ => None,
    }
}

/// Removes a value; says whether there was one.
fn strike(value: &mut Value, path: &[Step]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    match (at_mut(value, parents), last) {
        (Some(Value::Mapping(mapping)), Step::Key(key)) => mapping.shift_remove(key.as_str()).is_some(),
        (Some(Value::Sequence(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

/// Undoes the shift that striking earlier items of a list has caused.
fn path_in_source(path: &[Step], struck: &[Vec<Step>]) -> Vec<Step> {
    let mut written: Vec<Step> = Vec::with_capacity(path.len());
    for step in path {
        let step = match step {
            Step::Key(key) => Step::Key(key.clone()),
            Step::Index(index) => {
                let mut gone: Vec<usize> = struck
                    .iter()
                    .filter_map(|gone| match gone.split_last() {
                        Some((Step::Index(index), parent)) if parent == written => Some(*index),
                        _ => None,
                    })
                    .collect();
                gone.sort_unstable();
                Step::Index(
                    gone.into_iter()
                        .fold(*index, |index, gone| if gone <= index { index + 1 } else { index }),
                )
            }
        };
        written.push(step);
    }
    written
}

/// "`optimiser.lr`", "`figures[1]`"
fn shown(path: &[Step]) -> String {
    let mut text = String::from("`");
    for (position, step) in path.iter().enumerate() {
        match step {
            Step::Key(key) if position == 0 => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text.push('`');
    text
}

/// The other way round.
fn parse_path(text: &str) -> Vec<Step> {
    let words = text.split(['.', '[', ']']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_or_else(|_| Step::Key(word.to_owned()), Step::Index)).collect()
}
