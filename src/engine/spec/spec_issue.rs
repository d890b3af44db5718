//! Issues of a pipeline file while they are collected: located by spans, turned into [`Diagnostics`] at the end.

use std::cell::Cell;
use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::source_text::{SourceTexts, Span};
use pipe_core::suggest::did_you_mean;

/// How many issues are reported; further ones are only counted.
const MAX_REPORTED: usize = 100;

/// Something that is wrong in a pipeline file.
#[derive(Debug, Clone)]
pub(super) struct SpecIssue {
    span: Span,
    message: String,
    hint: Option<String>,
    notes: Vec<String>,
    earlier: Option<(&'static str, Span)>,
}

impl SpecIssue {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), hint: None, notes: Vec::new(), earlier: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = self.hint.or(hint);
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a note that points at a related place, such as "first given at".
    pub(super) fn earlier(mut self, what: &'static str, span: Span) -> Self {
        self.earlier = Some((what, span));
        self
    }
}

/// Collects issues. The same message for the same place, as from two instances of one stage, is kept once.
#[derive(Debug, Default)]
pub(super) struct SpecIssues {
    list: Vec<SpecIssue>,
    seen: HashSet<(Span, String)>,
    more: usize,
    pub suggestions: Suggestions,
}

/// Suggestions for the first few misspelt names only: finding one compares the word with every candidate, so that
/// thousands of misspelt names would take minutes.
#[derive(Debug, Default)]
pub(super) struct Suggestions(Cell<usize>);

impl Suggestions {
    const MOST: usize = 20;

    /// Returns suggestions that are used up, for searches whose errors nobody sees.
    pub(super) fn none() -> Self {
        Self(Cell::new(Self::MOST))
    }

    /// Returns whether one more hint that takes a search may be computed.
    pub(super) fn allowed(&self) -> bool {
        self.0.replace(self.0.get() + 1) < Self::MOST
    }

    /// Returns [`did_you_mean`], or `None` after the first few calls.
    pub(super) fn did_you_mean<'a>(
        &self,
        word: &str,
        what: &str,
        candidates: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Option<String> {
        if self.allowed() { did_you_mean(word, what, candidates) } else { None }
    }
}

impl SpecIssues {
    pub(super) fn push(&mut self, issue: SpecIssue) {
        if !self.seen.insert((issue.span, issue.message.clone())) {
            return;
        }
        if self.list.len() < MAX_REPORTED {
            self.list.push(issue);
        } else {
            self.more += 1;
        }
    }

    /// Adds an issue and returns `None`, for functions that have no result after it.
    pub(super) fn reject<T>(&mut self, issue: SpecIssue) -> Option<T> {
        self.push(issue);
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the diagnostics in the order of the source. `None` if nothing was collected.
    pub(super) fn into_diagnostics(mut self, sources: &SourceTexts) -> Option<Diagnostics> {
        self.list.sort_by_key(|issue| issue.span);
        let last = self.list.len().saturating_sub(1);
        let diagnostics = self.list.into_iter().enumerate().map(|(position, issue)| {
            let mut diagnostic = Diagnostic::new(sources.get(issue.span.file), issue.span, issue.message);
            diagnostic.notes = issue.notes;
            if let Some((what, span)) = issue.earlier {
                let (file, start) = (sources.path(span.file).display(), span.start);
                diagnostic.notes.push(format!("{what} {file}:{}:{}", start.line, start.column));
            }
            if position == last && self.more > 0 {
                diagnostic.notes.push(format!("{} more issues are not shown", self.more));
            }
            diagnostic.hint = issue.hint;
            diagnostic
        });
        Diagnostics::new(diagnostics.collect())
    }
}
