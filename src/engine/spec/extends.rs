//! Reads a pipeline file and the files that it extends, and lays the one over the others.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::file::STAGE_SETTINGS;
use super::node::{Data, Entry, Node, parse};
use super::problem::{Problem, Problems};
use super::source::{Position, Sources, Span};

/// Larger files are not pipelines.
pub(super) const LARGEST: usize = 16 << 20;
/// Files that extend files that extend files.
const LONGEST_CHAIN: usize = 16;

pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

pub(super) struct FileReader<'a> {
    pub read: ReadFile<'a>,
    pub sources: &'a mut Sources,
    pub problems: &'a mut Problems,
}

impl FileReader<'_> {
    /// The file with everything that it extends under it. `None` if a file has no content to
    /// work with; then the problems say why.
    pub(super) fn read(&mut self, file: &Path) -> Option<Node> {
        match (self.read)(file) {
            Ok(bytes) => self.read_bytes(file, bytes, &mut Vec::new()),
            Err(error) => {
                let id = self.sources.add(file, String::new());
                let problem = Problem::new(Span::whole(id), format!("cannot read this file: {error}"));
                let hint = "name a pipeline that is there, or let `pipe init` write one to start from";
                let missing = error.kind() == io::ErrorKind::NotFound;
                self.problems.push(problem.maybe_hint(missing.then(|| hint.to_owned())));
                None
            }
        }
    }

    fn read_bytes(&mut self, file: &Path, bytes: Vec<u8>, chain: &mut Vec<PathBuf>) -> Option<Node> {
        let mut node = self.tree(file, bytes)?;
        let Data::Map(entries) = &mut node.data else { return None };
        let Some(at) = entries.iter().position(|entry| entry.key == "extends") else { return Some(node) };
        let extends = entries.remove(at).value;
        chain.push(normal(file));
        let mut complete = true;
        let mut merged: Option<Node> = None;
        for (base, span) in self.bases(&extends)? {
            match self.base(&file.parent().unwrap_or(Path::new("")).join(base), span, chain) {
                Some(base) => {
                    merged = Some(match merged {
                        Some(below) => overlay(below, base, Level::File),
                        None => base,
                    })
                }
                None => complete = false,
            }
        }
        chain.pop();
        complete.then(|| match merged {
            Some(below) => overlay(below, node, Level::File),
            None => node,
        })
    }

    fn base(&mut self, path: &Path, span: Span, chain: &mut Vec<PathBuf>) -> Option<Node> {
        let path = normal(path);
        let problem = if let Some(start) = chain.iter().position(|file| *file == path) {
            let members = chain[start..].iter().chain([&path]);
            let members: Vec<_> = members.map(|file| file.display().to_string()).collect();
            Problem::new(span, format!("files extend each other in a circle: {}", members.join(" -> ")))
        } else if chain.len() >= LONGEST_CHAIN {
            Problem::new(span, format!("files extend each other more than {LONGEST_CHAIN} deep"))
        } else {
            match (self.read)(&path) {
                Ok(bytes) => return self.read_bytes(&path, bytes, chain),
                Err(error) => Problem::new(span, format!("cannot read `{}`: {error}", path.display()))
                    .hint("`extends` is relative to the file that it stands in"),
            }
        };
        self.problems.push(problem);
        None
    }

    fn bases(&mut self, extends: &Node) -> Option<Vec<(String, Span)>> {
        let items = match &extends.data {
            Data::List(items) => items.as_slice(),
            _ => std::slice::from_ref(extends),
        };
        let bases: Option<Vec<_>> = items
            .iter()
            .map(|item| {
                item.as_text().filter(|text| !text.is_empty()).map(|text| (text.to_owned(), item.span))
            })
            .collect();
        if bases.is_none() {
            let problem =
                Problem::new(extends.span, "`extends` expects the path of a file, or a list of them");
            self.problems.push(problem.hint("for example `extends: base.yaml`"));
        }
        bases
    }

    fn tree(&mut self, file: &Path, bytes: Vec<u8>) -> Option<Node> {
        if bytes.len() > LARGEST {
            let id = self.sources.add(file, String::new());
            let message =
                format!("this file is too large for a pipeline; the limit is {} MiB", LARGEST >> 20);
            self.problems.push(Problem::new(Span::whole(id), message));
            return None;
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
                let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
                let start = Position { line, column };
                let end = Position { line, column: column + 1 };
                let id = self.sources.add(file, String::from_utf8_lossy(error.as_bytes()).into_owned());
                let problem = Problem::new(Span { file: id, start, end }, "this file is not UTF-8 text");
                self.problems.push(problem.hint("save it in the encoding UTF-8"));
                return None;
            }
        };
        let id = self.sources.add(file, text);
        let node = parse(&self.sources.get(id).text, id, self.problems)?;
        if node.is_map() {
            return Some(node);
        }
        let problem = if node.is_null() {
            Problem::new(Span::whole(id), "this file is empty")
        } else {
            Problem::new(node.span, "a pipeline is a map of keys, but this is something else")
        };
        self.problems.push(problem.hint("a pipeline starts with `name: ...` and goes on with `stages:`"));
        None
    }
}

/// Without `.` and, where possible, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Where in a pipeline two trees meet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    File,
    Env,
    Stages,
    Stage,
    Other,
}

impl Level {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::File, "env") => Self::Env,
            (Self::File, "stages") => Self::Stages,
            (Self::Stages, _) => Self::Stage,
            _ => Self::Other,
        }
    }
}

/// Maps are merged key by key; anything else replaces what was there. Null removes a key, except
/// under `env`, where it says that there is no default.
fn overlay(below: Node, above: Node, level: Level) -> Node {
    let (mut lower, upper) = match (below.data, above.data) {
        (Data::Map(lower), Data::Map(upper)) => (lower, upper),
        (_, data) => return Node { span: above.span, data },
    };
    let is_kind = |entry: &Entry| !STAGE_SETTINGS.contains(&entry.key.as_str());
    if level == Level::Stage && upper.iter().any(|entry| is_kind(entry) && !entry.value.is_null()) {
        // Another kind takes the place of the old one; their parameters have nothing in common.
        lower.retain(|entry| !is_kind(entry) || upper.iter().any(|new| new.key == entry.key));
    }
    let mut places: HashMap<String, usize> =
        lower.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
    let mut merged: Vec<Option<Entry>> = lower.into_iter().map(Some).collect();
    for entry in upper {
        let Some(at) = places.remove(&entry.key) else {
            merged.push(Some(entry));
            continue;
        };
        let old = merged[at].take();
        if entry.value.is_null() && level != Level::Env {
            continue;
        }
        let Some(old) = old else { continue };
        let value = overlay(old.value, entry.value, level.below(&entry.key));
        merged[at] = Some(Entry { value, ..entry });
    }
    Node { span: above.span, data: Data::Map(merged.into_iter().flatten().collect()) }
}
