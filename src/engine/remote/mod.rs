//! A remote: a directory, a web site or a bucket through which machines share results.
//!
//! ```text
//! blobs/ab/<blob id>                     content, compressed by zstd, named by the blake3 of what it was compressed from
//! actions/ab/<stage key>/<writer>.json   signed manifests, one per writer
//! ```
//!
//! Guarantees:
//! - **Nothing is used that a trusted writer did not sign.** A manifest counts only if it has the signature of a trusted
//!   key, belongs to the key that it is found under, and all its blobs have the content that their names say. Someone who
//!   can write to the remote can cost time, and nothing else.
//! - **A writer signs only what it computed.** A result that was taken from another writer is never uploaded.
//! - **Nothing of others is overwritten.** Every writer has its own manifests, and blobs are named by their content.
//! - **A remote that fails costs a warning, never a run.**
//!
//! Blobs are uploaded before the manifest that names them, and a result becomes visible in the local store only when all
//! its blobs are there.

mod backend;
mod directory;
mod gc;
mod http;
mod key;
mod outgoing;
mod permits;
mod report;
mod s3;
mod settings;
mod signed;
mod take;
#[cfg(test)]
mod tests;
mod threads;
mod trust;
mod upload;
mod witness;

use std::fmt;
use std::path::{Path, PathBuf};

use backend::{Backend, BackendError};
pub use gc::{RemoteGcReport, RemoteGcRequest};
pub use key::{BadKey, PublicKey, SigningKey, is_writer_name};
use report::{Direction, Ledger};
pub use report::{Refusal, RemoteSummary};
pub use settings::{Anyone, Policy, RemoteSettings, TrustedWriters};
pub use signed::{Signatures, is_signed, signatures_of};
pub use trust::Trust;
pub use upload::{Outcome, UploadQueue};
pub use witness::{Testimony, Witnesses};

use crate::runner::Stop;
use pipe_core::digest::{BlobId, StageKey};

/// An open remote. Opening it makes no request. Threads share it by reference.
pub struct Remote {
    url: String,
    backend: Box<dyn Backend>,
    reads: bool,
    trust: Trust,
    /// The key that signs what this run uploads, if it uploads.
    writer: Option<SigningKey>,
    /// In bytes per second.
    bandwidth: f64,
    stop: Stop,
    ledger: Ledger,
}

impl Remote {
    /// Opens a remote. Paths are relative to `project`. `writer` is the key of this user, if there is one; its
    /// results are trusted like those of `trusted:`. The error is a sentence about the settings.
    pub fn open(
        settings: &RemoteSettings,
        project: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        writer: Option<SigningKey>,
        stop: Stop,
    ) -> Result<Self, String> {
        let url = settings.url.trim();
        let backend: Box<dyn Backend> = match url.split_once("://") {
            _ if url.is_empty() => return Err("its `url` is empty".to_owned()),
            Some(("http" | "https", host)) if !host.is_empty() => {
                Box::new(http::WebSite::new(url, stop.clone())?)
            }
            Some(("s3", bucket)) => Box::new(s3::Bucket::new(bucket, environment, stop.clone())?),
            Some(("file", path)) if path.starts_with('/') => Box::new(directory::Directory::new(path.into())),
            None => Box::new(directory::Directory::new(local_path(url, project, environment)?)),
            Some(_) => {
                let expected = "a directory, `https://...` or `s3://BUCKET/PREFIX`";
                return Err(format!("its `url` is `{url}`, but {expected} is expected"));
            }
        };
        let own = writer.as_ref().map(SigningKey::public);
        if settings.write == Policy::Always
            && let Some(own) = &own
        {
            require_own_name(own, &Trust::new(&settings.trusted, None)?)?;
        }
        let trust = Trust::new(&settings.trusted, own)?;
        if backend.only_gets() && settings.write == Policy::Always {
            return Err(format!("`write: always` needs a directory or a bucket, and {url} can only be read"));
        }
        if backend.only_gets() && trust == Trust::Anyone {
            return Err(format!("`trusted: anyone` needs a remote that can be listed, and {url} cannot"));
        }
        if settings.write == Policy::Always && writer.is_none() {
            let next = "`pipe key new NAME` creates one; PIPE_REMOTE_WRITE=never only reads";
            return Err(format!("`write: always` needs a key to sign with, and there is none; {next}"));
        }
        Ok(Self {
            url: url.to_owned(),
            backend,
            reads: settings.read == Policy::Always,
            trust,
            writer: writer.filter(|_| settings.write == Policy::Always),
            bandwidth: settings.bandwidth * 1e6,
            stop,
            ledger: Ledger::default(),
        })
    }

    /// Returns the address of the remote.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether computed results are uploaded.
    pub fn writes(&self) -> bool {
        self.writer.is_some()
    }

    /// Returns what happened since the remote was opened.
    pub fn summary(&self) -> RemoteSummary {
        self.ledger.summary()
    }

    /// Takes note of an answer or a failure. What fails after the user wants to stop is no failure of the remote.
    fn note<T>(&self, direction: Direction, answer: Result<T, BackendError>) -> Option<T> {
        if answer.is_err() && self.stop.requested().is_some() {
            return None;
        }
        self.ledger.note(direction, answer)
    }

    /// Returns the warnings since the last call.
    pub fn warnings(&self) -> Vec<String> {
        self.ledger.warnings()
    }
}

/// Returns the path of a remote that is a directory.
fn local_path(
    url: &str,
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, String> {
    let Some(rest) = url.strip_prefix('~') else { return Ok(project.join(url)) };
    match environment("HOME").filter(|home| !home.is_empty()) {
        Some(home) if rest.is_empty() || rest.starts_with('/') => {
            Ok(Path::new(&home).join(rest.trim_start_matches('/')))
        }
        _ => Err(format!(
            "its `url` is `{url}`, and only your own home directory can be written as `~`; write the whole path"
        )),
    }
}

/// Fails if another writer has the name of this one: both would write to the same files.
fn require_own_name(own: &PublicKey, trusted: &Trust) -> Result<(), String> {
    let name = own.name();
    match trusted {
        Trust::Keys(keys) if !keys.contains(own) && keys.iter().any(|key| key.name() == name) => {
            Err(format!(
                "`trusted` has another key with the name of yours, `{name}`, and each writer needs a name of its own; \
             `pipe key new OTHER-NAME` creates one, or add your line (`pipe key show {name}`) if both are yours"
            ))
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.url)
    }
}

fn blob_path(id: BlobId) -> String {
    let hex = id.digest().to_hex();
    format!("blobs/{}/{hex}", &hex[..2])
}

fn manifests_path(key: StageKey) -> String {
    let hex = key.digest().to_hex();
    format!("actions/{}/{hex}", &hex[..2])
}

fn manifest_path(key: StageKey, writer: &str) -> String {
    format!("{}/{writer}.json", manifests_path(key))
}
