//! A static web site as a remote, which can only be read, and the requests that it shares with buckets.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use ureq::SendBody;
use ureq::http::{Request, StatusCode, header};

use super::backend::{Backend, BackendError, Listed};
use super::outgoing::{Length, Outgoing};
use crate::runner::Stop;
use pipe_core::authorities;

/// The longest time without any data from the server.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time until the server begins to answer. After an upload, it may have to write the content to its disks.
const PATIENCE_FOR_ANSWER: Duration = Duration::from_secs(15);
const PATIENCE_AFTER_UPLOAD: Duration = Duration::from_secs(60);
/// How many bytes a server writes per second, at least.
const SLOWEST_SERVER: u64 = 10_000_000;
const ATTEMPTS: u32 = 3;
/// How long to wait before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a thread that waits for the server looks whether the user wants to stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// The content that is received at once, and how often that much is received ahead of whoever reads it.
const CHUNK: usize = 256 << 10;
const CHUNKS_AHEAD: usize = 8;

/// Sends requests, and repeats those that failed for a passing reason.
///
/// Each request has a thread of its own, which nobody waits for after a stop: no system call of it can then delay the end
/// of the program. It also receives the answer while its reader works on what came before.
pub(super) struct Client {
    agent: ureq::Agent,
    stop: Stop,
}

/// The answer of a server. Its content arrives in the background.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) etag: Option<String>,
    content: Content,
}

impl Answer {
    /// Returns the content, which ends with an error if the server sends less than it announced, or if the user wants
    /// to stop.
    pub(super) fn into_content(self) -> Box<dyn Read + Send> {
        Box::new(self.content)
    }
}

impl Client {
    pub(super) fn new(redirects: u32, stop: Stop) -> Result<Self, String> {
        let tls_config = authorities::tls_config().map_err(|error| error.to_string())?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(redirects)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_per_read(Some(PATIENCE))
            .timeout_per_write(Some(PATIENCE))
            .user_agent(concat!("pipe/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .tls_config(tls_config)
            .build();
        Ok(Self { agent: config.new_agent(), stop })
    }

    /// Sends the request that `request` returns, with content if there is any.
    pub(super) fn send(
        &self,
        url: &str,
        content: Option<&dyn Outgoing>,
        request: &dyn Fn() -> Result<Request<()>, ureq::http::Error>,
    ) -> Result<Answer, BackendError> {
        let failed = |what: String| BackendError(format!("cannot reach {url}: {what}"));
        let mut attempt = 1;
        loop {
            let request = request().map_err(|error| failed(error.to_string()))?;
            let body = content.map(|content| Ok((content.open()?, content.length()))).transpose();
            let answer = body.and_then(|body| self.begin(request, body));
            let answer = answer.map_err(|error: io::Error| failed(error.to_string()))?;
            let Some(sent) = receive(&answer, &self.stop) else { return Err(failed(STOPPED.to_owned())) };
            let is_passing = match &sent {
                Ok(answer) => is_passing_status(answer.status),
                Err(error) => is_passing_error(error),
            };
            if !is_passing || attempt == ATTEMPTS {
                return sent.map_err(|error| failed(error.to_string()));
            }
            std::thread::sleep(PAUSE * attempt);
            attempt += 1;
        }
    }

    /// Starts the thread of a request. The answer arrives at the receiver.
    fn begin(
        &self,
        request: Request<()>,
        content: Option<(Box<dyn Read + Send>, Length)>,
    ) -> io::Result<Receiver<Result<Answer, ureq::Error>>> {
        let (sender, receiver) = sync_channel(1);
        let (agent, stop) = (self.agent.clone(), self.stop.clone());
        std::thread::Builder::new().name("request".to_owned()).spawn(move || {
            let patience = match &content {
                Some((_, Length::Exactly(bytes) | Length::About(bytes))) => {
                    PATIENCE_AFTER_UPLOAD + Duration::from_secs(bytes / SLOWEST_SERVER)
                }
                None => PATIENCE_FOR_ANSWER,
            };
            let request = agent
                .configure_request(request)
                .timeout_recv_response(Some(patience))
                .timeout_per_read(Some(patience.max(PATIENCE)))
                .build();
            let (mut parts, ()) = request.into_parts();
            let sent = match content {
                Some((content, length)) => {
                    if let Length::Exactly(length) = length {
                        parts.headers.insert(header::CONTENT_LENGTH, length.into());
                    }
                    let mut content = Interruptible { content, stop: stop.clone() };
                    agent.run(Request::from_parts(parts, SendBody::from_reader(&mut content)))
                }
                None => agent.run(Request::from_parts(parts, ())),
            };
            // If nobody waits any more, the run was stopped.
            let response = match sent {
                Ok(response) => response,
                Err(error) => return drop(sender.send(Err(error))),
            };
            let text = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
            let announced = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
            let etag = text(header::ETAG);
            let (chunks, arriving) = sync_channel(CHUNKS_AHEAD);
            let content = Content { arriving, chunk: Vec::new(), read: 0, announced, received: 0, stop };
            if sender.send(Ok(Answer { status: response.status(), etag, content })).is_ok() {
                pass_on(&mut response.into_body().into_reader(), &chunks);
            }
        })?;
        Ok(receiver)
    }
}

/// An upload that ends when the user wants to stop, although nobody waits for it then: it should not use the network.
struct Interruptible {
    content: Box<dyn Read + Send>,
    stop: Stop,
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.requested().is_some() {
            return Err(io::Error::other(STOPPED));
        }
        self.content.read(buffer)
    }
}

const STOPPED: &str = "the run was stopped";

/// Waits for what a thread sends. Returns `None` if the user wants to stop.
fn receive<T>(receiver: &Receiver<T>, stop: &Stop) -> Option<T> {
    loop {
        match receiver.recv_timeout(STOP_POLL) {
            Ok(value) => return Some(value),
            Err(RecvTimeoutError::Timeout) if stop.requested().is_none() => {}
            Err(_) => return None,
        }
    }
}

/// Passes content on in chunks, until it ends or nobody wants it any more.
fn pass_on(content: &mut dyn Read, chunks: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = match content.read(&mut buffer) {
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = chunk.as_ref().map_or(true, Vec::is_empty);
        if chunks.send(chunk).is_err() || is_last {
            return;
        }
    }
}

/// The content of an answer. An empty chunk is its end.
struct Content {
    arriving: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// How much of the chunk was read.
    read: usize,
    /// The length that the server announced.
    announced: Option<u64>,
    received: u64,
    stop: Stop,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            let chunk = receive(&self.arriving, &self.stop);
            self.chunk = chunk.ok_or_else(|| io::Error::other(STOPPED))??;
            self.read = 0;
            self.received += self.chunk.len() as u64;
            if self.chunk.is_empty() && self.announced.is_some_and(|length| self.received < length) {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
        let count = (&self.chunk[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
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
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::InvalidData
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
    pub(super) fn new(url: &str, stop: Stop) -> Result<Self, String> {
        Ok(Self { client: Client::new(8, stop)?, url: url.trim_end_matches('/').to_owned() })
    }

    fn request(&self, method: &str, path: &str) -> Result<Option<Answer>, BackendError> {
        let url = format!("{}/{path}", self.url);
        let answer =
            self.client.send(&self.url, None, &|| Request::builder().method(method).uri(&url).body(()))?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer)),
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
        Ok(self.request("GET", path)?.map(Answer::into_content))
    }

    fn put(&self, _: &str, _: &dyn Outgoing) -> Result<u64, BackendError> {
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
