//! A path of the user's among parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Relative to the project directory. Serialises as null: where a file lies must not reach a key.
/// Its content does, as an input.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SourcePath(pub String);

impl Serialize for SourcePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
