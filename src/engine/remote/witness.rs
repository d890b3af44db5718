//! Compares what different writers stored for the same key.

use std::collections::BTreeMap;

use super::Remote;
use super::backend::BackendError;
use super::trust::Trust;
use crate::lock::EnvironmentClass;
use crate::store::manifest::Manifest;
use pipe_core::digest::{BlobId, StageKey};

/// What one trusted writer got for a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Testimony {
    pub writer: String,
    /// The machine on which it was computed.
    pub class: EnvironmentClass,
    /// The content of each output, without those whose bytes differ from run to run.
    pub outputs: BTreeMap<String, BlobId>,
}

/// Everything that the remote has for a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Witnesses {
    pub testimonies: Vec<Testimony>,
    /// Writers whose results do not count, with the reason.
    pub refused: Vec<(String, String)>,
}

impl Testimony {
    /// Returns what a result says about its outputs.
    pub fn of(writer: &str, manifest: &Manifest) -> Self {
        let steady = manifest.outputs.iter().filter(|(name, _)| !manifest.volatile.contains(*name));
        let outputs = steady.map(|(name, stored)| (name.clone(), stored.blob)).collect();
        let class = EnvironmentClass::of_machine(&manifest.environment);
        Self { writer: writer.to_owned(), class, outputs }
    }

    /// Returns the first output that has another content here, or is only in one of both.
    pub fn difference<'a>(&'a self, outputs: &'a BTreeMap<String, BlobId>) -> Option<&'a str> {
        let mut names = self.outputs.keys().chain(outputs.keys());
        names.find(|name| self.outputs.get(*name) != outputs.get(*name)).map(String::as_str)
    }
}

impl Remote {
    /// Returns what each writer stored for a key. The error is a sentence.
    pub fn witnesses(&self, key: StageKey) -> Result<Witnesses, String> {
        let ask = || -> Result<Witnesses, BackendError> {
            let writers = match &self.trust {
                Trust::Keys(keys) if self.backend.only_gets() => {
                    keys.iter().map(|key| key.name().to_owned()).collect()
                }
                _ => self.writers(key)?,
            };
            let mut witnesses = Witnesses::default();
            for writer in writers {
                match self.manifest_of(key, &writer)? {
                    None => {}
                    Some(Ok(trusted)) => {
                        witnesses.testimonies.push(Testimony::of(&trusted.writer, &trusted.manifest));
                    }
                    Some(Err(reason)) => witnesses.refused.push((writer, reason)),
                }
            }
            Ok(witnesses)
        };
        ask().map_err(|error| error.to_string())
    }
}
