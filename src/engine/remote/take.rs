//! Takes results from a remote.

use std::io::{self, Read};

use super::backend::BackendError;
use super::signed::{self, TrustedManifest};
use super::trust::Trust;
use super::{Direction, Remote, blob_path, is_writer_name, manifest_path, manifests_path, threads};
use crate::runner::Stop;
use crate::store::manifest::{Manifest, Stored};
use crate::store::{Store, StoreError, WriteRight};
use pipe_core::digest::{BlobId, StageKey};

/// The largest manifest and the largest listing of a directory that are fetched.
const LARGEST_MANIFEST: u64 = 64 << 20;
const LARGEST_LISTING: u64 = 1 << 30;

/// Why the blobs of a result could not be fetched.
enum FetchError {
    /// The remote does not have what the manifest promises; completes the sentence "the result was refused: ...".
    Refused(String),
    Remote(BackendError),
    /// The local store cannot be written to. If the stage runs, it fails with the same error.
    Store,
    Stopped,
}

impl Remote {
    /// Takes the result of a key that nobody else can compute at the moment. Returns `None`, with the right as it
    /// was, if the remote has no result that may be used.
    pub fn take(&self, store: &Store, right: &mut WriteRight<'_>, instance: &str) -> Option<Manifest> {
        if !self.reads {
            return None;
        }
        let key = right.key();
        for writer in self.writers_of(instance, key)? {
            if self.ledger.has_given_up(Direction::Fetch) || self.stop.requested().is_some() {
                return None;
            }
            let Some(found) = self.note(Direction::Fetch, self.manifest_of(key, &writer))? else { continue };
            let TrustedManifest { writer, text, manifest } = match found {
                Ok(trusted) => trusted,
                Err(reason) => {
                    self.ledger.refuse(instance, key, &writer, reason);
                    continue;
                }
            };
            match self.fetch_blobs(store, &manifest) {
                Ok(()) => {}
                Err(FetchError::Refused(reason)) => {
                    self.ledger.refuse(instance, key, &writer, reason);
                    continue;
                }
                Err(FetchError::Remote(error)) => return self.note(Direction::Fetch, Err(error)),
                Err(FetchError::Store | FetchError::Stopped) => return None,
            }
            match right.adopt(&text, &writer) {
                Ok(Some(manifest)) => {
                    self.ledger.update(|summary| summary.taken += 1);
                    return Some(manifest);
                }
                Ok(None) => {
                    let reason = "its outputs do not have the sizes that it says".to_owned();
                    self.ledger.refuse(instance, key, &writer, reason);
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns the writers to ask for a key, the preferred one first. Without a listing, every trusted writer may
    /// have it.
    fn writers_of(&self, instance: &str, key: StageKey) -> Option<Vec<String>> {
        if self.ledger.has_given_up(Direction::Fetch) {
            return None;
        }
        let mut trusted = Vec::new();
        if let Trust::Keys(keys) = &self.trust {
            for key in keys {
                if !trusted.iter().any(|name| name == key.name()) {
                    trusted.push(key.name().to_owned());
                }
            }
        }
        if self.backend.only_gets() {
            return Some(trusted);
        }
        let present = self.note(Direction::Fetch, self.writers(key))?;
        if self.trust == Trust::Anyone {
            return Some(present);
        }
        for writer in present.iter().filter(|writer| !trusted.contains(writer)) {
            let reason = "its writer is not among the `trusted:` keys".to_owned();
            self.ledger.refuse(instance, key, writer, reason);
        }
        trusted.retain(|writer| present.contains(writer));
        Some(trusted)
    }

    /// Returns everyone who has stored a result for a key.
    pub(super) fn writers(&self, key: StageKey) -> Result<Vec<String>, BackendError> {
        let folder = manifests_path(key);
        let listed = self.backend.list(&folder)?;
        let writer = |path: &str| {
            let name = path.strip_prefix(&folder)?.strip_prefix('/')?.strip_suffix(".json")?;
            is_writer_name(name).then(|| name.to_owned())
        };
        Ok(listed.iter().filter_map(|file| writer(&file.path)).collect())
    }

    /// Returns the manifest that a writer stored for a key, or the reason why it must not be used.
    #[allow(
        clippy::type_complexity,
        reason = "the levels are: the request, whether it exists, whether it is trusted"
    )]
    pub(super) fn manifest_of(
        &self,
        key: StageKey,
        writer: &str,
    ) -> Result<Option<Result<TrustedManifest, String>>, BackendError> {
        let Some(text) = self.read_manifest(&manifest_path(key, writer))? else { return Ok(None) };
        Ok(Some(signed::open(&text, key, writer, &self.trust)))
    }

    pub(super) fn read_manifest(&self, path: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let Some(content) = self.backend.get(path)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = content.take(LARGEST_MANIFEST).read_to_end(&mut text);
        read.map_err(|error| BackendError(format!("cannot read `{path}` from {}: {error}", self.url)))?;
        Ok(Some(text))
    }

    /// Fetches the blobs of a result that are not in the store, listings of directories first.
    fn fetch_blobs(&self, store: &Store, manifest: &Manifest) -> Result<(), FetchError> {
        let size = |stored: &Stored| if stored.directory { LARGEST_LISTING } else { stored.bytes };
        let mut blobs: Vec<(BlobId, u64)> =
            manifest.stored().map(|stored| (stored.blob, size(stored))).collect();
        self.fetch_missing(store, &mut blobs)?;
        let mut members = Vec::new();
        for directory in manifest.stored().filter(|stored| stored.directory) {
            let listed = store.files_of(directory);
            members.extend(listed.map_err(|error| FetchError::Refused(error.to_string()))?);
        }
        self.fetch_missing(store, &mut members)
    }

    fn fetch_missing(&self, store: &Store, blobs: &mut Vec<(BlobId, u64)>) -> Result<(), FetchError> {
        blobs.sort_unstable();
        blobs.dedup_by_key(|(id, _)| *id);
        blobs.retain(|(id, _)| !store.has_blob(*id));
        threads::for_each(std::mem::take(blobs), |(id, bytes)| self.fetch_blob(store, id, bytes))
    }

    /// Fetches one blob, which becomes visible in the store only if it has the right content.
    fn fetch_blob(&self, store: &Store, id: BlobId, bytes: u64) -> Result<(), FetchError> {
        let refused = |what: &str| {
            self.ledger.mark_damaged(id);
            FetchError::Refused(format!("its blob {} {what} on the remote", id.short()))
        };
        let content = self.backend.get(&blob_path(id)).map_err(FetchError::Remote)?;
        let Some(content) = content else { return Err(refused("is missing")) };
        let mut received = Received { content, stop: &self.stop, count: 0, failure: None };
        // One byte more than expected, so that longer content is noticed and a small file cannot fill the disk.
        let limit = bytes.saturating_add(1);
        let adopted =
            zstd::Decoder::new(&mut received).map(|plain| store.adopt_blob(id, &mut plain.take(limit)));
        if self.stop.requested().is_some() {
            return Err(FetchError::Stopped);
        }
        if let Some(what) = received.failure {
            return Err(FetchError::Remote(BackendError(format!("{} broke off: {what}", self.url))));
        }
        self.ledger.update(|summary| summary.received_bytes += received.count);
        match adopted {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StoreError::Foreign { .. })) | Err(_) => Err(refused("has another content")),
            // The decoder found that the content is cut short or not compressed. Writing can fail, too, but then not
            // like this.
            Ok(Err(StoreError::Io { source, .. })) if source.raw_os_error().is_none() => {
                Err(refused("is damaged"))
            }
            Ok(Err(_)) => Err(FetchError::Store),
        }
    }

    /// Fetches a blob into a store that needs it; without a size, it is the listing of a directory. Returns whether
    /// the store has it now. A failure is noted.
    pub fn fetch(&self, store: &Store, id: BlobId, bytes: Option<u64>) -> bool {
        if self.ledger.has_given_up(Direction::Fetch) {
            return false;
        }
        match self.fetch_blob(store, id, bytes.unwrap_or(LARGEST_LISTING)) {
            Ok(()) => true,
            Err(FetchError::Remote(error)) => {
                self.note::<()>(Direction::Fetch, Err(error));
                false
            }
            Err(FetchError::Refused(_) | FetchError::Store | FetchError::Stopped) => false,
        }
    }
}

/// The content of a file of the remote. Tells a connection that broke from content that is wrong, counts, and ends when the
/// user wants to stop.
struct Received<'a> {
    content: Box<dyn Read + Send>,
    stop: &'a Stop,
    count: u64,
    failure: Option<String>,
}

impl Read for Received<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.requested().is_some() {
            return Err(io::Error::other("the run was stopped"));
        }
        let read = self.content.read(buffer);
        match &read {
            Ok(count) => self.count += *count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.failure = Some(error.to_string()),
        }
        read
    }
}
