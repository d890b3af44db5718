//! A bucket that misbehaves: a small server that speaks as much of the protocol of S3 as `pipe` uses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What the server does instead of answering a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehaviour {
    /// Closes the connection without an answer.
    Drop,
    /// Does what it is asked to, but closes the connection without an answer.
    DropAnswer,
    /// Answers late.
    Delay,
    /// Sends half of the answer.
    Truncate,
    /// Sends an answer that is complete but has a wrong byte.
    Garble,
    /// Says that something went wrong on the server.
    ServerError,
    /// Says that the request is not allowed.
    Forbidden,
    /// Says that the file is not there.
    NotFound,
}

impl Misbehaviour {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Drop,
        Self::DropAnswer,
        Self::Delay,
        Self::Truncate,
        Self::Garble,
        Self::ServerError,
        Self::Forbidden,
        Self::NotFound,
    ];
}

/// Which requests the server does not answer as it should.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// What it does instead.
    pub what: Misbehaviour,
    /// The first such request, counted from 0.
    pub from: u64,
    /// How many there are; `None` for all that follow.
    pub count: Option<u64>,
}

const LATE: Duration = Duration::from_millis(300);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    trouble: Option<Trouble>,
    requests: u64,
    faults: u64,
}

/// A bucket on this machine. The server ends when this is dropped.
pub struct Bucket {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_closed: Arc<AtomicBool>,
}

impl Bucket {
    /// Starts the server of an empty bucket.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let bucket =
            Self { address: listener.local_addr()?, state: Arc::default(), is_closed: Arc::default() };
        let (served, is_closed) = (bucket.state.clone(), bucket.is_closed.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let state = served.clone();
                std::thread::spawn(move || serve(&connection, &state));
            }
        });
        Ok(bucket)
    }

    /// Returns the address of the server, `http://127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes some of the following requests fail, or none.
    pub fn misbehave(&self, trouble: Option<Trouble>) {
        let mut state = lock(&self.state);
        state.trouble = trouble;
        state.requests = 0;
    }

    /// Flips a bit of the n-th object. Returns whether there is an object.
    pub fn damage(&self, n: u64, bit: u64) -> bool {
        let mut state = lock(&self.state);
        let count = state.objects.len().max(1);
        let Some(object) = state.objects.values_mut().nth(n as usize % count) else { return false };
        let bit = bit as usize % (object.len() * 8).max(1);
        if let Some(byte) = object.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        true
    }

    /// Returns how many requests were not answered as they should have been.
    pub fn faults(&self) -> u64 {
        lock(&self.state).faults
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Wakes the server, which waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
}

/// Answers one request and closes the connection. Whatever goes wrong here looks to `pipe` like one more fault.
fn serve(mut connection: &TcpStream, state: &Mutex<State>) {
    let Some(request) = receive(connection) else { return };
    let trouble = next_misbehaviour(state);
    if trouble == Some(Misbehaviour::Drop) {
        count_fault(state);
        return;
    }
    if trouble == Some(Misbehaviour::Delay) {
        std::thread::sleep(LATE);
    }
    let (status, mut content) = match trouble {
        Some(Misbehaviour::ServerError) => {
            ("500 Internal Server Error", b"<Code>InternalError</Code>".to_vec())
        }
        Some(Misbehaviour::Forbidden) => ("403 Forbidden", b"<Code>AccessDenied</Code>".to_vec()),
        Some(Misbehaviour::NotFound) => ("404 Not Found", b"<Code>NoSuchKey</Code>".to_vec()),
        _ => answer(&request, state),
    };
    let length = content.len();
    if request.method == "HEAD" {
        content.clear();
    }
    match trouble {
        None => {}
        // An empty answer can be neither changed nor cut short.
        Some(Misbehaviour::Garble | Misbehaviour::Truncate) if content.is_empty() => {}
        Some(_) => count_fault(state),
    }
    match trouble {
        Some(Misbehaviour::DropAnswer) => return,
        Some(Misbehaviour::Garble) => {
            if let Some(byte) = content.get_mut(length / 2) {
                *byte ^= 1;
            }
        }
        Some(Misbehaviour::Truncate) => content.truncate(length / 2),
        _ => {}
    }
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = connection.write_all(&[head.as_bytes(), &content].concat());
}

/// Counts a request, and returns what to do instead of answering it.
fn next_misbehaviour(state: &Mutex<State>) -> Option<Misbehaviour> {
    let mut state = lock(state);
    let number = state.requests;
    state.requests += 1;
    let Trouble { what, from, count } = state.trouble?;
    let is_meant = number >= from && count.is_none_or(|count| number < from + count);
    is_meant.then_some(what)
}

fn count_fault(state: &Mutex<State>) {
    lock(state).faults += 1;
}

fn receive(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok()?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), body })
}

fn answer(request: &Request, state: &Mutex<State>) -> (&'static str, Vec<u8>) {
    // The first component is the name of the bucket.
    let key = request.path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key);
    let mut state = lock(state);
    let found = |object: Option<&Vec<u8>>| match object {
        Some(object) => ("200 OK", object.clone()),
        None => ("404 Not Found", b"<Code>NoSuchKey</Code>".to_vec()),
    };
    match request.method.as_str() {
        "PUT" => {
            state.objects.insert(key.to_owned(), request.body.clone());
            ("200 OK", Vec::new())
        }
        "DELETE" => {
            state.objects.remove(key);
            ("204 No Content", Vec::new())
        }
        "GET" if key.is_empty() => ("200 OK", listing(&state.objects, &request.query)),
        _ => found(state.objects.get(key)),
    }
}

fn listing(objects: &BTreeMap<String, Vec<u8>>, query: &str) -> Vec<u8> {
    let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2F", "/");
    let entries = objects.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(key, object)| {
        format!("<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>", object.len())
    });
    format!("<ListBucketResult>{}</ListBucketResult>", entries.collect::<String>()).into_bytes()
}
