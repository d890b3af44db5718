//! Parses YAML text into a tree in which every key and value has its place in the text.
//!
//! Anchors, aliases, tags and merge keys are not part of the pipeline language: `vars` and `extends` avoid
//! repetition instead. `saphyr`'s own `MarkedYaml` is not used because it has no place for these rules and accepts
//! duplicate keys; the parser below it, which reports events with places, is.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::Value;

use super::source_text::{FileId, Position, Span};
use super::spec_issue::{SpecIssue, SpecIssues};
use pipe_core::scalar::Scalar;

/// How deep lists and maps may be nested.
const DEEPEST: usize = 64;

/// A YAML value and its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlNode {
    pub span: Span,
    pub data: YamlData,
}

/// The content of a [`YamlNode`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum YamlData {
    Scalar(Scalar),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// One entry of a map. Keys are always text, even if they look like numbers, and unique within their map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlEntry {
    pub key: String,
    pub key_span: Span,
    pub value: YamlNode,
}

/// One step of a path into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Index(usize),
}

impl YamlNode {
    /// Creates a text value.
    pub(super) fn text(span: Span, text: String) -> Self {
        Self { span, data: YamlData::Scalar(Scalar::Text(text)) }
    }

    /// Returns the entries of a map; none for other values.
    pub(super) fn entries(&self) -> &[YamlEntry] {
        match &self.data {
            YamlData::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn entry(&self, key: &str) -> Option<&YamlEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(super) fn as_scalar(&self) -> Option<&Scalar> {
        match &self.data {
            YamlData::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.data {
            YamlData::Scalar(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.data == YamlData::Scalar(Scalar::Null)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.data, YamlData::Map(_))
    }

    fn child(&self, step: &PathStep) -> Option<&YamlNode> {
        match (step, &self.data) {
            (PathStep::Key(key), YamlData::Map(_)) => self.get(key),
            (PathStep::Index(index), YamlData::List(items)) => items.get(*index),
            _ => None,
        }
    }

    /// Follows a path as far as this tree goes. The rest of the path is inside an interpolated value.
    fn follow(&self, path: &[PathStep]) -> &YamlNode {
        let mut node = self;
        for step in path {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// Returns the place of the value at a path.
    pub(super) fn locate(&self, path: &[PathStep]) -> Span {
        self.follow(path).span
    }

    /// Returns the place of the last key of a path.
    pub(super) fn locate_key(&self, path: &[PathStep]) -> Span {
        let Some((PathStep::Key(key), parent)) = path.split_last() else { return self.locate(path) };
        let parent = self.follow(parent);
        parent.entry(key).map_or(parent.span, |entry| entry.key_span)
    }

    /// Returns true if the value at a path was written with `${...}`.
    pub(super) fn is_interpolated(&self, path: &[PathStep]) -> bool {
        self.follow(path).as_text().is_some_and(|text| text.contains("${"))
    }

    /// Returns the value as JSON. Numbers are finite and keys are text, so nothing is lost but places and the order
    /// of keys.
    pub(super) fn to_json(&self) -> Value {
        match &self.data {
            YamlData::Scalar(scalar) => scalar.into(),
            YamlData::List(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlData::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
            ),
        }
    }
}

/// Parses one document. `None` if there is no usable tree; then at least one issue was reported.
pub(super) fn parse(text: &str, file: FileId, issues: &mut SpecIssues) -> Option<YamlNode> {
    let mut builder = Builder { stack: Vec::new(), root: None, broken: false, issues };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                builder.issues.push(syntax_problem(&error, text, file));
                return None;
            }
        };
        let span = locate(file, span);
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                let message = "a second document starts here, but a file holds only one";
                builder.issues.push(
                    SpecIssue::new(span, message)
                        .hint("remove the `---`, or move the document to a file of its own"),
                );
                return None;
            }
        }
        builder.event(event, span)?;
    }
    let Builder { root, broken, .. } = builder;
    if broken {
        None
    } else {
        Some(root.unwrap_or(YamlNode { span: Span::whole(file), data: YamlData::Scalar(Scalar::Null) }))
    }
}

fn locate(file: FileId, span: saphyr_parser::Span) -> Span {
    let position = |marker: saphyr_parser::Marker| Position { line: marker.line(), column: marker.col() + 1 };
    let (start, end) = (position(span.start), position(span.end));
    Span { file, start, end: end.max(start) }
}

/// Up to this number of keys, a linear search is faster than a hash map.
const FEW_KEYS: usize = 16;

enum Frame {
    List {
        span: Span,
        items: Vec<YamlNode>,
    },
    Map {
        span: Span,
        entries: Vec<YamlEntry>,
        /// The places of the keys; empty while there are at most [`FEW_KEYS`].
        places: HashMap<String, Span>,
        key: Option<PendingKey>,
    },
}

struct PendingKey {
    text: String,
    span: Span,
    /// A duplicate, whose value is read and dropped.
    ignored: bool,
}

struct Builder<'a> {
    stack: Vec<Frame>,
    root: Option<YamlNode>,
    /// The tree does not represent the text, so further checks would mislead.
    broken: bool,
    issues: &'a mut SpecIssues,
}

impl Builder<'_> {
    /// Processes one event of the parser. `None` if parsing cannot continue.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.reject_extras(anchor, tag.is_some(), span);
                self.scalar(&text, style, span);
            }
            Event::SequenceStart(anchor, tag) => {
                self.reject_extras(anchor, tag.is_some(), span);
                self.open(Frame::List { span, items: Vec::with_capacity(1) }, span)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.reject_extras(anchor, tag.is_some(), span);
                self.open(
                    Frame::Map { span, entries: Vec::with_capacity(1), places: HashMap::new(), key: None },
                    span,
                )?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.stack.pop()? {
                    Frame::List { span: start, items } => {
                        YamlNode { span: join(start, span), data: YamlData::List(items) }
                    }
                    Frame::Map { span: start, entries, .. } => {
                        YamlNode { span: join(start, span), data: YamlData::Map(entries) }
                    }
                };
                self.value(node);
            }
            Event::Alias(_) => {
                self.reject_extras(1, false, span);
                self.scalar("", ScalarStyle::Plain, span);
            }
            _ => {}
        }
        Some(())
    }

    fn reject_extras(&mut self, anchor: usize, tag: bool, span: Span) {
        if anchor != 0 {
            self.broken = true;
            let issue = SpecIssue::new(
                span,
                "anchors (`&name`) and aliases (`*name`) are not part of the pipeline language",
            );
            self.issues.push(issue.hint("put the value under `vars:` and write `${vars.name}` where it is needed; quote text that starts with `*` or `&`"));
        }
        if tag {
            self.broken = true;
            let issue = SpecIssue::new(span, "tags (`!name`) are not part of the pipeline language");
            self.issues.push(issue.hint("remove the tag; quote text that starts with `!`"));
        }
    }

    fn open(&mut self, frame: Frame, span: Span) -> Option<()> {
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            let issue = SpecIssue::new(span, "a key must be plain text, not a list or a map");
            self.issues
                .push(issue.hint("if this is `${...}` or a reference with brackets, put it in quotes"));
            return None;
        }
        if self.stack.len() == DEEPEST {
            self.issues.push(too_deep(span));
            return None;
        }
        self.stack.push(frame);
        Some(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) {
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            return self.key(text, style, span);
        }
        let scalar = match style {
            ScalarStyle::Plain => Scalar::plain(text).unwrap_or_else(|bad| {
                self.issues.push(
                    SpecIssue::new(span, format!("`{text}`: {bad}"))
                        .hint("put it in quotes if it is meant as text"),
                );
                // A number takes its place, so that no second issue is reported for its type.
                Scalar::Int(0)
            }),
            _ => Scalar::Text(text.to_owned()),
        };
        self.value(YamlNode { span, data: YamlData::Scalar(scalar) });
    }

    fn key(&mut self, text: &str, style: ScalarStyle, span: Span) {
        let Some(Frame::Map { key, entries, places, .. }) = self.stack.last_mut() else { return };
        if entries.len() == FEW_KEYS && places.is_empty() {
            places.extend(entries.iter().map(|entry| (entry.key.clone(), entry.key_span)));
        }
        let first = if places.is_empty() {
            entries.iter().find(|entry| entry.key == text).map(|entry| entry.key_span)
        } else {
            places.get(text).copied()
        };
        let mut ignored = false;
        if text == "<<" && style == ScalarStyle::Plain {
            ignored = true;
            let issue = SpecIssue::new(span, "merge keys (`<<`) are not part of the pipeline language");
            self.issues.push(issue.hint("use `extends:` for parts of a pipeline, or `vars:` for values"));
        } else if text.is_empty() {
            ignored = true;
            self.issues.push(SpecIssue::new(span, "a key is missing before the `:`"));
        } else if let Some(first) = first {
            ignored = true;
            let issue = SpecIssue::new(span, format!("the key `{text}` is given twice"));
            self.issues.push(issue.earlier("first given at", first).hint("remove or rename one of the two"));
        }
        *key = Some(PendingKey { text: text.to_owned(), span, ignored });
    }

    fn value(&mut self, mut node: YamlNode) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, places, key, .. }) => {
                let Some(PendingKey { text, span, ignored }) = key.take() else { return };
                // A missing value is best shown by its key.
                if node.span.is_empty() && node.is_null() {
                    node.span = span;
                }
                if !ignored {
                    if !places.is_empty() {
                        places.insert(text.clone(), span);
                    }
                    entries.push(YamlEntry { key: text, key_span: span, value: node });
                }
            }
        }
    }
}

fn join(start: Span, end: Span) -> Span {
    Span { end: end.end.max(start.end), ..start }
}

fn too_deep(span: Span) -> SpecIssue {
    SpecIssue::new(span, format!("lists and maps are nested more than {DEEPEST} deep"))
}

/// Returns the scanner's message with the advice that most often helps.
fn syntax_problem(error: &ScanError, text: &str, file: FileId) -> SpecIssue {
    let marker = error.marker();
    let mut position = Position { line: marker.line().max(1), column: marker.col() + 1 };
    // Something that is missing at the end is best shown behind the last character.
    let (lines, last) = text.lines().fold((0, ""), |(lines, _), line| (lines + 1, line));
    if position.line > lines {
        position = Position { line: lines.max(1), column: last.chars().count() + 1 };
    }
    let span = Span { file, start: position, end: position };
    let info = error.info();
    if info == "recursion limit exceeded" {
        return too_deep(span);
    }
    let line = text.lines().nth(position.line - 1).unwrap_or_default();
    let hint = if info.contains("tab") || line.starts_with('\t') {
        "indent with spaces; YAML allows no tabs there"
    } else if line.contains("${") && !quoted(line, "${") {
        "inside `{ }` and `[ ]`, `${...}` needs quotes: \"${vars.x}\""
    } else if unquoted_reference(line) {
        "inside `{ }` and `[ ]`, a reference with brackets needs quotes: \"eval[*]\""
    } else if info.contains("mapping values are not allowed") {
        "quote text that contains `: `, and check that the keys of one map start in the same column"
    } else if info.contains("quoted scalar") {
        "is a closing quote missing?"
    } else if info.contains("unexpected character") {
        "quote text that starts with this character"
    } else if info.contains("flow") {
        "is a `,` or a closing bracket missing?"
    } else {
        "check the indentation: the keys of one map start in the same column"
    };
    SpecIssue::new(span, format!("this is not valid YAML: {info}")).hint(hint)
}

/// Returns true if the first occurrence of `what` follows an opening quote.
fn quoted(line: &str, what: &str) -> bool {
    let before = line.split(what).next().unwrap_or_default();
    before.matches('"').count() % 2 == 1 || before.matches('\'').count() % 2 == 1
}

/// Returns true for `eval[*]` without quotes inside a flow map.
fn unquoted_reference(line: &str) -> bool {
    let in_flow = line.contains('{');
    let follows_a_name =
        |(at, _): (usize, &str)| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    in_flow && line.match_indices('[').any(follows_a_name) && !quoted(line, "[")
}
