//! Downloads: over https (or from a file URL), resumed where a transfer broke off, moved to their
//! place only when they are whole.
//!
//! While it runs, a download is `<file>.part`, with what the server called the version beside it in
//! `<file>.part.version`. A rest is asked for only of that same version, so that the two ends of a
//! file never come from different contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{Response, StatusCode, header};

use pipe_core::digest::BlobId;

/// How far a download is. `total` is what the server says, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` is neither an https nor a file address")]
    Address(String),
    #[error("the server sends us on to `{0}`, which is not an https address")]
    UnsafeRedirect(String),
    #[error("the server sends us on and on")]
    TooManyRedirects,
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the transfer broke off after {done} bytes: {reason}; run again to go on from there")]
    Broken { done: u64, reason: String },
}

impl FetchError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Unreachable(_) => true,
            Self::Status(status) => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }
}

const ATTEMPTS: u32 = 4;
const REDIRECTS: u32 = 8;
const SILENCE: Duration = Duration::from_secs(60);

pub struct Client {
    agent: ureq::Agent,
    pause: Duration,
    /// For tests, which have no certificate for 127.0.0.1.
    loopback_http: bool,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    pub fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("pipe/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .build();
        Self { agent: config.new_agent(), pause: Duration::from_secs(1), loopback_http: false }
    }

    /// One that may talk to a server of the test itself.
    #[cfg(test)]
    pub(super) fn for_loopback() -> Self {
        Self { pause: Duration::ZERO, loopback_http: true, ..Self::new() }
    }

    /// Fetches `url` to `place`, whose directory is made if need be.
    pub fn fetch(
        &self,
        url: &str,
        place: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), FetchError> {
        let directory = place.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(FetchError::io("create", directory))?;
        if let Some(path) = url.strip_prefix("file://") {
            return copy(Path::new(path), place);
        }
        let mut part = Part::open(place)?;
        if place.exists() {
            return Ok(()); // Another process was faster while we waited for the lock.
        }
        let mut attempt = 1;
        loop {
            match self.transfer(url, &mut part, progress) {
                Ok(()) => return part.complete(place),
                Err(error) if attempt < ATTEMPTS && error.may_pass() => {
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
        part: &mut Part,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), FetchError> {
        let resumable = part.resumable()?;
        let response = self.request(url, resumable.as_ref())?;
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let length = header(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
        let version = header(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let version = version.or_else(|| header(header::LAST_MODIFIED)).map(str::to_owned);
        let mut done = match (response.status(), resumable) {
            (StatusCode::PARTIAL_CONTENT, Some(rest)) if starts_at(&response, rest.from) => rest.from,
            (StatusCode::OK, _) => part.restart(version.as_deref())?,
            (StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE, _) => {
                part.restart(None)?;
                return Err(FetchError::Broken {
                    done: 0,
                    reason: "the server has another version".to_owned(),
                });
            }
            (status, _) => return Err(FetchError::Status(status)),
        };
        let total = length.map(|length| done + length);
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            progress(Progress { done, total });
            match body.read(&mut buffer) {
                Ok(0) if total.is_none_or(|total| done == total) => return Ok(()),
                Ok(0) => return Err(FetchError::Broken { done, reason: "the server closed it".to_owned() }),
                Ok(count) => part.write(&buffer[..count])?,
                Err(error) => return Err(FetchError::Broken { done, reason: error.to_string() }),
            }
            done = part.length()?;
        }
    }

    fn request(&self, url: &str, rest: Option<&Rest>) -> Result<Response<ureq::Body>, FetchError> {
        let mut url = url.to_owned();
        if !self.allows(&url) {
            return Err(FetchError::Address(url));
        }
        for _ in 0..REDIRECTS {
            let mut request = self.agent.get(&url);
            if let Some(rest) = rest {
                request = request
                    .header(header::RANGE, format!("bytes={}-", rest.from))
                    .header(header::IF_RANGE, &rest.version);
            }
            let response = request.call().map_err(|error| FetchError::Unreachable(error.to_string()))?;
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            match location.filter(|_| response.status().is_redirection()) {
                None => return Ok(response),
                Some(location) => url = resolved(&url, location),
            }
            if !self.allows(&url) {
                return Err(FetchError::UnsafeRedirect(url));
            }
        }
        Err(FetchError::TooManyRedirects)
    }

    fn allows(&self, url: &str) -> bool {
        url.starts_with("https://") || (self.loopback_http && url.starts_with("http://127.0.0.1:"))
    }
}

/// A redirect may leave out the host.
fn resolved(url: &str, location: &str) -> String {
    let host_ends = url.find("://").map(|at| at + 3).and_then(|at| Some(at + url[at..].find('/')?));
    match host_ends {
        Some(end) if location.starts_with('/') && !location.starts_with("//") => {
            format!("{}{location}", &url[..end])
        }
        _ => location.to_owned(),
    }
}

fn starts_at(response: &Response<ureq::Body>, from: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// What is still wanted, and of which version.
struct Rest {
    from: u64,
    version: String,
}

/// A download that is not whole yet. Locked, so that of two processes that want the same file one
/// fetches it and the other waits.
struct Part {
    path: PathBuf,
    version_path: PathBuf,
    file: File,
}

impl Part {
    fn open(place: &Path) -> Result<Self, FetchError> {
        let beside = |end: &str| {
            let mut name = place.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let path = beside(".part");
        let open = || {
            let file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        let file = open().map_err(FetchError::io("write", &path))?;
        Ok(Self { version_path: beside(".part.version"), path, file })
    }

    fn length(&self) -> Result<u64, FetchError> {
        self.file.metadata().map(|meta| meta.len()).map_err(FetchError::io("read", &self.path))
    }

    fn resumable(&self) -> Result<Option<Rest>, FetchError> {
        let from = self.length()?;
        let version = fs::read_to_string(&self.version_path).ok().filter(|_| from > 0);
        Ok(version.map(|version| Rest { from, version }))
    }

    /// Drops what is there, before content of the given version comes; gives the new length, 0.
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

    fn complete(self, place: &Path) -> Result<(), FetchError> {
        let complete = || {
            self.file.sync_all()?;
            remove_if_there(&self.version_path)?;
            fs::rename(&self.path, place)
        };
        complete().map_err(FetchError::io("write", place))
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy(from: &Path, place: &Path) -> Result<(), FetchError> {
    let directory = place.parent().unwrap_or(Path::new("."));
    let copy = || {
        let mut target = tempfile::NamedTempFile::new_in(directory)?;
        io::copy(&mut File::open(from)?, &mut target)?;
        target.persist(place).map(drop).map_err(io::Error::from)
    };
    copy().map_err(FetchError::io("copy", from))
}

/// blake3 and length of a file.
pub fn digest_file(path: &Path) -> io::Result<(BlobId, u64)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_mmap_rayon(path)?;
    Ok((BlobId::new(hasher.finalize().into()), hasher.count()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Answers each request with what `answer` makes of its number and its head, then closes.
    pub(crate) struct Server {
        pub address: String,
        pub requests: Arc<Mutex<Vec<String>>>,
    }

    impl Server {
        pub(crate) fn start(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
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
        Client::for_loopback().fetch(&format!("{}/file", server.address), place, &mut |_| {})
    }

    #[test]
    fn a_broken_transfer_goes_on_where_it_broke_off() {
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
        Client::for_loopback()
            .fetch(&format!("{}/file", server.address), &place, &mut |p| seen.push(p))
            .unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"hello world");
        assert_eq!(seen.last(), Some(&Progress { done: 11, total: Some(11) }));
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn another_version_is_fetched_from_its_start() {
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
    fn without_a_version_nothing_is_resumed() {
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
    fn a_transfer_that_never_gets_through_leaves_its_part_for_the_next_run() {
        let server = Server::start(|_, _| answer("200 OK", "Content-Length: 9\r\nETag: \"v1\"\r\n", b"hell"));
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        assert!(matches!(fetch(&server, &place), Err(FetchError::Broken { done: 4, .. })));
        assert!(!place.exists() && temp.path().join("file.part").exists());
        assert_eq!(server.requests.lock().unwrap().len(), ATTEMPTS as usize);
    }

    #[test]
    fn what_is_not_there_is_said_at_once() {
        let server = Server::start(|_, _| answer("404 Not Found", "Content-Length: 0\r\n", b""));
        let temp = tempfile::tempdir().unwrap();
        let error = fetch(&server, &temp.path().join("file")).unwrap_err();
        assert!(matches!(error, FetchError::Status(StatusCode::NOT_FOUND)), "{error}");
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }

    #[test]
    fn redirects_are_followed_unless_they_leave_https() {
        let server = Server::start(|_, head| {
            let to = |to: &str| answer("302 Found", &format!("Location: {to}\r\nContent-Length: 0\r\n"), b"");
            match head.split_whitespace().nth(1) {
                Some("/file") => to("/real"),
                Some("/real") => answer("200 OK", "Content-Length: 2\r\n", b"ok"),
                Some("/loop") => to("/loop"),
                _ => to("http://example.org/file"),
            }
        });
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        fetch(&server, &place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"ok");
        let error = |path: &str| {
            let url = format!("{}{path}", server.address);
            Client::for_loopback().fetch(&url, &temp.path().join("other"), &mut |_| {}).unwrap_err()
        };
        assert!(matches!(error("/away"), FetchError::UnsafeRedirect(to) if to == "http://example.org/file"));
        assert!(matches!(error("/loop"), FetchError::TooManyRedirects));
    }

    #[test]
    fn only_https_and_file_addresses_are_taken() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("file");
        for url in ["http://127.0.0.1:9/x", "ftp://host/x", "data"] {
            let error = Client::new().fetch(url, &place, &mut |_| {}).unwrap_err();
            assert!(matches!(error, FetchError::Address(_)), "{error}");
        }
        let source = temp.path().join("source");
        fs::write(&source, "local").unwrap();
        Client::new().fetch(&format!("file://{}", source.display()), &place, &mut |_| {}).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"local");
    }
}
