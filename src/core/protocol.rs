//! The protocol under which rows are judged: the central distinction of every result.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How rows are judged.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Predictions do not depend on the labels of the evaluated rows.
    #[default]
    Honest,
    /// Predictions depend on the labels of the evaluated rows, as in the paper and its released code.
    Oracle,
}

impl Protocol {
    /// Returns the name as users write it: `honest` or `oracle`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Oracle => "oracle",
        }
    }

    /// Returns the protocol of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Honest, Self::Oracle].into_iter().find(|protocol| protocol.name() == name)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value that a stage reported, with the protocol under which it was measured.
///
/// The runner fails a stage that reports one name under two protocols, so a name is enough to tell values apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricValue {
    #[serde(with = "crate::float")]
    pub value: f64,
    /// `None` for a value that no protocol applies to, such as the number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

impl MetricValue {
    /// Creates a value that no protocol applies to.
    pub fn unmarked(value: f64) -> Self {
        Self { value, protocol: None }
    }

    /// Returns whether the labels of the evaluated rows entered the value.
    pub fn is_oracle(self) -> bool {
        self.protocol == Some(Protocol::Oracle)
    }

    /// Returns what to write behind the value, wherever it is shown: nothing, or ` (oracle)`.
    pub fn suffix(self) -> &'static str {
        if self.is_oracle() { " (oracle)" } else { "" }
    }
}
