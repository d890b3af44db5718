//! `pipe run --serve`: which requests are answered, and the stream of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::PipelineTest;

/// Starts a run and returns the URL that it prints.
pub(crate) fn start(test: &PipelineTest) -> (Child, String) {
    start_as(test, test.command(&[]))
}

/// Does the same with a command that has no arguments yet.
pub(crate) fn start_as(test: &PipelineTest, mut pipe: Command) -> (Child, String) {
    pipe.args(["run", "pipeline.yaml", "--serve"]).env("GO", test.file("go"));
    let mut child = pipe.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url =
        lines.find_map(|line| line.ok()?.split_once("http://").map(|(_, rest)| format!("http://{rest}")));
    std::thread::spawn(move || lines.for_each(drop));
    (child, url.expect("the URL is printed"))
}

/// Creates a pipeline with a stage that waits for [`release`], and a stage after it that fails.
pub(crate) fn waiting() -> PipelineTest {
    PipelineTest::new(
        "
name: waiting
stages:
  slow:
    command: { run: \"until [ -e \\\"$GO\\\" ]; do sleep 0.05; done; echo 1 > x\", outputs: [x], env: [GO] }
  bad: { command: { run: exit 3, outputs: [y], inputs: { x: slow } } }
",
    )
}

/// Lets the waiting stage go on.
pub(crate) fn release(test: &PipelineTest) {
    test.write("go", "");
}

/// Returns the port and the token of a URL.
fn parts(url: &str) -> (u16, &str) {
    let (port, token) = url.strip_prefix("http://127.0.0.1:").unwrap().split_once('/').unwrap();
    (port.parse().unwrap(), token.trim_end_matches('/'))
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(port: u16, path: &str, host: &str) -> String {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

#[test]
fn the_page_needs_the_token_and_the_right_host_and_can_only_be_read() {
    let test = waiting();
    let (mut child, url) = start(&test);
    let (port, token) = parts(&url);
    assert_eq!(token.len(), 32, "{url}");
    let host = format!("127.0.0.1:{port}");
    let page = get(port, &format!("/{token}/"), &host);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("data-instance=\"slow\""), "{page}");
    for header in
        ["Content-Security-Policy: default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-referrer"]
    {
        assert!(page.contains(header), "{header}: {page}");
    }
    let status = |answer: String| answer.split("\r\n").next().unwrap_or_default().to_owned();
    for path in ["/", "/favicon.ico", "/00000000000000000000000000000000/", "/../pipeline.yaml"] {
        assert_eq!(status(get(port, path, &host)), "HTTP/1.1 404 Not Found", "{path}");
    }
    for wrong in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1"] {
        let answer = get(port, &format!("/{token}/"), wrong);
        assert_eq!(status(answer), "HTTP/1.1 421 Misdirected Request", "{wrong}");
    }
    let post = ask(port, &format!("POST /{token}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(status(post), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status(ask(port, "nonsense\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn only_the_loopback_address_is_listened_on() {
    let test = waiting();
    let (mut child, url) = start(&test);
    let (port, _) = parts(&url);
    let listening = |table: &str| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let here = lines.filter(|words| words[3] == "0A").map(|words| words[1].to_owned());
        here.filter(|address| address.ends_with(&format!(":{port:04X}"))).collect::<Vec<_>>()
    };
    assert_eq!(listening("/proc/net/tcp"), [format!("0100007F:{port:04X}")]);
    assert_eq!(listening("/proc/net/tcp6"), [""; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_stream_has_every_event_and_the_server_ends_with_the_run() {
    let test = waiting();
    let (mut child, url) = start(&test);
    let (port, token) = parts(&url);
    release(&test);
    let received = get(port, &format!("/{token}/events"), &format!("localhost:{port}"));
    for event in ["run_started", "started", "done", "failed", "run_finished"] {
        assert!(received.contains(&format!("\"event\":\"{event}\"")), "{event}: {received}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_browser_that_does_not_read_does_not_delay_the_run() {
    let test = PipelineTest::new(
        "
name: many
stages:
  one:
    matrix: { n: [1, 2, 3, 4, 5, 6, 7, 8] }
    command: { run: \"echo ${matrix.n} > x\", outputs: [x] }
  last: { command: { run: \"sleep 1; cat in/x/* > y\", inputs: { x: [\"one[*]\"] }, outputs: [y] } }
",
    );
    let (mut child, url) = start(&test);
    let (port, token) = parts(&url);
    let mut silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(silent, "GET /{token}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").unwrap();
    let _half = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let test = waiting();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    test.pipe(&["run", "pipeline.yaml", &format!("--serve={port}")]).exits_with(2).says("--serve");
}
