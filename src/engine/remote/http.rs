//! A static web site as a remote, which can only be read, and the requests that it shares with buckets.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::Duration;

use ureq::SendBody;
use ureq::http::{Request, Response, StatusCode, header};

use super::backend::{Backend, BackendError, Listed};
use crate::runner::{Stop, Urgency};

/// The longest time without any data from the server.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time until the server begins to answer. After an upload, it may have to write the content to its disks.
const PATIENCE_FOR_ANSWER: Duration = Duration::from_secs(15);
const PATIENCE_AFTER_UPLOAD: Duration = Duration::from_secs(60);
const ATTEMPTS: u32 = 3;
/// How long to wait before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends requests, and repeats those that failed for a passing reason.
pub(super) struct Client {
    agent: ureq::Agent,
    stop: Stop,
}

impl Client {
    pub(super) fn new(redirects: u32, stop: Stop) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(redirects)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_per_read(Some(PATIENCE))
            .timeout_per_write(Some(PATIENCE))
            .user_agent(concat!("pipe/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .build();
        Self { agent: config.new_agent(), stop }
    }

    /// Sends the request that `request` returns, with the content of a file if there is one.
    pub(super) fn send(
        &self,
        url: &str,
        mut content: Option<&File>,
        request: &dyn Fn() -> Result<Request<()>, ureq::http::Error>,
    ) -> Result<Response<ureq::Body>, BackendError> {
        let failed = |what: String| BackendError(format!("cannot reach {url}: {what}"));
        let mut attempt = 1;
        loop {
            let request = request().map_err(|error| failed(error.to_string()))?;
            let patience = if content.is_some() { PATIENCE_AFTER_UPLOAD } else { PATIENCE_FOR_ANSWER };
            let request = self.agent.configure_request(request).timeout_recv_response(Some(patience)).build();
            let (mut parts, ()) = request.into_parts();
            let sent = match &mut content {
                Some(file) => {
                    let length = file.rewind().and_then(|()| file.metadata());
                    let length = length.map_err(|error| failed(error.to_string()))?.len();
                    parts.headers.insert(header::CONTENT_LENGTH, length.into());
                    let mut body = Interruptible { content: file, stop: &self.stop };
                    self.agent.run(Request::from_parts(parts, SendBody::from_reader(&mut body)))
                }
                None => self.agent.run(Request::from_parts(parts, ())),
            };
            let is_passing = match &sent {
                Ok(response) => is_passing_status(response.status()),
                Err(error) => is_passing_error(error),
            };
            if !is_passing || attempt == ATTEMPTS {
                return sent.map_err(|error| failed(error.to_string()));
            }
            std::thread::sleep(PAUSE * attempt);
            attempt += 1;
        }
    }
}

fn is_passing_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

/// Returns whether a request may succeed at once if it is repeated: the server may have closed an idle connection.
fn is_passing_error(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => !matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable
        ),
        ureq::Error::Protocol(_) => true,
        _ => false,
    }
}

/// The files of a remote on a web site.
pub(super) struct WebSite {
    client: Client,
    url: String,
}

impl WebSite {
    pub(super) fn new(url: &str, stop: Stop) -> Self {
        Self { client: Client::new(8, stop), url: url.trim_end_matches('/').to_owned() }
    }

    fn request(&self, method: &str, path: &str) -> Result<Option<Response<ureq::Body>>, BackendError> {
        let url = format!("{}/{path}", self.url);
        let response =
            self.client.send(&self.url, None, &|| Request::builder().method(method).uri(&url).body(()))?;
        match response.status() {
            StatusCode::OK => Ok(Some(response)),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status => Err(BackendError(format!("{} answered {status} to a request for {path}", self.url))),
        }
    }

    fn read_only<T>(&self) -> Result<T, BackendError> {
        Err(BackendError(format!("{} is a web site, which can only be read", self.url)))
    }
}

impl Backend for WebSite {
    fn get(&self, path: &str) -> Result<Option<Box<dyn Read + Send>>, BackendError> {
        Ok(self.request("GET", path)?.map(content))
    }

    fn put(&self, _: &str, _: &File) -> Result<(), BackendError> {
        self.read_only()
    }

    fn exists(&self, path: &str) -> Result<bool, BackendError> {
        Ok(self.request("HEAD", path)?.is_some())
    }

    fn list(&self, _: &str) -> Result<Vec<Listed>, BackendError> {
        self.read_only()
    }

    fn remove(&self, _: &str) -> Result<(), BackendError> {
        self.read_only()
    }

    fn only_gets(&self) -> bool {
        true
    }
}

/// An upload that fails when the user wants to stop at once.
struct Interruptible<'a> {
    content: &'a File,
    stop: &'a Stop,
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.requested() == Some(Urgency::Now) {
            return Err(io::Error::other("the run was stopped"));
        }
        self.content.read(buffer)
    }
}

/// Returns the content of a response, which ends with an error if the server sends less than it announced.
pub(super) fn content(response: Response<ureq::Body>) -> Box<dyn Read + Send> {
    let length = response.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    Box::new(Announced { body: response.into_body().into_reader(), length, read: 0 })
}

struct Announced<R> {
    body: R,
    length: Option<u64>,
    read: u64,
}

impl<R: Read> Read for Announced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        self.read += count as u64;
        if count == 0 && !buffer.is_empty() && self.length.is_some_and(|length| self.read < length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        Ok(count)
    }
}
