//! Accept loop of the admin listener.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::AdminState;
use super::routes::answer;

/// Timeout for a request's headers, which also closes silent connections.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Maximum concurrent connections: scrapers, probes and a few users.
const CONNECTIONS: usize = 128;
/// Drain time at shutdown. Responses are short.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept, mostly for lack of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Serves until `shutdown` resolves, then finishes pending responses.
///
/// # Errors
/// The listener is not bound.
pub async fn serve(
    listener: TcpListener,
    state: Arc<AdminState>,
    mut shutdown: BoxFuture<'static, ()>,
) -> io::Result<()> {
    let bound = listener.local_addr()?;
    let (close, closing) = watch::channel(false);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        // Over the limit a connection is closed at once.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            continue;
        };
        let (state, closing) = (Arc::clone(&state), closing.clone());
        let service = service_fn(move |request| {
            let (state, closing) = (Arc::clone(&state), closing.clone());
            async move { Ok::<_, Infallible>(answer(&state, bound, closing, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            // Errors of a connection concern only its peer.
            let _ = connection.await;
        });
    }
    // Event streams would never end by themselves.
    let _ = close.send(true);
    // Unfinished connections end with the process.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    Ok(())
}
