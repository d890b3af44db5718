//! The ingredients of a stage's key, named, so that they can be stored beside the result and
//! compared later.
//!
//! | ingredient | in the key | why |
//! |---|---|---|
//! | kind and its VERSION | yes | other code may give other bytes |
//! | typed parameters, defaults filled in | yes | they steer the code; as types, so that `1e-4` = `0.0001` |
//! | content of each input | yes | by digest, so that an upstream rerun with equal bytes stops there |
//! | axes of a fan-in's members, and their order | yes | a table prints them, in that order |
//! | allowed environment variables | yes | a command may read them |
//! | name of the stage, of its inputs' stages, of the pipeline | no | renaming computes nothing new |
//! | paths, mtimes, host, user, number of jobs | no | they do not reach the result |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, StageKey};

/// Everything that can change the result of a stage, each under the name that `pipe why` shows:
/// `kind`, `version`, `params.lr`, `inputs.data`, `inputs.from[variant=adaptive,seed=1]`, `env.HOME`.
/// Values are canonical text: JSON for parameters, hexadecimal digests for inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyParts(BTreeMap<String, String>);

/// Changing how keys are made forgets every cached result; this says so in the hash itself.
const FORMAT: &str = "pipe stage key 1";

impl KeyParts {
    pub fn new(parts: BTreeMap<String, String>) -> Self {
        Self(parts)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Each name and value is preceded by its length, so that no two sets of ingredients can
    /// run into the same bytes.
    pub fn key(&self) -> StageKey {
        let mut hasher = blake3::Hasher::new();
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field(FORMAT);
        for (name, value) in &self.0 {
            field(name);
            field(value);
        }
        StageKey::new(Digest::from(hasher.finalize()))
    }
}
