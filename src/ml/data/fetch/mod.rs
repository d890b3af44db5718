//! Downloads over https or from a file URL. A broken transfer is resumed; a file gets its name only when it is complete.
//!
//! Redirects are followed by `ureq`, over https only.

mod partial;
#[cfg(test)]
pub(super) mod test_server;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{Response, StatusCode, header};
use ureq::tls::TlsConfig;

use partial::{PartialDownload, ResumePoint};
use pipe_core::authorities::{self, BadAuthorities};
use pipe_core::digest::BlobId;

/// How many bytes of a download have arrived. `total` is what the server stated, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadProgress {
    pub done: u64,
    pub total: Option<u64>,
}

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` is neither an https URL nor a file URL")]
    Address(String),
    #[error("the server redirects to `{0}`, which is refused because it is not an https URL")]
    UnsafeRedirect(String),
    #[error("the server redirects more than {REDIRECTS} times")]
    TooManyRedirects,
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error(
        "the certificate of the server is not accepted: {0}; if your network inspects encrypted connections, let SSL_CERT_FILE \
         name a file with the certificate of its authority"
    )]
    Certificate(String),
    #[error(transparent)]
    Authorities(#[from] BadAuthorities),
    #[error("the transfer was interrupted after {done} bytes: {reason}; run again to resume it")]
    Broken { done: u64, reason: String },
}

impl FetchError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// Returns whether another attempt may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Unreachable(_) => true,
            Self::Status(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }
}

const ATTEMPTS: u32 = 4;
const REDIRECTS: u32 = 8;
/// The longest time without any data from the server.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Downloads files.
pub(crate) struct DownloadClient {
    agent: ureq::Agent,
    /// How long to wait before the second attempt; doubled before each further one.
    pause: Duration,
}

impl DownloadClient {
    /// Creates a client that waits one second before its second attempt.
    pub(crate) fn new() -> Result<Self, FetchError> {
        let agent = config(authorities::tls_config()?, READ_TIMEOUT).new_agent();
        Ok(Self { agent, pause: Duration::from_secs(1) })
    }

    /// Downloads `url` to `target`, whose directory is created if it does not exist.
    pub(crate) fn fetch(
        &self,
        url: &str,
        target: &Path,
        progress: &mut dyn FnMut(DownloadProgress),
    ) -> Result<(), FetchError> {
        let directory = target.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(FetchError::io("create", directory))?;
        if let Some(path) = url.strip_prefix("file://") {
            return copy(Path::new(path), target);
        }
        if !url.starts_with("https://") {
            return Err(FetchError::Address(url.to_owned()));
        }
        let mut part = PartialDownload::open(target, url)?;
        if target.exists() {
            return Ok(()); // Another process completed the download while we waited for the lock.
        }
        let mut attempt = 1;
        loop {
            match self.transfer(url, &mut part, progress) {
                Ok(()) => return part.complete(target),
                Err(error) if attempt < ATTEMPTS && error.is_transient() => {
                    std::thread::sleep(self.pause * 2u32.pow(attempt - 1));
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn transfer(
        &self,
        url: &str,
        part: &mut PartialDownload,
        progress: &mut dyn FnMut(DownloadProgress),
    ) -> Result<(), FetchError> {
        let resumable = part.resumable()?;
        let response = self.request(url, resumable.as_ref())?;
        let header_text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let length = header_text(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        let version = header_text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let version = version.or_else(|| header_text(header::LAST_MODIFIED)).map(str::to_owned);
        let mut done = match (response.status(), resumable) {
            (StatusCode::PARTIAL_CONTENT, Some(point)) if starts_at(&response, point.from) => point.from,
            (StatusCode::OK, _) => part.restart(version.as_deref())?,
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, _) => {
                part.restart(None)?;
                return Err(FetchError::Broken {
                    done: 0,
                    reason: "the server has a different version now".to_owned(),
                });
            }
            (status, _) => return Err(FetchError::Status(status)),
        };
        let total = length.map(|length| done + length);
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            progress(DownloadProgress { done, total });
            match body.read(&mut buffer) {
                Ok(0) if total.is_none_or(|total| done == total) => return Ok(()),
                Ok(0) => {
                    return Err(FetchError::Broken {
                        done,
                        reason: "the server closed the connection".to_owned(),
                    });
                }
                Ok(count) => part.write(&buffer[..count])?,
                Err(error) => return Err(FetchError::Broken { done, reason: error.to_string() }),
            }
            done = part.length()?;
        }
    }

    /// Sends the request, for the rest of the content if `resume` is given. `ureq` repeats all headers when it follows a
    /// redirect.
    fn request(&self, url: &str, resume: Option<&ResumePoint>) -> Result<Response<ureq::Body>, FetchError> {
        let mut request = self.agent.get(url);
        if let Some(point) = resume {
            request = request
                .header(header::RANGE, format!("bytes={}-", point.from))
                .header(header::IF_RANGE, &point.version);
        }
        request.call().map_err(|error| match error {
            ureq::Error::RequireHttpsOnly(url) => FetchError::UnsafeRedirect(url),
            ureq::Error::TooManyRedirects => FetchError::TooManyRedirects,
            // A certificate that is refused ends the handshake, which is reading and writing for `ureq`.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                FetchError::Certificate(error.to_string())
            }
            error => FetchError::Unreachable(error.to_string()),
        })
    }
}

/// Returns the settings of a client. `patience` is the longest time without any data from the server.
fn config(tls: TlsConfig, patience: Duration) -> ureq::config::Config {
    ureq::Agent::config_builder()
        .https_only(true)
        .http_status_as_error(false)
        .max_redirects(REDIRECTS)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(patience))
        .timeout_per_read(Some(patience))
        .tls_config(tls)
        .user_agent(concat!("pipe/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .build()
}

/// Returns whether the content of a partial response starts at byte `from`.
fn starts_at(response: &Response<ureq::Body>, from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

fn copy(from: &Path, target: &Path) -> Result<(), FetchError> {
    let directory = target.parent().unwrap_or(Path::new("."));
    let copy = || {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        io::copy(&mut File::open(from)?, &mut file)?;
        file.persist(target).map(drop).map_err(io::Error::from)
    };
    copy().map_err(FetchError::io("copy", from))
}

/// Returns the blake3 digest and the length of a file.
pub fn digest_file(path: &Path) -> io::Result<(BlobId, u64)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok((BlobId::new(hasher.finalize().into()), hasher.count()))
}
