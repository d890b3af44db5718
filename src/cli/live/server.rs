//! A server for one page and its events. Answers are complete or closed; nothing is kept alive.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::feed::{Feed, News};
use super::request::{Answer, Request};

/// Connections at once; a browser needs two.
const CONNECTIONS: usize = 32;
const HEAD: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);
/// A silent stream says something this often, so that a reader that went away is noticed.
const ALIVE: Duration = Duration::from_secs(10);
/// Events go out in bundles, at most this often.
const BUNDLE: Duration = Duration::from_millis(100);

pub(super) struct Server {
    pub feed: Arc<Feed>,
    pub html: String,
    pub policy: String,
    pub token: String,
    pub port: u16,
}

impl Server {
    /// Until the process ends.
    pub(super) fn run(self, listener: &TcpListener) {
        let server = Arc::new(self);
        let open = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(BUNDLE);
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (server, count) = (Arc::clone(&server), Arc::clone(&open));
            let answer = move || {
                // A browser that went away is no error.
                let _ = server.answer(stream);
                count.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name("live reader".to_owned()).spawn(answer).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(&mut stream)?;
        let request = std::str::from_utf8(&head).ok().and_then(Request::parse);
        match request
            .map_or(Answer::Refused("400 Bad Request"), |request| request.judge(&self.token, self.port))
        {
            Answer::Page => {
                let head = self.head("200 OK", "text/html; charset=utf-8", Some(self.html.len()));
                stream.write_all(head.as_bytes())?;
                stream.write_all(self.html.as_bytes())
            }
            Answer::Events => {
                stream.write_all(self.head("200 OK", "text/event-stream", None).as_bytes())?;
                self.stream(&mut stream)
            }
            Answer::Refused(status) => {
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
            match reader.next(ALIVE) {
                News::End => return Ok(()),
                News::Nothing => stream.write_all(b": alive\n\n")?,
                News::Lines(lines) => {
                    let bundle: String = lines.iter().map(|line| format!("data: {line}\n\n")).collect();
                    stream.write_all(bundle.as_bytes())?;
                    std::thread::sleep(BUNDLE);
                }
            }
        }
    }
}

fn read_head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut part)?;
        if length == 0 || head.len() + length > HEAD {
            return Err(ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&part[..length]);
    }
    Ok(head)
}
