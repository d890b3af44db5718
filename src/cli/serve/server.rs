//! Accepts connections and ends gracefully.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use super::api::Api;

/// How many connections may be open at once. Others wait until one is closed.
const MOST_CONNECTIONS: usize = 512;
/// How long a connection may take to send the head of a request, and how long it may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open requests may take after a signal to stop.
const GRACE: Duration = Duration::from_secs(10);
/// The largest head of a request.
const LARGEST_HEAD: usize = 16 << 10;
/// How long to wait after an error such as too many open files.
const RETRY: Duration = Duration::from_millis(100);

/// Answers requests until a signal asks to stop, and then until all open requests are answered.
pub(super) fn run(listener: TcpListener, api: Arc<Api>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut stop = StopSignals::new()?;
        let open = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        tokio::select! {
            () = accept(&listener, &api, &open, &places) => {}
            () = stop.wait() => {}
        }
        drop(listener);
        tokio::select! {
            _ = tokio::time::timeout(GRACE, open.shutdown()) => {}
            // A second signal ends it at once.
            () = stop.wait() => {}
        }
        Ok(())
    })
}

async fn accept(
    listener: &tokio::net::TcpListener,
    api: &Arc<Api>,
    open: &GracefulShutdown,
    places: &Arc<Semaphore>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(LARGEST_HEAD);
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        // Small responses are sent at once.
        let _ = stream.set_nodelay(true);
        let api = Arc::clone(api);
        let respond = service_fn(move |request| {
            let api = Arc::clone(&api);
            async move { Ok::<_, Infallible>(api.respond(request).await) }
        });
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), respond));
        tokio::spawn(async move {
            // A client that closes the connection is not an error.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// The signals that end the server.
struct StopSignals([Signal; 3]);

impl StopSignals {
    fn new() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
