//! An HTTP server for one page and its stream of events. It closes every connection after one response.
//!
//! Written by hand: it is about 100 lines, and with `hyper`, which `pipe serve` uses, the checks of token, host and policy,
//! which are most of it and are tested here, would stay, and so would the threads, because readers of the feed block.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::feed::{Feed, Received};
use super::request::{HttpRequest, HttpResponse};

/// How many connections may be open at once; a browser needs two.
const MOST_CONNECTIONS: usize = 32;
/// The largest head of a request.
const LARGEST_HEAD: usize = 8 << 10;
/// How long reading the whole head of a request, or one write, may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a comment is sent while there are no events, so that a closed connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Events are sent in batches, at most this often.
const BATCH: Duration = Duration::from_millis(100);

/// The page, its events, and who may read them.
pub(super) struct Server {
    pub feed: Arc<Feed>,
    pub html: String,
    pub policy: String,
    pub token: String,
    pub port: u16,
}

impl Server {
    /// Serves until the process ends.
    pub(super) fn run(self, listener: &TcpListener) {
        let server = Arc::new(self);
        let open = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(BATCH);
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (server, count) = (Arc::clone(&server), Arc::clone(&open));
            let respond = move || {
                // A browser that closed the connection is not an error.
                let _ = server.respond(stream);
                count.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name("live reader".to_owned()).spawn(respond).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn respond(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = read_head(&mut stream, Instant::now() + TIMEOUT)?;
        let request = std::str::from_utf8(&head).ok().and_then(HttpRequest::parse);
        match request.map_or(HttpResponse::Refused("400 Bad Request"), |request| {
            request.response(&self.token, self.port)
        }) {
            HttpResponse::Page => {
                let head = self.head("200 OK", "text/html; charset=utf-8", Some(self.html.len()));
                stream.write_all(head.as_bytes())?;
                stream.write_all(self.html.as_bytes())
            }
            HttpResponse::Events => {
                stream.write_all(self.head("200 OK", "text/event-stream", None).as_bytes())?;
                self.stream(&mut stream)
            }
            HttpResponse::Refused(status) => {
                stream.write_all(self.head(status, "text/plain; charset=utf-8", Some(0)).as_bytes())
            }
        }
    }

    fn head(&self, status: &str, media: &str, length: Option<usize>) -> String {
        let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media}\r\n{length}Connection: close\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: {}\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\r\n",
            self.policy
        )
    }

    fn stream(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut reader = self.feed.reader();
        loop {
            match reader.next(KEEP_ALIVE) {
                Received::End => return Ok(()),
                Received::Nothing => stream.write_all(b": alive\n\n")?,
                Received::Events(events) => {
                    let batch: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
                    stream.write_all(batch.as_bytes())?;
                    std::thread::sleep(BATCH);
                }
            }
        }
    }
}

/// Reads the head of a request. The deadline is for all of it, so that sending it byte by byte gains no time.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let length = stream.read(&mut part)?;
        if length == 0 || head.len() + length > LARGEST_HEAD {
            return Err(ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&part[..length]);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_sent_byte_by_byte_does_not_hold_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let sender = std::thread::spawn(move || {
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(50));
                if slow.write_all(b"G").is_err() {
                    return;
                }
            }
        });
        let started = Instant::now();
        read_head(&mut stream, started + Duration::from_millis(300)).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        drop(stream);
        sender.join().unwrap();
    }
}
