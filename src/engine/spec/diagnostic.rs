//! Diagnostics of a pipeline file, as data and as annotated source.
//!
//! Rendered by hand rather than with `annotate-snippets` because one label per diagnostic is all that is needed, and
//! control characters and long lines have to be handled either way.

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use unicode_width::UnicodeWidthChar;

use pipe_core::paint::Paint;

use super::source_text::{SourceText, SourceTexts, Span};

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosticSeverity {
    Error,
}

/// One issue of a pipeline file: what is wrong, where, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: DiagnosticSeverity,
    pub message: String,
    pub file: PathBuf,
    /// Counted from 1; 0 for the file as a whole.
    #[serde(serialize_with = "null_for_zero")]
    pub line: usize,
    /// Counted from 1, in characters.
    #[serde(serialize_with = "null_for_zero")]
    pub column: usize,
    pub notes: Vec<String>,
    pub hint: Option<String>,
    #[serde(skip)]
    excerpt: SourceExcerpt,
}

fn null_for_zero<S: Serializer>(number: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*number).filter(|number| *number > 0).serialize(serializer)
}

/// A place in a pipeline file, for issues that are only found after loading. A diagnostic is built only if there is one.
#[derive(Debug, Clone)]
pub struct SpecLocation {
    sources: Arc<SourceTexts>,
    span: Span,
}

impl SpecLocation {
    pub(super) fn new(sources: &Arc<SourceTexts>, span: Span) -> Self {
        Self { sources: Arc::clone(sources), span }
    }

    /// Returns the file and the line: `pipelines/x.yaml:5`.
    pub fn line(&self) -> String {
        format!("{}:{}", self.sources.path(self.span.file).display(), self.span.start.line)
    }

    /// Creates a diagnostic at this place.
    pub fn diagnostic(&self, message: impl Into<String>, hint: impl Into<String>) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(self.sources.get(self.span.file), self.span, message.into());
        diagnostic.hint = Some(hint.into());
        diagnostic
    }
}

/// A line of the source, ready for a terminal, and the part of it to mark.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SourceExcerpt {
    text: String,
    /// In terminal columns.
    indent: usize,
    width: usize,
}

/// Every issue of a pipeline, in the order of the source. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

const TAB: &str = "    ";
/// Longer lines are cut on both sides of the marked part.
const LONGEST_EXCERPT: usize = 120;

impl SourceExcerpt {
    /// Marks the characters `from..to` of a line, both counted from 0.
    fn new(line: &str, from: usize, to: usize) -> Self {
        let fits = line.chars().nth(LONGEST_EXCERPT).is_none();
        let skipped = if fits { 0 } else { from.saturating_sub(LONGEST_EXCERPT / 2) };
        let mut excerpt = Self { text: String::new(), indent: 0, width: 0 };
        if skipped > 0 {
            excerpt.text.push('…');
            excerpt.indent = 1;
        }
        let mut characters = line.chars().enumerate().skip(skipped);
        for (position, character) in characters.by_ref().take(LONGEST_EXCERPT) {
            let width = match character {
                '\t' => {
                    excerpt.text.push_str(TAB);
                    TAB.len()
                }
                visible => {
                    let visible = if visible.width().is_none() { '\u{fffd}' } else { visible };
                    excerpt.text.push(visible);
                    visible.width().unwrap_or(1)
                }
            };
            if position < from {
                excerpt.indent += width;
            } else if position < to {
                excerpt.width += width;
            }
        }
        if characters.next().is_some() {
            excerpt.text.push('…');
        }
        excerpt.width = excerpt.width.max(1);
        excerpt
    }
}

impl Diagnostic {
    pub(super) fn new(source: &SourceText, span: Span, message: String) -> Self {
        let mut excerpt = SourceExcerpt::default();
        if span.start.line > 0 {
            let line = source.line(span.start.line);
            let to = if span.end.line == span.start.line {
                span.end.column - 1
            } else {
                line.trim_end().chars().count()
            };
            let from = span.start.column - 1;
            // The parser counts the blanks behind a closing bracket as part of it.
            let marked: String = line.chars().take(to).skip(from).collect();
            excerpt = SourceExcerpt::new(line, from, from + marked.trim_end().chars().count());
        }
        Self {
            severity: DiagnosticSeverity::Error,
            message,
            file: source.path.clone(),
            line: span.start.line,
            column: span.start.column,
            notes: Vec::new(),
            hint: None,
            excerpt,
        }
    }

    /// Renders the diagnostic with its line of source, as compilers do. Ends with a line break.
    pub fn render(&self, color: bool) -> String {
        let paint = Paint(color);
        let mut out = String::new();
        let number = if self.line > 0 { self.line.to_string() } else { String::new() };
        let gutter = " ".repeat(number.len().max(1));
        let message = paint.bold(&printable(&self.message));
        let _ = writeln!(out, "{}{}", paint.red("error: "), message);
        let file = printable(&self.file.display().to_string());
        if self.line == 0 {
            let _ = writeln!(out, "{gutter}{} {file}", paint.blue("-->"));
        } else {
            let bar = paint.blue("|");
            let _ = writeln!(out, "{gutter}{} {file}:{}:{}", paint.blue("-->"), self.line, self.column);
            let _ = writeln!(out, "{gutter} {bar}");
            let _ = writeln!(out, "{} {bar} {}", paint.blue(&number), self.excerpt.text.trim_end());
            let marker = "^".repeat(self.excerpt.width);
            let indent = " ".repeat(self.excerpt.indent);
            let _ = writeln!(out, "{gutter} {bar} {indent}{}", paint.red(&marker));
        }
        for note in &self.notes {
            let _ = writeln!(out, "{gutter} {} note: {}", paint.blue("="), printable(note));
        }
        if let Some(hint) = &self.hint {
            let help = paint.bold("help:");
            let _ = writeln!(out, "{gutter} {} {help} {}", paint.blue("="), printable(hint));
        }
        out
    }
}

impl Diagnostics {
    /// Returns `None` if the list is empty.
    pub fn new(list: Vec<Diagnostic>) -> Option<Self> {
        (!list.is_empty()).then_some(Self(list))
    }

    /// Iterates over the diagnostics in the order of the source.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Renders all diagnostics with an empty line between them.
    pub fn render(&self, color: bool) -> String {
        let rendered: Vec<_> = self.0.iter().map(|diagnostic| diagnostic.render(color)).collect();
        rendered.join("\n")
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Replaces control characters: text from a file must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source_text::Position;
    use super::*;

    fn shown(line: &str, from: usize, to: usize) -> String {
        let mut sources = SourceTexts::default();
        let file = sources.add("x.yaml", line.to_owned());
        let position = |column| Position { line: 1, column };
        let span = Span { file, start: position(from), end: position(to) };
        Diagnostic::new(sources.get(file), span, "wrong".to_owned()).render(false)
    }

    #[test]
    fn the_marker_is_aligned_after_tabs_and_wide_characters() {
        insta::assert_snapshot!(shown("\tname: 日本 x", 11, 12), @r"
        error: wrong
         --> x.yaml:1:11
          |
        1 |     name: 日本 x
          |                ^
        ");
    }

    #[test]
    fn a_long_line_is_cut_around_the_marker() {
        let line = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let text = shown(&line, 501, 505);
        assert!(text.lines().all(|line| line.chars().count() < 140), "{text}");
        let [source, marker] = [3, 4].map(|n| text.lines().nth(n).unwrap().to_owned());
        let at = marker.find("^^^^").unwrap();
        assert_eq!(source.chars().skip(at).take(4).collect::<String>(), "HERE");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        assert!(!shown("a: \u{1b}[31mred", 4, 6).contains('\u{1b}'));
    }

    #[test]
    fn colors_are_added_only_on_request() {
        let mut sources = SourceTexts::default();
        let file = sources.add("x.yaml", String::new());
        let diagnostic = Diagnostic::new(sources.get(file), Span::whole(file), "wrong".to_owned());
        assert!(diagnostic.render(true).contains("\x1b[1;31m"));
        assert_eq!(diagnostic.render(false), "error: wrong\n --> x.yaml\n");
    }
}
