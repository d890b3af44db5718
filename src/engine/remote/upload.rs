//! Uploads results to a remote, blobs before the manifest that names them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::backend::BackendError;
use super::key::SigningKey;
use super::outgoing::{Outgoing, OutgoingBlob};
use super::{Direction, Remote, blob_path, manifest_path, signed, threads};
use crate::store::manifest::Manifest;
use crate::store::{Store, StoreError};
use pipe_core::digest::{BlobId, StageKey};

/// How many results are uploaded at the same time.
const UPLOADS: usize = 2;

/// Results up to this size are uploaded however fast they were computed, so that others need not compute anything in most
/// cases.
const ALWAYS_WORTH_IT: u64 = 1 << 20;

/// Why a result was not uploaded.
enum UploadError {
    Remote(BackendError),
    Store(StoreError),
}

/// What came of a request to upload a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Uploaded,
    /// The remote has it from this writer already.
    Present,
    /// Another writer computed it, so it is not ours to sign.
    NotOurs,
    /// It is not complete in the store, or the remote failed.
    Failed,
}

impl Remote {
    /// Uploads a result that this machine computed. A failure is noted, and is a warning.
    pub fn upload(&self, store: &Store, manifest: &Manifest) -> Outcome {
        let Some(writer) = &self.writer else { return Outcome::Failed };
        if manifest.taken_from.is_some() {
            return Outcome::NotOurs;
        }
        if self.ledger.has_given_up(Direction::Upload) || self.stop.requested().is_some() {
            return Outcome::Failed;
        }
        match self.try_upload(store, manifest, writer) {
            Ok(()) => {
                self.note(Direction::Upload, Ok(()));
                self.ledger.update(|summary| summary.uploaded += 1);
                Outcome::Uploaded
            }
            Err(_) if self.stop.requested().is_some() => Outcome::Failed,
            Err(UploadError::Remote(error)) => {
                self.note::<()>(Direction::Upload, Err(error));
                Outcome::Failed
            }
            Err(UploadError::Store(error)) => {
                self.ledger.warn(format!("the result of `{}` was not uploaded: {error}", manifest.instance));
                Outcome::Failed
            }
        }
    }

    /// Uploads a result unless the remote has all of it from this writer. A failure is noted, and is a warning.
    pub fn upload_missing(&self, store: &Store, manifest: &Manifest) -> Outcome {
        let Some(writer) = &self.writer else { return Outcome::Failed };
        if manifest.taken_from.is_some() {
            return Outcome::NotOurs;
        }
        if self.ledger.has_given_up(Direction::Upload) {
            return Outcome::Failed;
        }
        match self.note(Direction::Fetch, self.has_all_of(store, manifest, writer)) {
            Some(true) => Outcome::Present,
            Some(false) => self.upload(store, manifest),
            None => Outcome::Failed,
        }
    }

    /// Returns whether the remote has a readable manifest of this writer, and every blob of the result. Does not read the blobs.
    fn has_all_of(
        &self,
        store: &Store,
        manifest: &Manifest,
        writer: &SigningKey,
    ) -> Result<bool, BackendError> {
        let Some(Ok(_)) = self.manifest_of(manifest.key, writer.name())? else { return Ok(false) };
        // If a listing of the store is damaged, the upload says so.
        let Ok(blobs) = store.blobs_of(manifest) else { return Ok(false) };
        let is_missing = AtomicBool::new(false);
        threads::for_each(blobs.into_iter().collect(), |id| {
            if !is_missing.load(Ordering::SeqCst) && !self.backend.exists(&blob_path(id))? {
                is_missing.store(true, Ordering::SeqCst);
            }
            Ok(())
        })?;
        Ok(!is_missing.into_inner())
    }

    /// Returns whether others save time if they fetch a result instead of computing it, or the remote has a damaged copy that they
    /// would fetch in vain.
    fn is_worth_uploading(&self, store: &Store, manifest: &Manifest) -> bool {
        let bytes: u64 = manifest.stored().map(|stored| stored.bytes).sum();
        let is_damaged = |blobs: BTreeSet<BlobId>| blobs.iter().any(|id| self.ledger.is_damaged(*id));
        bytes <= ALWAYS_WORTH_IT
            || manifest.seconds >= bytes as f64 / self.bandwidth
            || store.blobs_of(manifest).is_ok_and(is_damaged)
    }

    fn try_upload(&self, store: &Store, manifest: &Manifest, writer: &SigningKey) -> Result<(), UploadError> {
        let blobs = store.blobs_of(manifest).map_err(UploadError::Store)?;
        threads::for_each(blobs.into_iter().collect(), |id| self.upload_blob(store, id))?;
        let incomplete = || StoreError::Damaged {
            what: format!("the manifest of key {} is missing", manifest.key.short()),
        };
        let sealed = store.sealed_record(manifest.key).ok_or_else(incomplete).map_err(UploadError::Store)?;
        let signed: Arc<[u8]> = signed::sign(&sealed, writer).into();
        self.put(&manifest_path(manifest.key, writer.name()), &signed).map_err(UploadError::Remote)
    }

    fn put(&self, path: &str, content: &dyn Outgoing) -> Result<(), BackendError> {
        let sent = self.backend.put(path, content)?;
        self.ledger.update(|summary| summary.sent_bytes += sent);
        Ok(())
    }

    fn upload_blob(&self, store: &Store, id: BlobId) -> Result<(), UploadError> {
        let path = blob_path(id);
        // One with another content would stay there forever.
        if !self.ledger.is_damaged(id) && self.backend.exists(&path).map_err(UploadError::Remote)? {
            return Ok(());
        }
        let blob = OutgoingBlob::new(store, id).map_err(UploadError::Store)?;
        self.put(&path, &blob).map_err(|error| match blob.flaw() {
            Some(flaw) => UploadError::Store(StoreError::Damaged { what: flaw.clone() }),
            None => UploadError::Remote(error),
        })
    }
}

/// Uploads in the background. Dropping it lets the uploads end that were queued; the scope of their threads waits for
/// them.
pub struct UploadQueue {
    sender: Sender<Box<Manifest>>,
    /// The number of results that are queued or being uploaded.
    pending: Arc<AtomicUsize>,
}

impl UploadQueue {
    /// Starts the threads.
    pub fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, 'a>,
        remote: &'a Remote,
        store: &'a Store,
    ) -> Self {
        let (sender, receiver) = channel::<Box<Manifest>>();
        let receiver = Arc::new(Mutex::new(receiver));
        let pending = Arc::new(AtomicUsize::new(0));
        for _ in 0..UPLOADS {
            let (receiver, pending) = (Arc::clone(&receiver), Arc::clone(&pending));
            scope.spawn(move || {
                while let Some(manifest) = next(&receiver) {
                    if remote.is_worth_uploading(store, &manifest) {
                        remote.upload(store, &manifest);
                    } else {
                        remote.ledger.update(|summary| summary.cheap += 1);
                    }
                    pending.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        Self { sender, pending }
    }

    /// Uploads a result soon.
    pub fn push(&self, manifest: Box<Manifest>) {
        self.pending.fetch_add(1, Ordering::SeqCst);
        // The threads outlive the queue, so sending cannot fail.
        let _ = self.sender.send(manifest);
    }

    /// Waits until everything is uploaded, or until the time is over. Returns how many results are left.
    pub fn wait(&self, patience: Duration) -> usize {
        let begin = Instant::now();
        loop {
            match self.pending.load(Ordering::SeqCst) {
                left if left == 0 || begin.elapsed() >= patience => return left,
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

fn next(receiver: &Mutex<Receiver<Box<Manifest>>>) -> Option<Box<Manifest>> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Returns the key of a file that [`manifest_path`] names.
pub(super) fn key_of_path(path: &str) -> Option<StageKey> {
    path.rsplit('/').nth(1)?.parse().ok()
}
