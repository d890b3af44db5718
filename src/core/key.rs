//! The parts of a stage key, by name, so that they can be stored with the result and compared later.
//!
//! | part | in the key | why |
//! |---|---|---|
//! | kind and its VERSION | yes | different code may give different bytes |
//! | typed parameters, with defaults | yes | the code depends on them; as types, so that `1e-4` = `0.0001` |
//! | content of each input | yes | by digest, so that a rerun of its producer with equal bytes changes nothing |
//! | axes of a fan-in's members, and their order | yes | a table prints them, in that order |
//! | allowed environment variables | yes | a command may read them |
//! | name of the stage, of its inputs' stages, of the pipeline | no | renaming must not compute anything again |
//! | paths, mtimes, host, user, number of jobs | no | they do not change the result |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, StageKey};

/// Everything that can change the result of a stage, each under the name that `pipe why` shows:
/// `kind`, `version`, `params.lr`, `inputs.data`, `inputs.from[variant=adaptive,seed=1]`, `env.HOME`.
/// Values are canonical text: JSON for parameters, hexadecimal digests for inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyParts(BTreeMap<String, String>);

/// The version of the key format. Changing it makes every cached result unusable.
const FORMAT: &str = "pipe stage key 1";

impl KeyParts {
    /// Creates key parts from names and values.
    pub fn new(parts: BTreeMap<String, String>) -> Self {
        Self(parts)
    }

    /// Returns names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a part.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the key.
    pub fn key(&self) -> StageKey {
        key_of(self.iter())
    }
}

/// Returns the key of parts that are sorted by name. Each name and value is hashed after its length, so that no two sets of parts give
/// the same bytes.
pub fn key_of<'a>(parts: impl Iterator<Item = (&'a str, &'a str)>) -> StageKey {
    let mut bytes = Vec::with_capacity(1024);
    let mut field = |text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    field(FORMAT);
    for (name, value) in parts {
        field(name);
        field(value);
    }
    StageKey::new(Digest::of(&bytes))
}
