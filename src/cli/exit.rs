//! Exit codes and the error that a command ends with. The codes are documented in `docs/commands.md`; scripts rely on
//! them.

use std::process::ExitCode;

use serde_json::{Value, json};

use pipe_engine::runner::RunError;
use pipe_engine::spec::{Diagnostic, Diagnostics};
use pipe_engine::store::StoreError;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// A stage failed; for `verify`, drift.
    StageFailed = 1,
    /// The command line, a file or the environment is wrong; for `verify`, the result is undetermined.
    BadInput = 2,
    CacheDamage = 3,
    /// A run left a placed file as it was because it was edited by hand.
    KeptFiles = 4,
    /// Only with `--check`: something would run.
    Stale = 10,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that ends a command: the text to print and the exit code.
#[derive(Debug)]
pub(super) struct Failure {
    pub exit: Exit,
    /// The complete rendered text.
    pub text: String,
    /// True if the text has its own heading; otherwise it is printed after `error: `.
    pub headed: bool,
    /// The diagnostics of a pipeline file, if the error is about one.
    pub problems: Vec<Diagnostic>,
}

impl Failure {
    /// Creates an error with an exit code.
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into(), headed: false, problems: Vec::new() }
    }

    /// Creates an error with the exit code [`Exit::BadInput`].
    pub(super) fn bad_input(text: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, text)
    }

    /// Creates an error from the diagnostics of a pipeline file.
    pub(super) fn in_pipeline(diagnostics: &Diagnostics, color: bool) -> Self {
        let problems = diagnostics.iter().cloned().collect();
        Self { exit: Exit::BadInput, text: diagnostics.render(color), headed: true, problems }
    }

    /// Returns the error as `--json` prints it: one line, like the events of a run.
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

/// Damage has its own exit code.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match error {
            StoreError::Damaged { .. } => Exit::CacheDamage,
            _ => Exit::BadInput,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            other => Self::bad_input(other.to_string()),
        }
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

/// The result of a command.
pub(super) type Outcome = Result<Exit, Failure>;
