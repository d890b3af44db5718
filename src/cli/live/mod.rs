//! `pipe run --serve`: shows the run on a web page, for a browser on this machine.
//!
//! The run only appends to a [`Feed`], so it never waits for a slow browser.

mod feed;
mod page;
mod request;
mod server;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

pub(super) use page::page;
pub(super) use request::is_equal;

use feed::Feed;
use pipe_engine::runner::event::Event;
use pipe_report::page::Page;
use server::Server;

/// How long the program waits at the end for open pages to receive the last events.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// A server that shows a run.
pub(super) struct LiveServer {
    feed: Arc<Feed>,
    url: String,
}

impl LiveServer {
    /// Starts the server on the loopback address only. Port 0 takes any free port.
    pub(super) fn start(port: u16, page: &Page) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        let token = random_token()?;
        let url = format!("http://127.0.0.1:{port}/{token}/");
        let feed = Arc::new(Feed::default());
        let policy = format!("{}; frame-ancestors 'none'", page.policy());
        let server = Server { feed: Arc::clone(&feed), html: page.render(), policy, token, port };
        std::thread::Builder::new().name("live".to_owned()).spawn(move || server.run(&listener))?;
        Ok(Self { feed, url })
    }

    /// Returns the URL of the page. It contains the secret token.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends an event to every open page.
    pub(super) fn send(&self, event: &Event) {
        self.feed.push(event);
    }

    /// Waits a moment, so that open pages receive the last events.
    pub(super) fn end(self) {
        self.feed.end(LAST_EVENTS);
    }
}

/// Returns 128 random bits in hexadecimal.
pub(super) fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
