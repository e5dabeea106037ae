//! Accept loop of the admin listener.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::AdminState;
use super::routes::answer;
use crate::connections::{Connections, Peer};
use crate::proxy::certificate::Certificate;
use crate::state::access::peers::{self, WrongKeys};

/// Timeout for a request's headers, which also closes silent connections.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Maximum concurrent connections: scrapers, probes and a few users.
pub(super) const CONNECTIONS: usize = 128;
/// Drain time at shutdown. Responses are short.
const DRAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept, mostly for lack of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// A request, as the log names it.
struct Access {
    method: Method,
    path: String,
    sender: IpAddr,
}

impl Access {
    fn new(request: &Request<Incoming>, sender: IpAddr) -> Self {
        Self {
            method: request.method().clone(),
            // Without the query, which may contain a search.
            path: request.uri().path().to_owned(),
            sender,
        }
    }

    /// Logs the access.
    ///
    /// Successful health checks and scrapes are left out, because they come every few seconds. Without a token,
    /// successful requests are only logged as debug, because only users of this machine can send them.
    fn log(&self, status: StatusCode, has_token: bool) {
        let Self { method, path, sender } = self;
        let status = status.as_u16();
        match path.as_str() {
            "/healthz" | "/readyz" => {}
            "/metrics" if status == 200 => {}
            _ if has_token || status >= 400 => {
                tracing::info!(target: "baton", %method, path, status, client.address = %sender, "admin access");
            }
            _ => tracing::debug!(target: "baton", %method, path, status, "admin access"),
        }
    }
}

/// A stream of a peer, encrypted or not.
trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PeerStream for S {}

/// Completes the TLS handshake if there is a certificate. Returns `None` if that fails.
async fn opened(stream: TcpStream, certificate: Option<Certificate>) -> Option<Box<dyn PeerStream>> {
    let Some(certificate) = certificate else {
        return Some(Box::new(stream));
    };
    let handshake = tokio::time::timeout(HEADER_TIME, certificate.acceptor().accept(stream));
    match handshake.await.ok()? {
        Ok(stream) => Some(Box::new(stream)),
        Err(error) => {
            tracing::debug!(%error, "failed TLS handshake on the admin listener; closing the connection");
            None
        }
    }
}

/// Serves until `shutdown` resolves, then finishes pending responses. With a certificate it speaks HTTPS.
///
/// # Errors
/// The listener is not bound.
// Boxed, so that only this crate compiles the future.
pub fn serve(
    listener: TcpListener,
    certificate: Option<Certificate>,
    state: Arc<AdminState>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(serve_until(listener, certificate, state, shutdown))
}

async fn serve_until(
    listener: TcpListener,
    certificate: Option<Certificate>,
    state: Arc<AdminState>,
    mut shutdown: BoxFuture<'static, ()>,
) -> io::Result<()> {
    let bound = listener.local_addr()?;
    let (close, closing) = watch::channel(false);
    let graceful = GracefulShutdown::new();
    // Without patience: at this limit a flood would otherwise fill the system's queue as well.
    let mut connections = Connections::new(CONNECTIONS, Duration::ZERO);
    let wrong_tokens = Arc::new(WrongKeys::default());
    loop {
        let has_room = connections.has_room();
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(()) = connections.ended() => continue,
            accepted = listener.accept(), if has_room => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let peer = Peer::new(peer.ip());
        let sending = peer.clone();
        let (state, closing) = (Arc::clone(&state), closing.clone());
        let wrong_tokens = Arc::clone(&wrong_tokens);
        let service = service_fn(move |request: Request<Incoming>| {
            let (state, closing) = (Arc::clone(&state), closing.clone());
            let trusted = &state.config.server.trusted;
            let sender = peers::sender(sending.address, request.headers(), trusted);
            let (wrong_tokens, peer) = (Arc::clone(&wrong_tokens), sending.clone());
            let access = Access::new(&request, sender);
            async move {
                let answer = answer(&state, bound, closing, &peer, request).await;
                if answer.status() == StatusCode::UNAUTHORIZED {
                    // After ten wrong tokens in a minute each answer comes late, which slows guessing.
                    tokio::time::sleep(wrong_tokens.note(sender)).await;
                }
                access.log(answer.status(), state.config.admin.token.is_some());
                Ok::<_, Infallible>(answer)
            }
        });
        let (watcher, certificate) = (graceful.watcher(), certificate.clone());
        connections.spawn(peer, async move {
            let Some(stream) = opened(stream, certificate).await else {
                return;
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .serve_connection(TokioIo::new(stream), service);
            // Errors of a connection concern only its peer.
            let _ = watcher.watch(connection).await;
        });
    }
    // Event streams would never end by themselves.
    let _ = close.send(true);
    // Unfinished connections end with the process.
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    Ok(())
}
