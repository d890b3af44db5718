//! `pipe run --serve`: the run as it goes, on a page for a browser on this machine.
//!
//! The run only appends to a [`Feed`]; whoever reads, and however slowly, it never waits for them.

mod feed;
mod page;
mod request;
mod server;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

pub(super) use page::page;

use feed::Feed;
use pipe_engine::runner::event::Event;
use pipe_report::page::Page;
use server::Server;

/// How long readers may take to hear of the end.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct Live {
    feed: Arc<Feed>,
    url: String,
}

impl Live {
    /// Listens on the loopback address only. Port 0: any that is free.
    pub(super) fn start(port: u16, page: &Page) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let port = listener.local_addr()?.port();
        let token = token()?;
        let url = format!("http://127.0.0.1:{port}/{token}/");
        let feed = Arc::new(Feed::default());
        let policy = format!("{}; frame-ancestors 'none'", page.policy());
        let server = Server { feed: Arc::clone(&feed), html: page.render(), policy, token, port };
        std::thread::Builder::new().name("live".to_owned()).spawn(move || server.run(&listener))?;
        Ok(Self { feed, url })
    }

    /// It holds the token that whoever looks at the page needs.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn tell(&self, event: &Event) {
        self.feed.tell(event);
    }

    /// Waits a moment, so that open pages hear how the run ended.
    pub(super) fn end(self) {
        self.feed.end(FAREWELL);
    }
}

/// 128 bits that nobody can guess.
fn token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
