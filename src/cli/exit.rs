//! What the process's exit status means. Documented in `docs/commands.md`; scripts rely on it.

use std::process::ExitCode;

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
pub struct Failure {
    pub exit: Exit,
    /// Complete text, rendered already; printed after `error: ` unless it brings its own heading.
    pub text: String,
    pub headed: bool,
}

impl Failure {
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into(), headed: false }
    }

    pub fn bad_input(text: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, text)
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

pub type Outcome = Result<Exit, Failure>;
