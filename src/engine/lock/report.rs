//! What a verification found, in an order of severity that becomes an exit code.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Same,
    /// There was nothing to look at, and nothing depends on that.
    NotChecked,
    CannotTell,
    Drift,
    Damage,
}

/// One thing that was looked at: a stage instance, a placed file, the lock itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `stage`, `file`, `cache`, `lock`.
    pub what: &'static str,
    /// The instance's name or the file's path.
    pub name: String,
    pub outcome: Outcome,
    /// A sentence that names the culprit; nothing where all is well.
    pub message: String,
    /// More lines, such as a difference between two texts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Check {
    pub fn new(what: &'static str, name: &str, outcome: Outcome, message: impl Into<String>) -> Self {
        Self { what, name: name.to_owned(), outcome, message: message.into(), detail: String::new() }
    }

    pub fn same(what: &'static str, name: &str) -> Self {
        Self::new(what, name, Outcome::Same, "")
    }

    pub fn drift(what: &'static str, name: &str, message: impl Into<String>) -> Self {
        Self::new(what, name, Outcome::Drift, message)
    }

    pub fn cannot_tell(what: &'static str, name: &str, message: impl Into<String>) -> Self {
        Self::new(what, name, Outcome::CannotTell, message)
    }

    pub fn with_detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst that was found.
    pub fn outcome(&self) -> Outcome {
        self.checks.iter().map(|check| check.outcome).max().unwrap_or(Outcome::Same)
    }

    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}
