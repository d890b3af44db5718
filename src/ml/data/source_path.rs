//! Paths of user files in parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A path relative to the project directory. The content of the file is part of the key of the stage; its path is not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SourcePath(pub String);

/// Serialises as null, because the path of a file must not be part of a key.
impl Serialize for SourcePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
