//! Bundles: a pipeline with its results in one file, for another machine.
//!
//! A bundle is a zstd-compressed tar. Its first member is the index; a member that the index does not name is
//! refused. The same results give the same bundle, byte for byte.
//!
//! ```text
//! bundle.json               what is in it
//! project/<path>            the pipeline, its lock, and the user's files that stages read
//! blobs/<blob id>           content
//! actions/<key>.json        sealed manifests
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::remote::Signatures;
use crate::store::{Store, StoreError};
use pipe_core::digest::{BlobId, StageKey};

const INDEX: &str = "bundle.json";
const FORMAT: u32 = 1;
/// The largest size of the index and all manifests together, because these are read into memory.
const LARGEST_IN_MEMORY: u64 = 256 << 20;

/// The first member of a bundle.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleIndex {
    format: u32,
    pub pipeline: String,
    /// The project files, by path.
    pub files: BTreeMap<String, IndexedFile>,
    results: BTreeSet<StageKey>,
    blobs: BTreeSet<BlobId>,
    /// The signatures of manifests, as on a remote. A bundle without any has no such field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signatures: BTreeMap<StageKey, Signatures>,
}

/// What the index says about a project file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexedFile {
    pub blake3: BlobId,
    /// The digest of a directory depends on whether its files are executable.
    pub executable: bool,
}

/// Why a bundle cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The bundle is not as `pipe export` writes it.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl BundleError {
    fn unreadable(error: io::Error) -> Self {
        Self::Refused(format!("it cannot be read: {error}"))
    }

    fn foreign(error: io::Error) -> Self {
        Self::Refused(format!("it was not written by `pipe export` ({error})"))
    }
}

/// The content of a bundle, besides the blobs, which are in the store.
pub struct BundleContent {
    pub pipeline: String,
    /// The content of each project file, by path.
    pub files: BTreeMap<String, (IndexedFile, Vec<u8>)>,
    /// The sealed manifests.
    pub records: BTreeMap<StageKey, Vec<u8>>,
    pub blobs: BTreeSet<BlobId>,
    pub signatures: BTreeMap<StageKey, Signatures>,
}

/// Writes a bundle.
pub fn write<W: Write>(out: W, content: &BundleContent, store: &Store) -> Result<W, BundleError> {
    let index = BundleIndex {
        format: FORMAT,
        pipeline: content.pipeline.clone(),
        files: content.files.iter().map(|(path, (file, _))| (path.clone(), *file)).collect(),
        results: content.records.keys().copied().collect(),
        blobs: content.blobs.clone(),
        signatures: content.signatures.clone(),
    };
    let mut tar = tar::Builder::new(zstd::Encoder::new(out, 0)?);
    append(&mut tar, INDEX, &serde_json::to_vec_pretty(&index).map_err(io::Error::from)?)?;
    for (path, (_, content)) in &content.files {
        append(&mut tar, &format!("project/{path}"), content)?;
    }
    for id in &content.blobs {
        let (mut file, length) = store.open_blob(*id)?;
        tar.append_data(&mut header(length), format!("blobs/{id}"), &mut file)?;
    }
    for (key, text) in &content.records {
        append(&mut tar, &format!("actions/{key}.json"), text)?;
    }
    Ok(tar.into_inner()?.finish()?)
}

fn append<W: Write>(tar: &mut tar::Builder<W>, path: &str, content: &[u8]) -> io::Result<()> {
    tar.append_data(&mut header(content.len() as u64), path, content)
}

/// Returns a header without times and owner, so that the same content gives the same bundle.
fn header(length: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(length);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}

/// A bundle that was read: every member matches its digest. The contents of blobs and of project files are in the store.
pub struct ReadBundle {
    pub index: BundleIndex,
    /// The sealed manifests. They are not checked yet.
    pub records: Vec<Vec<u8>>,
}

/// Reads a bundle and puts its contents into the store. Nothing refers to them before the manifests are adopted.
pub fn read(bundle: impl Read, store: &Store) -> Result<ReadBundle, BundleError> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(bundle).map_err(BundleError::foreign)?);
    let mut entries = archive.entries().map_err(BundleError::foreign)?;
    let mut memory = Memory(LARGEST_IN_MEMORY);
    let index = match entries.next() {
        Some(entry) => read_index(entry.map_err(BundleError::foreign)?, &mut memory)?,
        None => {
            let what = "it was not written by `pipe export`: it is empty";
            return Err(BundleError::Refused(what.to_owned()));
        }
    };
    let mut members = Members::default();
    for entry in entries {
        members.take(entry.map_err(BundleError::unreadable)?, &index, store, &mut memory)?;
    }
    if !members.are_complete(&index) {
        let what = "it is incomplete: members that its index names are missing";
        return Err(BundleError::Refused(what.to_owned()));
    }
    Ok(ReadBundle { index, records: members.records })
}

/// How many bytes may still be read into memory.
struct Memory(u64);

impl Memory {
    fn read<R: Read>(&mut self, entry: tar::Entry<'_, R>) -> Result<Vec<u8>, BundleError> {
        let size = entry.size();
        let too_large = || BundleError::Refused("its index and its manifests are too large".to_owned());
        self.0 = self.0.checked_sub(size).ok_or_else(too_large)?;
        let mut bytes = Vec::new();
        entry.take(size).read_to_end(&mut bytes).map_err(BundleError::unreadable)?;
        Ok(bytes)
    }
}

/// Reads and checks the index.
fn read_index<R: Read>(entry: tar::Entry<'_, R>, memory: &mut Memory) -> Result<BundleIndex, BundleError> {
    let refused = |what: String| Err(BundleError::Refused(what));
    if entry.path_bytes().as_ref() != INDEX.as_bytes() || !entry.header().entry_type().is_file() {
        return refused(format!("it was not written by `pipe export`: its first member is not `{INDEX}`"));
    }
    let text = memory.read(entry)?;
    let index: BundleIndex = match serde_json::from_slice(&text) {
        Ok(index) => index,
        Err(error) => return refused(format!("its index cannot be read: {error}")),
    };
    if index.format != FORMAT {
        let found = index.format;
        return refused(format!("it has format {found}, and this version of `pipe` reads format {FORMAT}"));
    }
    match index.files.keys().find(|path| visible_path(Path::new(path)).as_ref() != Some(path)) {
        Some(path) => {
            refused(format!("`{path}` would be written outside of the project, or to a hidden file"))
        }
        None => Ok(index),
    }
}

/// Returns the path as text if it is inside the project and no part of it is hidden, because a bundle must not be
/// able to write to `.git`.
pub fn visible_path(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().filter(|part| !part.starts_with('.'))?),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The members of a bundle that were read so far and match their digests.
#[derive(Default)]
struct Members {
    files: BTreeSet<String>,
    records: Vec<Vec<u8>>,
    keys: BTreeSet<StageKey>,
    blobs: BTreeSet<BlobId>,
}

impl Members {
    /// Reads one member and checks it against the index.
    fn take<R: Read>(
        &mut self,
        mut entry: tar::Entry<'_, R>,
        index: &BundleIndex,
        store: &Store,
        memory: &mut Memory,
    ) -> Result<(), BundleError> {
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refused = |what: &str| BundleError::Refused(format!("`{name}` {what}"));
        if !entry.header().entry_type().is_file() {
            return Err(refused("is not a plain file"));
        }
        let unknown = || refused("is not in the index");
        let (folder, rest) = name.split_once('/').ok_or_else(unknown)?;
        match folder {
            "project" => {
                let expected = index.files.get(rest).ok_or_else(unknown)?;
                store.adopt_blob(expected.blake3, &mut entry).map_err(|error| match error {
                    StoreError::Foreign { .. } => refused("does not have the digest that the index records"),
                    other => other.into(),
                })?;
                self.files.insert(rest.to_owned());
            }
            "actions" => {
                let key: Option<StageKey> = rest.strip_suffix(".json").and_then(|key| key.parse().ok());
                let key = key.filter(|key| index.results.contains(key)).ok_or_else(unknown)?;
                self.records.push(memory.read(entry)?);
                self.keys.insert(key);
            }
            "blobs" => {
                let id: Option<BlobId> = rest.parse().ok().filter(|id| index.blobs.contains(id));
                let id = id.ok_or_else(unknown)?;
                store.adopt_blob(id, &mut entry).map_err(|error| match error {
                    StoreError::Foreign { what } => BundleError::Refused(what),
                    other => other.into(),
                })?;
                self.blobs.insert(id);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Returns whether every member that the index names was read.
    fn are_complete(&self, index: &BundleIndex) -> bool {
        self.files.iter().eq(index.files.keys()) && self.keys == index.results && self.blobs == index.blobs
    }
}
