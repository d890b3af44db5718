//! References between stages as a user writes them: `data`, `eval[*]`,
//! `train[variant=adaptive].model`, `train[adaptive,seed=1]`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A reference that has been read but not yet resolved against a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct StageRef {
    #[schemars(with = "String")]
    text: String,
}

impl StageRef {
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for StageRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned() })
    }
}

impl fmt::Display for StageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Serialises as null: what a stage is called, or what it calls its inputs' stages, must not
/// reach a key. The content of the referenced artifact does, as an input.
impl Serialize for StageRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for StageRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
