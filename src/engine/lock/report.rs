//! The findings of a verification, by severity, which determines the exit code.

use serde::Serialize;

/// The result of a check, in order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Same,
    /// There was nothing to check, and nothing depends on it.
    NotChecked,
    CannotTell,
    /// A stage reads files that it does not declare, so the other checks do not hold for it.
    Undeclared,
    Drift,
    Damage,
}

/// The check of one thing: a stage instance, a placed file, the lock itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `stage`, `inputs`, `file`, `cache`, `lock`.
    pub what: &'static str,
    /// The instance's name or the file's path.
    pub name: String,
    pub outcome: CheckOutcome,
    /// Says what is wrong; empty if nothing is.
    pub message: String,
    /// Further lines, such as the difference between two texts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Check {
    /// A check with any outcome.
    pub fn new(what: &'static str, name: &str, outcome: CheckOutcome, message: impl Into<String>) -> Self {
        Self { what, name: name.to_owned(), outcome, message: message.into(), detail: String::new() }
    }

    /// A check that found no difference.
    pub fn same(what: &'static str, name: &str) -> Self {
        Self::new(what, name, CheckOutcome::Same, "")
    }

    /// A check that found a difference.
    pub fn drift(what: &'static str, name: &str, message: impl Into<String>) -> Self {
        Self::new(what, name, CheckOutcome::Drift, message)
    }

    /// A check without an answer.
    pub fn cannot_tell(what: &'static str, name: &str, message: impl Into<String>) -> Self {
        Self::new(what, name, CheckOutcome::CannotTell, message)
    }

    /// Adds further lines.
    pub fn with_detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }
}

/// All checks of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    pub checks: Vec<Check>,
}

impl VerifyReport {
    /// Returns the most severe outcome.
    pub fn outcome(&self) -> CheckOutcome {
        self.checks.iter().map(|check| check.outcome).max().unwrap_or(CheckOutcome::Same)
    }

    /// Returns the number of checks with an outcome.
    pub fn count(&self, outcome: CheckOutcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}
