//! The texts that a pipeline is read from, and positions in them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The index of a text in [`SourceTexts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileId(u32);

/// A line and a column, both counted from 1; the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

/// A range of one text; `end` is the first position after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Span {
    pub file: FileId,
    pub start: Position,
    pub end: Position,
}

impl Span {
    /// Returns the span of a text as a whole: line 0.
    pub(super) fn whole(file: FileId) -> Self {
        let nowhere = Position { line: 0, column: 0 };
        Self { file, start: nowhere, end: nowhere }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// One text: a file, a built-in part, or a value from the command line.
#[derive(Debug)]
pub(super) struct SourceText {
    pub path: PathBuf,
    /// True for a text that is part of the program.
    is_builtin: bool,
    pub text: String,
    /// Where each line starts; found when the first line is asked for, because most texts have no issues.
    line_starts: OnceLock<Vec<usize>>,
}

impl SourceText {
    fn new(path: PathBuf, text: String) -> Self {
        Self { path, text, is_builtin: false, line_starts: OnceLock::new() }
    }

    /// Returns a line, counted from 1, without its line break.
    pub(super) fn line(&self, number: usize) -> &str {
        let starts = self.line_starts.get_or_init(|| line_starts(&self.text));
        let start = number.checked_sub(1).and_then(|line| starts.get(line));
        let rest = start.map_or("", |&start| &self.text[start..]);
        rest.split(['\n', '\r']).next().unwrap_or_default()
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends_line =
        |at: usize| bytes[at] == b'\n' || (bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    std::iter::once(0).chain((0..bytes.len()).filter(|&at| ends_line(at)).map(|at| at + 1)).collect()
}

/// All texts that a pipeline was read from.
#[derive(Debug, Default)]
pub(super) struct SourceTexts {
    sources: Vec<SourceText>,
}

impl SourceTexts {
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, text: String) -> FileId {
        self.sources.push(SourceText::new(path.into(), text));
        FileId(self.sources.len() as u32 - 1)
    }

    /// Adds a built-in part, which is shown like a file in messages but is none.
    pub(super) fn add_builtin(&mut self, name: &str, text: String) -> FileId {
        let id = self.add(name, text);
        self.sources[id.0 as usize].is_builtin = true;
        id
    }

    pub(super) fn get(&self, file: FileId) -> &SourceText {
        &self.sources[file.0 as usize]
    }

    /// Returns the paths of all files.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.sources.iter().filter(|source| !source.is_builtin).map(|source| source.path.clone()).collect()
    }

    pub(super) fn path(&self, file: FileId) -> &Path {
        &self.get(file).path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_every_kind_of_line_break() {
        let source = SourceText::new("x".into(), "a\r\nb\rc\n\nd".to_owned());
        let lines: Vec<_> = (1..=6).map(|number| source.line(number)).collect();
        assert_eq!(lines, ["a", "b", "c", "", "d", ""]);
    }
}
