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
    /// They do: the paper's protocol, and the released code's.
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
