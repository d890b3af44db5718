//! A bucket of S3, or of a server that speaks its protocol, as a remote.
//!
//! A few kinds of requests are signed here by hand (AWS Signature Version 4), with the hashes of `ring`, which TLS
//! needs anyway. `rusty-s3` would add 37 crates to the build for the same.

use std::fmt::Write as _;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::{digest, hmac};
use ureq::http::{Request, StatusCode};

use super::backend::{Backend, BackendError, Listed};
use super::http::{Answer, Client};
use super::outgoing::{Length, Outgoing};
use super::permits::{Permit, Permits};
use crate::runner::Stop;

/// Content of known length is written by one request up to this size. S3 allows 5 GiB.
const LARGEST_PUT: u64 = 4 << 30;
/// Other content is written in parts of at least this size, which are held in memory. S3 wants them to have at least 5 MiB.
const PART: u64 = 16 << 20;
/// How many parts, of all uploads together, are in memory at the same time.
const PARTS_IN_MEMORY: usize = 6;
/// S3 allows 10,000 parts.
const MOST_PARTS: u64 = 9_500;
const LARGEST_ANSWER: u64 = 16 << 20;

/// The files of a remote in a bucket, below a prefix.
pub(super) struct Bucket {
    client: Client,
    name: String,
    /// Empty, or ends with a slash.
    prefix: String,
    /// The scheme and host of every request.
    origin: String,
    host: String,
    /// Empty, or the bucket if it is not part of the host: `/bucket`.
    base: String,
    region: String,
    credentials: Option<Credentials>,
    memory: Permits,
}

struct Credentials {
    id: String,
    secret: String,
    token: Option<String>,
}

impl Bucket {
    /// Creates the bucket of an address such as `s3://bucket/prefix`. Everything else is in the environment, under
    /// the names that other programs use.
    pub(super) fn new(
        address: &str,
        environment: &dyn Fn(&str) -> Option<String>,
        stop: Stop,
    ) -> Result<Self, String> {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let (name, prefix) = address.split_once('/').unwrap_or((address, ""));
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if name.is_empty() || !name.chars().all(allowed) {
            return Err("an address of a bucket is `s3://BUCKET` or `s3://BUCKET/PREFIX`".to_owned());
        }
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let (origin, base) = match set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL")) {
            Some(endpoint) => (endpoint.trim_end_matches('/').to_owned(), format!("/{name}")),
            // A certificate for `*.s3...` is not valid for a name with a dot.
            None if name.contains('.') => (format!("https://s3.{region}.amazonaws.com"), format!("/{name}")),
            None => (format!("https://{name}.s3.{region}.amazonaws.com"), String::new()),
        };
        let host = origin.split_once("://").map(|(_, host)| host).filter(|host| !host.contains('/'));
        let Some(host) = host.map(str::to_owned) else {
            return Err(format!(
                "AWS_ENDPOINT_URL is `{origin}`, but `https://HOST` or `http://HOST:PORT` is expected"
            ));
        };
        let credentials = match (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Some(Credentials { id, secret, token: set("AWS_SESSION_TOKEN") }),
            (None, None) => None,
            _ => return Err("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have to be set together".to_owned()),
        };
        Ok(Self {
            client: Client::new(0, stop)?,
            name: name.to_owned(),
            prefix,
            origin,
            host,
            base,
            region,
            credentials,
            memory: Permits::new(PARTS_IN_MEMORY),
        })
    }

    /// Sends a request for a file of the remote, or for the bucket itself if `path` is empty.
    fn send(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        content: Option<&dyn Outgoing>,
    ) -> Result<Answer, BackendError> {
        let key =
            if path.is_empty() { String::new() } else { encode(&format!("{}{path}", self.prefix), true) };
        let path = format!("{}/{key}", self.base);
        let query = canonical_query(query);
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{query}", self.origin);
        self.client.send(&self.origin, content, &|| {
            let mut request = Request::builder().method(method).uri(&url);
            if let Some(credentials) = &self.credentials {
                let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
                let unsigned =
                    UnsignedRequest { method, path: &path, query: &query, host: &self.host, time: &time };
                for (name, value) in unsigned.signed_headers(credentials, &self.region) {
                    request = request.header(name, value);
                }
            }
            request.body(())
        })
    }

    /// Returns a sentence about an answer that is an error, with what the server says and what to do.
    fn refused(&self, doing: &str, answer: Answer) -> BackendError {
        let status = answer.status;
        let mut text = String::new();
        let _ = answer.into_content().take(LARGEST_ANSWER).read_to_string(&mut text);
        self.explain(doing, status, &text)
    }

    fn explain(&self, doing: &str, status: StatusCode, text: &str) -> BackendError {
        let code = element(text, "Code").unwrap_or_default();
        let hint = match code.as_str() {
            "RequestTimeTooSkewed" => "set the clock of this machine, which differs from that of the server",
            "NoSuchBucket" => "create the bucket, or correct the address of the remote",
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" => {
                "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
            "QuotaExceeded" | "XMinioStorageFull" | "ServiceQuotaExceededException" => {
                "its storage is full; make room with `pipe cache gc --remote`, or ask for more"
            }
            "ExpiredToken" => "renew the credentials in AWS_SESSION_TOKEN",
            "PermanentRedirect" | "AuthorizationHeaderMalformed" => {
                "set AWS_REGION to the region of the bucket"
            }
            _ if status == StatusCode::FORBIDDEN && self.credentials.is_none() => {
                "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
            _ if status == StatusCode::FORBIDDEN => "these credentials do not allow it",
            _ => "the server says no more",
        };
        let says = if code.is_empty() { status.to_string() } else { format!("{status}, {code}") };
        BackendError(format!("cannot {doing} the bucket `{}`: {says}; {hint}", self.name))
    }
}

impl Backend for Bucket {
    fn get(&self, path: &str) -> Result<Option<Box<dyn Read + Send>>, BackendError> {
        let answer = self.send("GET", path, &[], None)?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.into_content())),
            StatusCode::NOT_FOUND => match self.refused("read", answer) {
                error if error.0.contains("NoSuchBucket") => Err(error),
                _ => Ok(None),
            },
            _ => Err(self.refused("read", answer)),
        }
    }

    fn put(&self, path: &str, content: &dyn Outgoing) -> Result<u64, BackendError> {
        let bytes = match content.length() {
            Length::Exactly(length) if length <= LARGEST_PUT => {
                return self.put_whole(path, &[], content).map(|_| length);
            }
            Length::Exactly(length) | Length::About(length) => length,
        };
        let mut parts = Parts {
            content: content.open().map_err(|error| BackendError(error.to_string()))?,
            size: PART.max(bytes / MOST_PARTS),
            memory: &self.memory,
        };
        let first = parts.next()?;
        if (first.content.len() as u64) < parts.size {
            return self.put_whole(path, &[], &first.content).map(|_| first.content.len() as u64);
        }
        let upload = self.begin_upload(path)?;
        let sent = self.put_parts(path, &upload, first, &mut parts);
        let completed = sent.and_then(|sent| self.complete_upload(path, &upload, &sent));
        if completed.is_err() {
            // Otherwise the server would keep the parts. If that fails, too, the first error is the one to report.
            let _ = self.send("DELETE", path, &[("uploadId", &upload)], None);
        }
        completed
    }

    fn exists(&self, path: &str) -> Result<bool, BackendError> {
        let answer = self.send("HEAD", path, &[], None)?;
        match answer.status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            // The answer to HEAD has no text that says why.
            _ => self.get(path).map(|found| found.is_some()),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, BackendError> {
        let folder = format!("{}{folder}/", self.prefix);
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut query = vec![("list-type", "2"), ("prefix", folder.as_str())];
            query.extend(next.as_deref().map(|token| ("continuation-token", token)));
            let text = self.text_of("list", self.send("GET", "", &query, None)?)?;
            for object in text.split("<Contents>").skip(1) {
                let Some(key) = element(object, "Key") else { continue };
                let Some(path) = key.strip_prefix(&self.prefix) else { continue };
                let bytes = element(object, "Size").and_then(|size| size.parse().ok()).unwrap_or(0);
                let modified =
                    element(object, "LastModified").and_then(|time| time.parse::<jiff::Timestamp>().ok());
                found.push(Listed { path: path.to_owned(), bytes, modified: modified.map(Into::into) });
            }
            next = element(&text, "NextContinuationToken");
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    fn remove(&self, path: &str) -> Result<(), BackendError> {
        let answer = self.send("DELETE", path, &[], None)?;
        match answer.status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(self.refused("remove from", answer)),
        }
    }
}

/// Uploads in parts, which S3 joins at the end.
impl Bucket {
    fn begin_upload(&self, path: &str) -> Result<String, BackendError> {
        let text = self.text_of("write to", self.send("POST", path, &[("uploads", "")], None)?)?;
        let no_id = || BackendError(format!("the bucket `{}` answers without an `UploadId`", self.name));
        element(&text, "UploadId").ok_or_else(no_id)
    }

    /// Sends the parts of an upload, several at the same time. Returns the length of each and what the server calls it.
    fn put_parts<'a>(
        &'a self,
        path: &str,
        upload: &str,
        first: Part<'a>,
        parts: &mut Parts<'a>,
    ) -> Result<Vec<(u64, String)>, BackendError> {
        let sent = Mutex::new(Vec::new());
        let failure = Mutex::new(None);
        let fail = |error| {
            lock(&failure).get_or_insert(error);
        };
        std::thread::scope(|scope| {
            let mut next = first;
            let mut number = 0;
            while !next.content.is_empty() && lock(&failure).is_none() {
                lock(&sent).push((next.content.len() as u64, String::new()));
                let (sent, fail, index) = (&sent, &fail, number);
                let part = std::mem::replace(&mut next, Part { content: Arc::default(), _permit: None });
                scope.spawn(move || {
                    let number = (index + 1).to_string();
                    let query = [("partNumber", number.as_str()), ("uploadId", upload)];
                    match self.put_whole(path, &query, &part.content) {
                        Ok(etag) => lock(sent)[index].1 = etag,
                        Err(error) => fail(error),
                    }
                });
                number += 1;
                match parts.next() {
                    Ok(part) => next = part,
                    Err(error) => fail(error),
                }
            }
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(sent.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Writes a file, or one part of it, with one request. Returns what the server calls it.
    fn put_whole(
        &self,
        path: &str,
        query: &[(&str, &str)],
        content: &dyn Outgoing,
    ) -> Result<String, BackendError> {
        let answer = self.send("PUT", path, query, Some(content))?;
        if answer.status == StatusCode::OK {
            Ok(answer.etag.unwrap_or_default())
        } else {
            Err(self.refused("write to", answer))
        }
    }

    /// Joins the parts of an upload. Returns the length of all of them.
    fn complete_upload(&self, path: &str, upload: &str, sent: &[(u64, String)]) -> Result<u64, BackendError> {
        let mut list = String::from("<CompleteMultipartUpload>");
        for (index, (_, etag)) in sent.iter().enumerate() {
            let (number, etag) = (index + 1, etag.replace('"', "&quot;"));
            // Writing to a String cannot fail.
            let _ = write!(list, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
        }
        list.push_str("</CompleteMultipartUpload>");
        let list: Arc<[u8]> = list.into_bytes().into();
        let answer = self.send("POST", path, &[("uploadId", upload)], Some(&list))?;
        let status = answer.status;
        let text = self.text_of("write to", answer)?;
        // S3 begins to answer before it has joined the parts, so that an error may come with the status of success.
        match element(&text, "Code") {
            Some(_) => Err(self.explain("write to", status, &text)),
            None => Ok(sent.iter().map(|(length, _)| length).sum()),
        }
    }

    /// Returns the text of an answer that is not an error.
    fn text_of(&self, doing: &str, answer: Answer) -> Result<String, BackendError> {
        if answer.status != StatusCode::OK {
            return Err(self.refused(doing, answer));
        }
        let mut text = String::new();
        let read = answer.into_content().take(LARGEST_ANSWER).read_to_string(&mut text);
        let cannot = |error| BackendError(format!("cannot {doing} the bucket `{}`: {error}", self.name));
        read.map(|_| text).map_err(cannot)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Content that is cut into parts.
struct Parts<'a> {
    content: Box<dyn Read + Send>,
    size: u64,
    memory: &'a Permits,
}

/// A part in memory; empty after the end of the content.
struct Part<'a> {
    content: Arc<[u8]>,
    _permit: Option<Permit<'a>>,
}

impl<'a> Parts<'a> {
    /// Reads the next part, as soon as there is room for it in memory.
    fn next(&mut self) -> Result<Part<'a>, BackendError> {
        let permit = self.memory.acquire();
        let mut part = Vec::new();
        let read = self.content.by_ref().take(self.size).read_to_end(&mut part);
        read.map_err(|error| BackendError(error.to_string()))?;
        Ok(Part { content: part.into(), _permit: Some(permit) })
    }
}

/// Returns the text of the first element with this name. The answers of S3 have no attributes, comments or nested
/// elements of the same name where this is used, so that a parser of XML is not needed.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(entities.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character)))
}

/// Everything of a request that is signed, besides its credentials.
struct UnsignedRequest<'a> {
    method: &'a str,
    /// Encoded.
    path: &'a str,
    /// Encoded and sorted.
    query: &'a str,
    host: &'a str,
    /// As in `20260131T101500Z`.
    time: &'a str,
}

/// The content is protected by TLS and, for readers, by its name. Hashing it for the signature would only cost time.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

impl UnsignedRequest<'_> {
    /// Returns the headers that sign the request.
    fn signed_headers(&self, credentials: &Credentials, region: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("host", self.host.to_owned()),
            ("x-amz-content-sha256", UNSIGNED.to_owned()),
            ("x-amz-date", self.time.to_owned()),
        ];
        headers.extend(credentials.token.iter().map(|token| ("x-amz-security-token", token.clone())));
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical =
            format!("{}\n{}\n{}\n{lines}\n{names}\n{UNSIGNED}", self.method, self.path, self.query);
        let day = &self.time[..8];
        let scope = format!("{day}/{region}/s3/aws4_request");
        let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hashed}", self.time);
        let mut key = format!("AWS4{}", credentials.secret).into_bytes();
        for part in [day, region, "s3", "aws4_request"] {
            key = keyed_hash(&key, part);
        }
        let signature = hex(&keyed_hash(&key, &to_sign));
        let id = &credentials.id;
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
        headers.remove(0); // The client sends the host itself.
        headers.push(("authorization", authorization));
        headers
    }
}

fn keyed_hash(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn canonical_query(query: &[(&str, &str)]) -> String {
    let mut parts: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name, false), encode(value, false)))
        .collect();
    parts.sort();
    parts.join("&")
}

/// Encodes a path, which keeps its slashes, or a part of a query.
fn encode(text: &str, is_path: bool) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (is_path && byte == b'/') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example "GET Object" of the documentation of Signature Version 4 has a range and a hash of an empty body,
    /// so these are the same steps with other headers. The expected value was computed with botocore.
    #[test]
    fn a_request_is_signed_as_other_programs_sign_it() {
        let credentials = Credentials {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let query = canonical_query(&[("prefix", "my cache/actions/"), ("list-type", "2")]);
        assert_eq!(query, "list-type=2&prefix=my%20cache%2Factions%2F");
        let request = UnsignedRequest {
            method: "GET",
            path: "/",
            query: &query,
            host: "examplebucket.s3.amazonaws.com",
            time: "20130524T000000Z",
        };
        let headers = request.signed_headers(&credentials, "us-east-1");
        let (name, authorization) = headers.last().unwrap();
        assert_eq!(*name, "authorization");
        assert_eq!(
            authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=507441dd05cbfe3c356d6f189a51da790c7ffb5a5724e71b179d3b91417dfed8"
        );
    }

    /// Returns what a bucket says about a server that gives the same answer to every request.
    fn answered(
        status: &str,
        code: &str,
        credentials: bool,
        ask: impl Fn(&Bucket) -> BackendError,
    ) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let text = format!("<Error><Code>{code}</Code></Error>");
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = vec![0; 1 << 16];
                let count = stream.read(&mut request).unwrap_or(0);
                let body = if request[..count].starts_with(b"HEAD") { "" } else { &text };
                let _ = std::io::Write::write_all(&mut stream, format!("{answer}{body}").as_bytes());
            }
        });
        let environment = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => credentials.then(|| "tests".to_owned()),
            _ => None,
        };
        ask(&Bucket::new("lab", &environment, Stop::new()).unwrap()).0
    }

    #[test]
    fn a_refusal_says_what_happened_and_what_to_do() {
        let content: Arc<[u8]> = b"text".to_vec().into();
        let get = |bucket: &Bucket| bucket.get("x").err().unwrap();
        let exists = |bucket: &Bucket| bucket.exists("x").unwrap_err();
        let put = |bucket: &Bucket| bucket.put("x", &content).unwrap_err();
        let list = |bucket: &Bucket| bucket.list("x").unwrap_err();
        for ask in [&get as &dyn Fn(&Bucket) -> BackendError, &exists, &put, &list] {
            let cases = [
                ("403 Forbidden", "RequestTimeTooSkewed", true, "set the clock of this machine"),
                ("403 Forbidden", "SignatureDoesNotMatch", true, "check AWS_ACCESS_KEY_ID"),
                ("403 Forbidden", "AccessDenied", true, "do not allow it"),
                ("403 Forbidden", "AccessDenied", false, "there are no credentials; set AWS_ACCESS_KEY_ID"),
                ("400 Bad Request", "ExpiredToken", true, "renew the credentials"),
                ("507 Insufficient Storage", "QuotaExceeded", true, "make room"),
            ];
            for (status, code, credentials, hint) in cases {
                let said = answered(status, code, credentials, ask);
                assert!(said.contains(code) && said.contains(hint), "{said}");
            }
        }
    }

    #[test]
    fn the_answers_of_a_server_are_read() {
        let xml = "<R><Key>a&amp;b</Key><Size>12</Size><Key>c</Key></R>";
        assert_eq!(element(xml, "Key").as_deref(), Some("a&b"));
        assert_eq!(element(xml, "Size").as_deref(), Some("12"));
        assert_eq!(element(xml, "NextContinuationToken"), None);
        assert_eq!(element("<Key>cut", "Key"), None);
    }
}
