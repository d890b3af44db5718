//! What the process's exit status means. Documented in `docs/commands.md`; scripts rely on it.

use std::process::ExitCode;

use serde_json::{Value, json};

use pipe_engine::spec::{Diagnostic, Diagnostics};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// Of `verify`: drift.
    StageFailed = 1,
    /// Of `verify`: cannot tell.
    BadInput = 2,
    CacheDamage = 3,
    /// Only with `--check`: something would run.
    Stale = 10,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error on its way to the terminal: what to say, and how to exit.
#[derive(Debug)]
pub(super) struct Failure {
    pub exit: Exit,
    /// Complete text, rendered already; printed after `error: ` unless it brings its own heading.
    pub text: String,
    pub headed: bool,
    /// What it says of places in a pipeline file.
    pub problems: Vec<Diagnostic>,
}

impl Failure {
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into(), headed: false, problems: Vec::new() }
    }

    pub(super) fn bad_input(text: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, text)
    }

    pub(super) fn in_pipeline(problems: &Diagnostics, color: bool) -> Self {
        let problems_list = problems.iter().cloned().collect();
        Self { exit: Exit::BadInput, text: problems.render(color), headed: true, problems: problems_list }
    }

    /// What `--json` prints of it, on one line, so that it fits among the events of a run.
    pub(super) fn json(&self) -> Value {
        let first = self.problems.first();
        let place = first.filter(|first| first.line > 0);
        json!({
            "event": "error",
            "code": self.exit as u8,
            "message": first.map_or(self.text.trim_end(), |first| &first.message),
            "file": first.map(|first| &first.file),
            "line": place.map(|place| place.line),
            "column": place.map(|place| place.column),
            "hint": first.and_then(|first| first.hint.as_ref()),
            "problems": self.problems,
        })
    }
}

/// A file that cannot be read or written.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::bad_input(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::bad_input(format!("{error:#}"))
    }
}

pub(super) type Outcome = Result<Exit, Failure>;
