//! Downloads over https or from a file URL. A broken transfer is resumed; a file gets its name only when it is complete.
//!
//! During the transfer, the content is in `<file>.part`, and the version that the server stated (its `ETag` or
//! `Last-Modified`) is in `<file>.part.version`. A transfer is resumed only if the server still has that version, so that a
//! file is never put together from two versions. Redirects are followed by `ureq`, over https only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{Response, StatusCode, header};

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
    pub(crate) fn new() -> Self {
        Self { agent: config().new_agent(), pause: Duration::from_secs(1) }
    }

    /// Creates a client for tests: it sends https requests to the server of the test without encryption.
    #[cfg(test)]
    pub(super) fn without_encryption() -> Self {
        use ureq::unversioned::resolver::DefaultResolver;
        use ureq::unversioned::transport::{Connector, TcpConnector};
        let connector = Connector::<()>::chain(TcpConnector::default(), tests::PlainTlsConnector);
        let agent = ureq::Agent::with_parts(config(), connector, DefaultResolver::default());
        Self { agent, pause: Duration::ZERO }
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
        let mut part = PartialDownload::open(target)?;
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
            error => FetchError::Unreachable(error.to_string()),
        })
    }
}

fn config() -> ureq::config::Config {
    ureq::Agent::config_builder()
        .https_only(true)
        .http_status_as_error(false)
        .max_redirects(REDIRECTS)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(READ_TIMEOUT))
        .timeout_per_read(Some(READ_TIMEOUT))
        .user_agent(concat!("pipe/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .build()
}

/// Returns whether the content of a partial response starts at byte `from`.
fn starts_at(response: &Response<ureq::Body>, from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// Where an interrupted download continues, and which version of the content it is.
struct ResumePoint {
    from: u64,
    version: String,
}

/// An incomplete download. Its file is locked, so that of two processes that want the same content one downloads it and
/// the other waits.
struct PartialDownload {
    path: PathBuf,
    version_path: PathBuf,
    file: File,
}

impl PartialDownload {
    fn open(target: &Path) -> Result<Self, FetchError> {
        let with_suffix = |suffix: &str| {
            let mut name = target.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let path = with_suffix(".part");
        let open = || {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        let file = open().map_err(FetchError::io("write", &path))?;
        Ok(Self { version_path: with_suffix(".part.version"), path, file })
    }

    fn length(&self) -> Result<u64, FetchError> {
        self.file.metadata().map(|meta| meta.len()).map_err(FetchError::io("read", &self.path))
    }

    fn resumable(&self) -> Result<Option<ResumePoint>, FetchError> {
        let from = self.length()?;
        let version = fs::read_to_string(&self.version_path).ok().filter(|_| from > 0);
        Ok(version.map(|version| ResumePoint { from, version }))
    }

    /// Discards the content, before content of the given version arrives. Returns the new length, 0.
    fn restart(&mut self, version: Option<&str>) -> Result<u64, FetchError> {
        let mut restart = || {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            match version {
                Some(version) => fs::write(&self.version_path, version),
                None => remove_if_there(&self.version_path),
            }
        };
        restart().map_err(FetchError::io("write", &self.path))?;
        Ok(0)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(bytes).map_err(FetchError::io("write", &self.path))
    }

    /// Moves the complete content to `target`.
    fn complete(self, target: &Path) -> Result<(), FetchError> {
        let complete = || {
            self.file.sync_all()?;
            remove_if_there(&self.version_path)?;
            fs::rename(&self.path, target)
        };
        complete().map_err(FetchError::io("write", target))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

    use super::*;

    /// Makes plain connections pass as encrypted ones.
    #[derive(Debug)]
    pub(super) struct PlainTlsConnector;

    impl<In: Transport> Connector<In> for PlainTlsConnector {
        type Out = PlainTls<In>;

        fn connect(
            &self,
            _: &ConnectionDetails,
            chained: Option<In>,
        ) -> Result<Option<PlainTls<In>>, ureq::Error> {
            Ok(chained.map(PlainTls))
        }
    }

    #[derive(Debug)]
    pub(super) struct PlainTls<T>(T);

    impl<T: Transport> Transport for PlainTls<T> {
        fn buffers(&mut self) -> &mut dyn Buffers {
            self.0.buffers()
        }

        fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
            self.0.transmit_output(amount, timeout)
        }

        fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
            self.0.await_input(timeout)
        }

        fn is_open(&mut self) -> bool {
            self.0.is_open()
        }

        fn is_tls(&self) -> bool {
            true
        }
    }

    /// A server that answers each request with `answer(number of the request, its head)` and closes the connection.
    pub(crate) struct Server {
        pub address: String,
        pub requests: Arc<Mutex<Vec<String>>>,
    }

    impl Server {
        pub(crate) fn start(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("https://{}", listener.local_addr().unwrap());
            let requests = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&requests);
            std::thread::spawn(move || {
                for (number, stream) in listener.incoming().enumerate() {
                    let mut stream = stream.unwrap();
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head: Vec<String> =
                        lines.map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
                    let head = head.join("\n").to_lowercase();
                    let answer = answer(number, &head);
                    seen.lock().unwrap().push(head);
                    stream.write_all(&answer).unwrap();
                }
            });
            Self { address, requests }
        }
    }

    pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
        [head.as_bytes(), body].concat()
    }

    fn fetch(server: &Server, place: &Path) -> Result<(), FetchError> {
        DownloadClient::without_encryption().fetch(&format!("{}/file", server.address), place, &mut |_| {})
    }

    #[test]
    fn an_interrupted_transfer_is_resumed() {
        let server = Server::start(|number, head| match number {
            0 => answer("200 OK", "Content-Length: 11\r\nETag: \"v1\"\r\n", b"hello "),
            _ => {
                assert!(head.contains("range: bytes=6-") && head.contains("if-range: \"v1\""), "{head}");
                answer(
                    "206 Partial Content",
                    "Content-Length: 5\r\nContent-Range: bytes 6-10/11\r\n",
                    b"world",
                )
            }
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("set/file");
        let mut seen = Vec::new();
        DownloadClient::without_encryption()
            .fetch(&format!("{}/file", server.address), &place, &mut |p| seen.push(p))
            .unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"hello world");
        assert_eq!(seen.last(), Some(&DownloadProgress { done: 11, total: Some(11) }));
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn a_new_version_is_downloaded_from_its_start() {
        let server = Server::start(|number, _| match number {
            0 => answer("200 OK", "Content-Length: 11\r\nETag: \"v1\"\r\n", b"hello "),
            _ => answer("200 OK", "Content-Length: 3\r\nETag: \"v2\"\r\n", b"new"),
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        fetch(&server, &place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"new");
    }

    #[test]
    fn a_transfer_without_a_version_is_not_resumed() {
        let server = Server::start(|number, head| {
            assert!(!head.contains("range:"), "{head}");
            let body: &[u8] = if number == 0 { b"he" } else { b"hello" };
            answer("200 OK", "Content-Length: 5\r\n", body)
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        fetch(&server, &place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"hello");
    }

    #[test]
    fn a_transfer_that_always_fails_leaves_its_partial_file_for_the_next_run() {
        let server = Server::start(|_, _| answer("200 OK", "Content-Length: 9\r\nETag: \"v1\"\r\n", b"hell"));
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        assert!(matches!(fetch(&server, &place), Err(FetchError::Broken { done: 4, .. })));
        assert!(!place.exists() && temp.path().join("file.part").exists());
        assert_eq!(server.requests.lock().unwrap().len(), ATTEMPTS as usize);
    }

    #[test]
    fn a_missing_file_is_reported_without_another_attempt() {
        let server = Server::start(|_, _| answer("404 Not Found", "Content-Length: 0\r\n", b""));
        let temp = tempfile::tempdir().unwrap();
        let error = fetch(&server, &temp.path().join("file")).unwrap_err();
        assert!(matches!(error, FetchError::Status(StatusCode::NOT_FOUND)), "{error}");
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }

    #[test]
    fn redirects_are_followed_unless_they_leave_https() {
        let server = Server::start(|_, head| {
            let redirect =
                |to: &str| answer("302 Found", &format!("Location: {to}\r\nContent-Length: 0\r\n"), b"");
            match head.split_whitespace().nth(1) {
                Some("/file") => redirect("/real"),
                Some("/real") => answer("200 OK", "Content-Length: 2\r\n", b"ok"),
                Some("/loop") => redirect("/loop"),
                _ => redirect("http://example.org/file"),
            }
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        fetch(&server, &place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"ok");
        let error = |path: &str| {
            let url = format!("{}{path}", server.address);
            DownloadClient::without_encryption()
                .fetch(&url, &temp.path().join("other"), &mut |_| {})
                .unwrap_err()
        };
        assert!(matches!(error("/away"), FetchError::UnsafeRedirect(to) if to == "http://example.org/file"));
        assert!(matches!(error("/loop"), FetchError::TooManyRedirects));
    }

    #[test]
    fn an_interrupted_transfer_is_resumed_behind_a_redirect() {
        let server = Server::start(|number, head| {
            let path = head.split_whitespace().nth(1);
            match (number, path) {
                (_, Some("/file")) => answer("302 Found", "Location: /real\r\nContent-Length: 0\r\n", b""),
                (1, _) => answer("200 OK", "Content-Length: 11\r\nETag: \"v1\"\r\n", b"hello "),
                _ => {
                    assert!(head.contains("range: bytes=6-") && head.contains("if-range: \"v1\""), "{head}");
                    let headers = "Content-Length: 5\r\nContent-Range: bytes 6-10/11\r\n";
                    answer("206 Partial Content", headers, b"world")
                }
            }
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        fetch(&server, &place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"hello world");
        assert_eq!(server.requests.lock().unwrap().len(), 4);
    }

    #[test]
    fn only_https_and_file_urls_are_accepted() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        for url in ["http://127.0.0.1:9/x", "ftp://host/x", "data"] {
            let error = DownloadClient::new().fetch(url, &place, &mut |_| {}).unwrap_err();
            assert!(matches!(error, FetchError::Address(_)), "{error}");
        }
        let source = temp.path().join("source");
        fs::write(&source, "local").unwrap();
        DownloadClient::new().fetch(&format!("file://{}", source.display()), &place, &mut |_| {}).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"local");
    }
}
