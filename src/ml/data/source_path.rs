//! Paths of user files in parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A path relative to the project directory. Serialises as null, because the path of a file must not be part of a key; its
/// content is, as an input.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SourcePath(pub String);

impl Serialize for SourcePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
