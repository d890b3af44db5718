//! Reads a pipeline file and the files that it extends, and merges them.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::pipeline_file::STAGE_SETTINGS;
use super::source_text::{Position, SourceTexts, Span};
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{YamlData, YamlEntry, YamlNode, parse};
use pipe_core::builtin_part::BuiltinPart;
use pipe_core::suggest;

/// The largest accepted file, in bytes.
pub(super) const LARGEST: usize = 16 << 20;
/// How many files may extend each other in a chain.
const LONGEST_CHAIN: usize = 16;

/// Reads the bytes of a file.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// What a path under `extends` begins with if it names a built-in part.
const BUILTIN: &str = "builtin/";

/// Reads pipeline files.
pub(super) struct FileReader<'a> {
    pub read: ReadFile<'a>,
    pub parts: &'a [BuiltinPart],
    pub sources: &'a mut SourceTexts,
    pub issues: &'a mut SpecIssues,
}

impl FileReader<'_> {
    /// Returns the file merged over everything that it extends. `None` if a file cannot be used; then issues were
    /// reported.
    pub(super) fn read(&mut self, file: &Path) -> Option<YamlNode> {
        match (self.read)(file) {
            Ok(bytes) => self.read_bytes(file, bytes, &mut Vec::new()),
            Err(error) => {
                let id = self.sources.add(file, String::new());
                let issue = SpecIssue::new(Span::whole(id), format!("cannot read this file: {error}"));
                let hint = || match suggest::similar_file(file, &[Path::new("pipelines")], &["yaml", "yml"]) {
                    Some(similar) => format!("did you mean `{}`?", similar.display()),
                    None => {
                        "name an existing pipeline, or let `pipe init` write one to start from".to_owned()
                    }
                };
                let missing = error.kind() == io::ErrorKind::NotFound;
                self.issues.push(issue.maybe_hint(missing.then(hint)));
                None
            }
        }
    }

    fn read_bytes(&mut self, file: &Path, bytes: Vec<u8>, chain: &mut Vec<PathBuf>) -> Option<YamlNode> {
        let node = self.tree(file, bytes)?;
        self.extended(file, node, chain)
    }

    /// Returns the file merged over everything that it extends.
    fn extended(&mut self, file: &Path, mut node: YamlNode, chain: &mut Vec<PathBuf>) -> Option<YamlNode> {
        let YamlData::Map(entries) = &mut node.data else { return None };
        let Some(at) = entries.iter().position(|entry| entry.key == "extends") else { return Some(node) };
        let extends = entries.remove(at).value;
        chain.push(normal(file));
        let mut complete = true;
        let mut merged: Option<YamlNode> = None;
        for (base, span) in self.bases(&extends)? {
            let base = match base.strip_prefix(BUILTIN) {
                Some(name) => self.part(name, span, chain),
                None => self.base(&file.parent().unwrap_or(Path::new("")).join(base), span, chain),
            };
            match base {
                Some(mut base) => {
                    // The copies that another pipeline publishes are of its own results.
                    if let YamlData::Map(entries) = &mut base.data {
                        entries.retain(|entry| entry.key != "published");
                    }
                    merged = Some(match merged {
                        Some(below) => overlay(below, base, MergeLevel::File),
                        None => base,
                    });
                }
                None => complete = false,
            }
        }
        chain.pop();
        complete.then(|| match merged {
            Some(below) => overlay(below, node, MergeLevel::File),
            None => node,
        })
    }

    fn base(&mut self, path: &Path, span: Span, chain: &mut Vec<PathBuf>) -> Option<YamlNode> {
        let path = normal(path);
        let issue = if let Some(start) = chain.iter().position(|file| *file == path) {
            let members = chain[start..].iter().chain([&path]);
            let members: Vec<_> = members.map(|file| file.display().to_string()).collect();
            SpecIssue::new(span, format!("files extend each other in a circle: {}", members.join(" -> ")))
        } else if chain.len() >= LONGEST_CHAIN {
            SpecIssue::new(span, format!("files extend each other more than {LONGEST_CHAIN} deep"))
        } else {
            match (self.read)(&path) {
                Ok(bytes) => return self.read_bytes(&path, bytes, chain),
                Err(error) => {
                    let hint = self.misspelt_part(&path).or_else(|| {
                        let similar = suggest::similar_file(&path, &[], &["yaml", "yml"])?;
                        Some(format!("did you mean `{}`?", similar.display()))
                    });
                    let relative = || "`extends` is relative to the file that contains it".to_owned();
                    SpecIssue::new(span, format!("cannot read `{}`: {error}", path.display()))
                        .hint(hint.unwrap_or_else(relative))
                }
            }
        };
        self.issues.push(issue);
        None
    }

    /// Returns a hint for a missing file that looks like a built-in part: `builtn/recipe`.
    fn misspelt_part(&self, path: &Path) -> Option<String> {
        let name = path.file_name()?.to_str()?;
        let directory = path.parent()?.file_name()?.to_str()?;
        let part = self.parts.iter().find(|part| part.name == name)?;
        suggest::closest(directory, [BUILTIN.trim_end_matches('/')])?;
        Some(format!("did you mean `{BUILTIN}{}`?", part.name))
    }

    fn part(&mut self, name: &str, span: Span, chain: &mut Vec<PathBuf>) -> Option<YamlNode> {
        let Some(part) = self.parts.iter().find(|part| part.name == name) else {
            let names: Vec<&str> = self.parts.iter().map(|part| part.name).collect();
            let issue = SpecIssue::new(span, format!("there is no built-in part `{name}`"));
            let hint = suggest::did_you_mean(name, "the built-in parts are", names);
            self.issues.push(issue.maybe_hint(hint));
            return None;
        };
        let path = format!("{BUILTIN}{name}");
        let id = self.sources.add_builtin(&path, part.text.to_owned());
        let node = parse(part.text, id, self.issues)?;
        self.extended(Path::new(&path), node, chain)
    }

    fn bases(&mut self, extends: &YamlNode) -> Option<Vec<(String, Span)>> {
        let items = match &extends.data {
            YamlData::List(items) => items.as_slice(),
            _ => std::slice::from_ref(extends),
        };
        let bases: Option<Vec<_>> = items
            .iter()
            .map(|item| {
                item.as_text().filter(|text| !text.is_empty()).map(|text| (text.to_owned(), item.span))
            })
            .collect();
        if bases.is_none() {
            let issue =
                SpecIssue::new(extends.span, "`extends` expects the path of a file, or a list of them");
            self.issues.push(issue.hint("for example `extends: base.yaml`"));
        }
        bases
    }

    fn tree(&mut self, file: &Path, bytes: Vec<u8>) -> Option<YamlNode> {
        if bytes.len() > LARGEST {
            let id = self.sources.add(file, String::new());
            let message =
                format!("this file is too large for a pipeline; the limit is {} MiB", LARGEST >> 20);
            self.issues.push(SpecIssue::new(Span::whole(id), message));
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
                let issue = SpecIssue::new(Span { file: id, start, end }, "this file is not UTF-8 text");
                self.issues.push(issue.hint("save it in the encoding UTF-8"));
                return None;
            }
        };
        let id = self.sources.add(file, text);
        let node = parse(&self.sources.get(id).text, id, self.issues)?;
        if node.is_map() {
            return Some(node);
        }
        let issue = if node.is_null() {
            SpecIssue::new(Span::whole(id), "this file is empty")
        } else {
            SpecIssue::new(node.span, "a pipeline is a map, but this is something else")
        };
        self.issues.push(issue.hint("a pipeline has the keys `name:` and `stages:`"));
        None
    }
}

/// Removes `.` and, where possible, `..`.
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

/// The level of a pipeline file at which two trees are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeLevel {
    File,
    Env,
    Stages,
    Stage,
    Other,
}

impl MergeLevel {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::File, "env") => Self::Env,
            (Self::File, "stages") => Self::Stages,
            (Self::Stages, _) => Self::Stage,
            _ => Self::Other,
        }
    }
}

/// Merges two trees. Maps are merged key by key; any other value replaces the old one. Null removes a key, except under
/// `env`, where it means that there is no default.
fn overlay(below: YamlNode, above: YamlNode, level: MergeLevel) -> YamlNode {
    let (mut lower, upper) = match (below.data, above.data) {
        (YamlData::Map(lower), YamlData::Map(upper)) => (lower, upper),
        (_, data) => return YamlNode { span: above.span, data },
    };
    let is_kind = |entry: &YamlEntry| !STAGE_SETTINGS.contains(&entry.key.as_str());
    if level == MergeLevel::Stage && upper.iter().any(|entry| is_kind(entry) && !entry.value.is_null()) {
        // Another kind replaces the old one, because their parameters have nothing in common.
        lower.retain(|entry| !is_kind(entry) || upper.iter().any(|new| new.key == entry.key));
    }
    let mut places: HashMap<String, usize> =
        lower.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
    let mut merged: Vec<Option<YamlEntry>> = lower.into_iter().map(Some).collect();
    for entry in upper {
        let Some(at) = places.remove(&entry.key) else {
            merged.push(Some(entry));
            continue;
        };
        let old = merged[at].take();
        if entry.value.is_null() && level != MergeLevel::Env {
            continue;
        }
        let Some(old) = old else { continue };
        let value = overlay(old.value, entry.value, level.below(&entry.key));
        merged[at] = Some(YamlEntry { value, ..entry });
    }
    YamlNode { span: above.span, data: YamlData::Map(merged.into_iter().flatten().collect()) }
}
