//! Problems while they are being collected: located by spans, turned into [`Diagnostics`] at the end.

use std::collections::HashSet;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::source::{Sources, Span};

/// More than this helps nobody; the rest is counted.
const MOST: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct Problem {
    span: Span,
    message: String,
    hint: Option<String>,
    notes: Vec<String>,
    earlier: Option<(&'static str, Span)>,
}

impl Problem {
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

    /// Points at another place that has to do with it: "first given at".
    pub(super) fn earlier(mut self, what: &'static str, span: Span) -> Self {
        self.earlier = Some((what, span));
        self
    }
}

/// Collects problems. What is said twice of the same place, as by two instances of one stage, is
/// kept once.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    seen: HashSet<(Span, String)>,
    more: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        if !self.seen.insert((problem.span, problem.message.clone())) {
            return;
        }
        if self.list.len() < MOST {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// [`Self::push`] at the end of a function that then has nothing to give.
    pub(super) fn refuse<T>(&mut self, problem: Problem) -> Option<T> {
        self.push(problem);
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `None` if nothing was collected.
    pub(super) fn into_diagnostics(mut self, sources: &Sources) -> Option<Diagnostics> {
        self.list.sort_by_key(|problem| problem.span);
        let last = self.list.len().saturating_sub(1);
        let diagnostics = self.list.into_iter().enumerate().map(|(position, problem)| {
            let mut diagnostic =
                Diagnostic::new(sources.get(problem.span.file), problem.span, problem.message);
            diagnostic.notes = problem.notes;
            if let Some((what, span)) = problem.earlier {
                let (file, start) = (sources.path(span.file).display(), span.start);
                diagnostic.notes.push(format!("{what} {file}:{}:{}", start.line, start.column));
            }
            if position == last && self.more > 0 {
                diagnostic.notes.push(format!("{} more problems are not shown", self.more));
            }
            diagnostic.hint = problem.hint;
            diagnostic
        });
        Diagnostics::new(diagnostics.collect())
    }
}
