use super::test_server::{CERTIFICATE, EXPIRED, PATIENCE, Server, answer, client};
use super::*;

fn fetch(server: &Server, place: &Path) -> Result<(), FetchError> {
    client()?.fetch(&format!("{}/file", server.address), place, &mut |_| {})
}

#[test]
fn an_interrupted_transfer_is_resumed() {
    let server = Server::start(|number, head| match number {
        0 => answer("200 OK", "Content-Length: 11\r\nETag: \"v1\"\r\n", b"hello "),
        _ => {
            assert!(head.contains("range: bytes=6-") && head.contains("if-range: \"v1\""), "{head}");
            answer("206 Partial Content", "Content-Length: 5\r\nContent-Range: bytes 6-10/11\r\n", b"world")
        }
    });
    let temp = tempfile::tempdir().unwrap();
    let place = temp.path().join("set/file");
    let mut seen = Vec::new();
    client().unwrap().fetch(&format!("{}/file", server.address), &place, &mut |p| seen.push(p)).unwrap();
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
        client().unwrap().fetch(&url, &temp.path().join("other"), &mut |_| {}).unwrap_err()
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
        let error = DownloadClient::new().unwrap().fetch(url, &place, &mut |_| {}).unwrap_err();
        assert!(matches!(error, FetchError::Address(_)), "{error}");
    }
    let source = temp.path().join("source");
    fs::write(&source, "local").unwrap();
    DownloadClient::new()
        .unwrap()
        .fetch(&format!("file://{}", source.display()), &place, &mut |_| {})
        .unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"local");
}

#[test]
fn a_server_that_stops_sending_is_given_up_and_the_transfer_is_resumed() {
    let server = Server::start_with(CERTIFICATE, 3 * PATIENCE, |number, head| match number {
        0 => answer("200 OK", "Content-Length: 11\r\nETag: \"v1\"\r\n", b"hello "),
        _ => {
            assert!(head.contains("range: bytes=6-"), "{head}");
            let headers = "Content-Length: 5\r\nContent-Range: bytes 6-10/11\r\n";
            answer("206 Partial Content", headers, b"world")
        }
    });
    let temp = tempfile::tempdir().unwrap();
    let place = temp.path().join("file");
    fetch(&server, &place).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"hello world");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = Server::start(|_, _| {
        std::thread::sleep(3 * PATIENCE);
        answer("200 OK", "Content-Length: 2\r\n", b"ok")
    });
    let temp = tempfile::tempdir().unwrap();
    let error = fetch(&server, &temp.path().join("file")).unwrap_err();
    assert!(matches!(error, FetchError::Unreachable(_)), "{error}");
}

#[test]
fn a_port_that_nobody_listens_on_is_unreachable() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let temp = tempfile::tempdir().unwrap();
    let url = format!("https://127.0.0.1:{port}/file");
    let error = client().unwrap().fetch(&url, &temp.path().join("file"), &mut |_| {}).unwrap_err();
    assert!(matches!(error, FetchError::Unreachable(_)), "{error}");
}

#[test]
fn a_certificate_that_is_expired_or_of_an_unknown_authority_is_refused() {
    let expired = Server::start_with(EXPIRED, Duration::ZERO, |_, _| answer("200 OK", "", b""));
    let temp = tempfile::tempdir().unwrap();
    let place = temp.path().join("file");
    let error = fetch(&expired, &place).unwrap_err();
    assert!(matches!(&error, FetchError::Certificate(why) if why.contains("expired")), "{error}");

    let sound = Server::start(|_, _| answer("200 OK", "", b""));
    let url = format!("{}/file", sound.address);
    let tls = TlsConfig::builder().root_certs(ureq::tls::RootCerts::WebPki).build();
    let ordinary = DownloadClient { agent: config(tls, PATIENCE).new_agent(), pause: Duration::ZERO };
    let error = ordinary.fetch(&url, &place, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer") && error.contains("SSL_CERT_FILE"), "{error}");
    assert!(!place.exists());
    assert!(expired.requests.lock().unwrap().is_empty() && sound.requests.lock().unwrap().is_empty());
}

#[test]
fn content_of_another_source_is_not_continued() {
    let headers = "Content-Length: 11\r\nLast-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n";
    let first = Server::start(move |_, _| answer("200 OK", headers, b"other "));
    let second = Server::start(move |_, head| {
        assert!(!head.contains("range:"), "{head}");
        answer("200 OK", headers, b"hello world")
    });
    let temp = tempfile::tempdir().unwrap();
    let place = temp.path().join("file");
    assert!(matches!(fetch(&first, &place), Err(FetchError::Broken { .. })));
    fetch(&second, &place).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"hello world");
}
