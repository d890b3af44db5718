//! A web server for tests of downloads, with a certificate of an authority that only these tests trust.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{DownloadClient, FetchError, config};

/// How long the clients of tests wait for data.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

const AUTHORITY: &[u8] = include_bytes!("../../../../tests/fixtures/tls/authority.pem");
pub(super) const CERTIFICATE: &[u8] = include_bytes!("../../../../tests/fixtures/tls/server.pem");
pub(super) const EXPIRED: &[u8] = include_bytes!("../../../../tests/fixtures/tls/expired.pem");
const KEY: &[u8] = include_bytes!("../../../../tests/fixtures/tls/server.key");

/// Creates a client that trusts the authority of the tests and makes its attempts without a pause.
pub(crate) fn client() -> Result<DownloadClient, FetchError> {
    let authority = Certificate::from_pem(AUTHORITY).unwrap();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[authority])).build();
    Ok(DownloadClient { agent: config(tls, PATIENCE).new_agent(), pause: Duration::ZERO })
}

/// A server that answers each request with `answer(number of the request, its head)` and closes the connection.
pub(crate) struct Server {
    pub address: String,
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static) -> Self {
        Self::start_with(CERTIFICATE, Duration::ZERO, answer)
    }

    /// Starts a server with a certificate. It closes each connection a while after its answer.
    pub(super) fn start_with(
        certificate: &[u8],
        open_for: Duration,
        answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(KEY).unwrap());
        let tls = Arc::new(tls.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let Some(head) = request_head(&mut stream) else { continue };
                let number = seen.lock().unwrap().len();
                let answer = answer(number, &head);
                seen.lock().unwrap().push(head);
                // A client that does not wait any longer closes the connection.
                let _ = stream.write_all(&answer).and_then(|()| stream.flush());
                std::thread::sleep(open_for);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        Self { address, requests }
    }
}

/// Reads the head of a request; `None` if the client refuses the connection.
fn request_head(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> Option<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        match line.ok()? {
            line if line.is_empty() => return Some(lines.join("\n").to_lowercase()),
            line => lines.push(line),
        }
    }
    None
}

pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}
