//! YAML text -> a tree whose every key and value knows where it stands.
//!
//! Anchors, aliases, tags and merge keys are not part of the pipeline language: `vars` and
//! `extends` are its means of saying something once.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_yaml::{Mapping, Value};

use super::problem::{Problem, Problems};
use super::source::{FileId, Position, Span};
use pipe_core::scalar::Scalar;

/// Lists and maps inside each other.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub span: Span,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// Keys are text, whatever they look like, and unique within their map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_span: Span,
    pub value: Node,
}

/// One step of a path into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Node {
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.data == Data::Scalar(Scalar::Null)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.data, Data::Map(_))
    }

    fn child(&self, step: &Step) -> Option<&Node> {
        match (step, &self.data) {
            (Step::Key(key), Data::Map(_)) => self.get(key),
            (Step::Index(index), Data::List(items)) => items.get(*index),
            _ => None,
        }
    }

    /// Follows a path as far as this tree goes: what lies beyond came in by interpolation.
    fn follow(&self, path: &[Step]) -> &Node {
        let mut node = self;
        for step in path {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    pub(super) fn locate(&self, path: &[Step]) -> Span {
        self.follow(path).span
    }

    /// As [`Self::locate`], but the key rather than its value.
    pub(super) fn locate_key(&self, path: &[Step]) -> Span {
        let Some((Step::Key(key), parent)) = path.split_last() else { return self.locate(path) };
        let parent = self.follow(parent);
        parent.entry(key).map_or(parent.span, |entry| entry.key_span)
    }

    /// Whether what stands at a path came in by `${...}`.
    pub(super) fn is_interpolated(&self, path: &[Step]) -> bool {
        self.follow(path).as_text().is_some_and(|text| text.contains("${"))
    }

    pub(super) fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(scalar) => scalar.into(),
            Data::List(items) => Value::Sequence(items.iter().map(Node::to_value).collect()),
            Data::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone().into(), entry.value.to_value()));
                Value::Mapping(pairs.collect::<Mapping>())
            }
        }
    }
}

/// Reads one document. `None` if it has no tree to work with; then at least one problem says why.
pub(super) fn parse(text: &str, file: FileId, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder { stack: Vec::new(), root: None, broken: false, problems };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                builder.problems.push(syntax_problem(&error, text, file));
                return None;
            }
        };
        let span = locate(file, span);
        if let Event::DocumentStart(_) = event {
            documents += 1;
            if documents > 1 {
                let message = "a second document starts here; a file holds one";
                builder
                    .problems
                    .push(Problem::new(span, message).hint("remove the `---`, or make it a file of its own"));
                return None;
            }
        }
        builder.event(event, span)?;
    }
    let Builder { root, broken, .. } = builder;
    if broken {
        None
    } else {
        Some(root.unwrap_or(Node { span: Span::whole(file), data: Data::Scalar(Scalar::Null) }))
    }
}

fn locate(file: FileId, span: saphyr_parser::Span) -> Span {
    let position = |marker: saphyr_parser::Marker| Position { line: marker.line(), column: marker.col() + 1 };
    let (start, end) = (position(span.start), position(span.end));
    Span { file, start, end: end.max(start) }
}

/// Up to here, looking at every key is faster than remembering them.
const FEW_KEYS: usize = 16;

enum Frame {
    List {
        span: Span,
        items: Vec<Node>,
    },
    Map {
        span: Span,
        entries: Vec<Entry>,
        /// Where the keys are; empty as long as they are few.
        places: HashMap<String, Span>,
        key: Option<Key>,
    },
}

struct Key {
    text: String,
    span: Span,
    /// A duplicate: its value is read and dropped.
    ignored: bool,
}

struct Builder<'a> {
    stack: Vec<Frame>,
    root: Option<Node>,
    /// What was read does not stand for what was written; going on would only mislead.
    broken: bool,
    problems: &'a mut Problems,
}

impl Builder<'_> {
    /// `None` when reading cannot go on.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), span);
                self.scalar(&text, style, span);
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), span);
                self.open(Frame::List { span, items: Vec::new() }, span)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_extras(anchor, tag.is_some(), span);
                self.open(Frame::Map { span, entries: Vec::new(), places: HashMap::new(), key: None }, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.stack.pop()? {
                    Frame::List { span: start, items } => {
                        Node { span: join(start, span), data: Data::List(items) }
                    }
                    Frame::Map { span: start, entries, .. } => {
                        Node { span: join(start, span), data: Data::Map(entries) }
                    }
                };
                self.value(node);
            }
            Event::Alias(_) => {
                self.refuse_extras(1, false, span);
                self.scalar("", ScalarStyle::Plain, span);
            }
            _ => {}
        }
        Some(())
    }

    fn refuse_extras(&mut self, anchor: usize, tag: bool, span: Span) {
        if anchor != 0 {
            self.broken = true;
            let problem = Problem::new(
                span,
                "anchors (`&name`) and aliases (`*name`) are not part of the pipeline language",
            );
            self.problems.push(problem.hint("put the value under `vars:` and write `${vars.name}` where it is needed; quote text that starts with `*` or `&`"));
        }
        if tag {
            self.broken = true;
            let problem = Problem::new(span, "tags (`!name`) are not part of the pipeline language");
            self.problems.push(problem.hint("remove the tag; quote text that starts with `!`"));
        }
    }

    fn open(&mut self, frame: Frame, span: Span) -> Option<()> {
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            let problem = Problem::new(span, "a key must be plain text, not a list or a map");
            self.problems
                .push(problem.hint("if this is `${...}` or a reference with brackets, put it in quotes"));
            return None;
        }
        if self.stack.len() == DEEPEST {
            self.problems.push(too_deep(span));
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
                self.problems.push(
                    Problem::new(span, format!("`{text}`: {bad}"))
                        .hint("put it in quotes if it is meant as text"),
                );
                // Stands for the number, so that nobody complains of its type as well.
                Scalar::Int(0)
            }),
            _ => Scalar::Text(text.to_owned()),
        };
        self.value(Node { span, data: Data::Scalar(scalar) });
    }

    fn key(&mut self, text: &str, style: ScalarStyle, span: Span) {
        let Some(Frame::Map { key, entries, places, .. }) = self.stack.last_mut() else { return };
        if entries.len() == FEW_KEYS && places.is_empty() {
            places.extend(entries.iter().map(|entry| (entry.key.clone(), entry.key_span)));
        }
        let first = match places.is_empty() {
            true => entries.iter().find(|entry| entry.key == text).map(|entry| entry.key_span),
            false => places.get(text).copied(),
        };
        let mut ignored = false;
        if text == "<<" && style == ScalarStyle::Plain {
            ignored = true;
            let problem = Problem::new(span, "merge keys (`<<`) are not part of the pipeline language");
            self.problems.push(problem.hint("use `extends:` for parts of a pipeline, or `vars:` for values"));
        } else if text.is_empty() {
            ignored = true;
            self.problems.push(Problem::new(span, "a key is missing before the `:`"));
        } else if let Some(first) = first {
            ignored = true;
            let problem = Problem::new(span, format!("the key `{text}` is given twice"));
            self.problems
                .push(problem.earlier("first given at", first).hint("remove or rename one of the two"));
        }
        *key = Some(Key { text: text.to_owned(), span, ignored });
    }

    fn value(&mut self, mut node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, places, key, .. }) => {
                let Some(Key { text, span, ignored }) = key.take() else { return };
                // A value that is not there is best shown by its key.
                if node.span.is_empty() && node.is_null() {
                    node.span = span;
                }
                if !ignored {
                    if !places.is_empty() {
                        places.insert(text.clone(), span);
                    }
                    entries.push(Entry { key: text, key_span: span, value: node });
                }
            }
        }
    }
}

fn join(start: Span, end: Span) -> Span {
    Span { end: end.end.max(start.end), ..start }
}

fn too_deep(span: Span) -> Problem {
    Problem::new(span, format!("lists and maps are nested more than {DEEPEST} deep"))
}

/// The scanner's words, with the advice that most often helps.
fn syntax_problem(error: &ScanError, text: &str, file: FileId) -> Problem {
    let marker = error.marker();
    let mut position = Position { line: marker.line().max(1), column: marker.col() + 1 };
    // What is missing at the end is best shown behind the last thing that is there.
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
    Problem::new(span, format!("this is not valid YAML: {info}")).hint(hint)
}

/// Whether the first occurrence of `what` stands behind an opening quote.
fn quoted(line: &str, what: &str) -> bool {
    let before = line.split(what).next().unwrap_or_default();
    before.matches('"').count() % 2 == 1 || before.matches('\'').count() % 2 == 1
}

/// `eval[*]` without quotes, inside a flow map.
fn unquoted_reference(line: &str) -> bool {
    let in_flow = line.contains('{');
    let named = |(at, _): (usize, &str)| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    in_flow && line.match_indices('[').any(named) && !quoted(line, "[")
}
