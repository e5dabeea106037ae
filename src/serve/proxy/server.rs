//! Data listener: accepts connections, speaks HTTP/1.1, and drains on shutdown.
//!
//! Each connection is a task. A panic ends only the exchange in which it happens.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::agent_stream::AgentStream;
use super::certificate::Certificate;
use super::fault::{Code, Fault};
use super::response_body::AgentResponse;
use super::turn::Turn;
use super::upstream::SMALLEST_BUFFER;
use super::{Gateway, find_route, handle};
use crate::connections::{Connections, Peer};
use crate::state::config::{AgentWaits, Config, LimitConfig};
use baton_core::record::WireId;

/// Timeout for a TLS handshake.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// Maximum wait for a complete head on a kept connection before it is closed.
///
/// Longer than agents' pools keep idle connections (reqwest: 90 s), so that they do not send into a closing one.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// Maximum wait for the first bytes of a connection, for its first head, and for a head if the connection closes after its
/// response.
///
/// Heads are sent at once. This allows for the worst networks. Without it, whoever reaches the listener could occupy all
/// connections with unfinished heads.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// Share of the connection limit above which a new connection closes after its response.
///
/// Otherwise the idle connections of some agents could keep others out.
const CROWDED: (usize, usize) = (3, 4);

/// Time that a connection has for its first request before it can be closed to make room.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pause after a failed accept, mostly for lack of file descriptors, so that connections can end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Length of the system's queue, where connections wait while there are too many.
///
/// The standard library's 128 drop connections of a burst, and their agents try again after seconds. The
/// system may allow fewer.
const BACKLOG: u32 = 4096;

/// Interval of a timer that always runs, so that other timers are cheap.
///
/// A new timer that is due before all others wakes the runtime's driver with a system call. Without this one,
/// the timer of the minimum rate (30 s) of nearly every request would do so.
const TICK: Duration = Duration::from_secs(10);

/// Slot for the gateway that answers requests. Each request keeps the one that it began with.
pub type GatewaySlot = Arc<ArcSwap<Gateway>>;

/// Creates a slot with this gateway.
pub fn slot(gateway: Arc<Gateway>) -> GatewaySlot {
    Arc::new(ArcSwap::new(gateway))
}

/// A bound listener.
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
    tls: Option<Certificate>,
    http: Arc<Http>,
    /// HTTP settings while connections are scarce.
    crowded: Arc<Http>,
    /// Maximum number of connections.
    most: usize,
    drain: Duration,
}

/// HTTP settings with the bounds of the config.
struct Http {
    builder: http1::Builder,
    waits: AgentWaits,
}

/// Binds the data listener and reads the certificate. Must be called inside a runtime.
///
/// # Errors
/// The address is in use or not allowed, or the certificate cannot be read.
pub fn bind(config: &Config) -> io::Result<Bound> {
    let tls = Certificate::configured(config.server.at.tls())?;
    let listener = listener(config.server.at.listen)?;
    Ok(Bound {
        addr: listener.local_addr()?,
        listener,
        tls,
        http: Arc::new(Http::new(&config.limits, true)),
        crowded: Arc::new(Http::new(&config.limits, false)),
        most: config.limits.max_connections,
        drain: config.server.drain,
    })
}

fn listener(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // As the standard library does.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

impl Http {
    /// Creates the settings. Without `keep_alive`, a connection closes after its response if possible.
    fn new(limits: &LimitConfig, keep_alive: bool) -> Self {
        let header_bytes = limits.header_bytes;
        let mut builder = http1::Builder::new();
        // hyper's timeout for a head includes the wait for its first byte, so it is the idle timeout as well.
        builder
            .timer(TokioTimer::new())
            .keep_alive(keep_alive)
            .header_read_timeout(if keep_alive { IDLE_TIME } else { HEAD_TIME })
            .max_buf_size(header_bytes.max(SMALLEST_BUFFER));
        Self {
            builder,
            waits: limits.waits,
        }
    }
}

/// A connection of an agent, before or after its TLS handshake.
struct AgentConnection<S> {
    stream: S,
    peer: Peer,
}

/// Time for the last events of streams that the end of the drain time closes.
const LAST_EVENTS: Duration = Duration::from_secs(1);

impl Bound {
    /// Bound address, with the port that the system picked.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Certificate, if the listener has one.
    pub fn certificate(&self) -> Option<Certificate> {
        self.tls.clone()
    }

    /// Serves until `shutdown` is ready, then accepts no new requests and lets running ones finish within the
    /// drain time.
    ///
    /// Boxed, so that the serving code is compiled once, in this crate, and not again by each caller.
    ///
    /// Then sets `closing`, so that open streams end with an error event.
    pub fn run(
        self,
        gateway: GatewaySlot,
        shutdown: BoxFuture<'static, ()>,
        closing: Arc<watch::Sender<bool>>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.served(gateway, shutdown, closing))
    }

    async fn served(
        self,
        gateway: GatewaySlot,
        mut shutdown: BoxFuture<'static, ()>,
        streams_end: Arc<watch::Sender<bool>>,
    ) {
        let graceful = GracefulShutdown::new();
        let (open, closing) = watch::channel(());
        let mut connections = Connections::new(self.most, PATIENCE);
        let mut tick = tokio::time::interval(TICK);
        loop {
            let has_room = connections.has_room();
            tokio::select! {
                () = &mut shutdown => break,
                _ = tick.tick() => {}
                // Without room, new connections wait in the system's queue until one ends or can give way.
                () = tokio::time::sleep(PATIENCE), if !has_room => {}
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok((stream, peer)) => {
                        let (some, of) = CROWDED;
                        let http = match connections.len() < self.most * some / of {
                            true => &self.http,
                            false => &self.crowded,
                        };
                        let peer = Peer::new(peer.ip());
                        let connection = AgentConnection { stream, peer: peer.clone() };
                        let connection =
                            self.connection(connection, http.clone(), gateway.clone(), graceful.watcher(), closing.clone());
                        connections.spawn(peer, connection);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a connection; pausing");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(()) = connections.ended() => {}
            }
        }
        drop(self.listener);
        // A connection without a request is not waited for.
        drop(open);
        let mut ended = Box::pin(graceful.shutdown());
        if tokio::time::timeout(self.drain, &mut ended).await.is_err() {
            tracing::warn!(
                left = connections.len(),
                "drain time is over; closing open streams"
            );
            streams_end.send_replace(true);
            let _ = tokio::time::timeout(LAST_EVENTS, ended).await;
        }
        connections.shutdown().await;
    }

    fn connection(
        &self,
        AgentConnection { stream, peer }: AgentConnection<TcpStream>,
        http: Arc<Http>,
        gateway: GatewaySlot,
        watcher: Watcher,
        closing: watch::Receiver<()>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let tls = self.tls.as_ref().map(Certificate::acceptor);
        async move {
            // Events of a stream are small, and must not wait for each other.
            let _ = stream.set_nodelay(true);
            match tls {
                None if speaks(&stream, closing).await => {
                    serve(AgentConnection { stream, peer }, &http, gateway, watcher).await;
                }
                None => {}
                // Boxed: otherwise the task reserves space for a handshake for its whole lifetime.
                Some(tls) => {
                    let connection = AgentConnection { stream, peer };
                    Box::pin(encrypted(connection, tls, http, gateway, watcher)).await;
                }
            }
        }
    }
}

async fn encrypted(
    AgentConnection { stream, peer }: AgentConnection<TcpStream>,
    tls: TlsAcceptor,
    http: Arc<Http>,
    gateway: GatewaySlot,
    watcher: Watcher,
) {
    match tokio::time::timeout(TLS_HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(AgentConnection { stream, peer }, &http, gateway, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "failed TLS handshake; closing the connection"),
        Err(_) => tracing::debug!("TLS handshake timed out; closing the connection"),
    }
}

/// Waits for the first byte of a connection. Returns `false` if none comes in time, or if the listener closes.
async fn speaks(stream: &TcpStream, mut closing: watch::Receiver<()>) -> bool {
    let mut first = [0];
    tokio::select! {
        seen = tokio::time::timeout(HEAD_TIME, stream.peek(&mut first)) => matches!(seen, Ok(Ok(1))),
        _ = closing.changed() => false,
    }
}

async fn serve<S>(connection: AgentConnection<S>, http: &Http, gateway: GatewaySlot, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let AgentConnection { stream, peer } = connection;
    let stream = AgentStream::new(stream, http.waits.stalled);
    let first = Arc::new(Notify::new());
    let connection = http
        .builder
        .serve_connection(TokioIo::new(stream), service(gateway, peer, first.clone()));
    let mut connection = Turn::new(watcher.watch(connection));
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        asked = tokio::time::timeout(HEAD_TIME, first.notified()) => match asked {
            Ok(()) => connection.await,
            Err(_) => return tracing::debug!("no request came in time; closing the connection"),
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended with an error");
    }
}

type ServiceFuture = Pin<Box<dyn Future<Output = Result<AgentResponse, Infallible>> + Send>>;

/// Creates the service of a connection, which notifies `first` of requests.
///
/// Each request is boxed: the connection would otherwise reserve space for it while its response streams.
fn service(
    gateway: GatewaySlot,
    peer: Peer,
    first: Arc<Notify>,
) -> impl Service<Request<Incoming>, Response = AgentResponse, Error = Infallible, Future = ServiceFuture> {
    service_fn(move |request: Request<Incoming>| -> ServiceFuture {
        first.notify_one();
        let gateway = gateway.load_full();
        // The path is enough for the shape of an error, so the headers are not copied for every request.
        let (again, uri) = (gateway.clone(), request.uri().clone());
        let shape = move || find_route(&again, &uri, &HeaderMap::new()).shape();
        Box::pin(contained(handle(gateway, request, peer.clone()), shape))
    })
}

/// Turns a panic into a 500 in the wire's shape. The dropped recorder reports its exchange.
///
/// A combinator, because an async function would reserve space for `handled` twice.
fn contained(
    handled: impl Future<Output = AgentResponse>,
    shape: impl FnOnce() -> WireId,
) -> impl Future<Output = Result<AgentResponse, Infallible>> {
    let internal = |shape: WireId| Fault::from(Code::INTERNAL).response(shape);
    let handled = AssertUnwindSafe(handled).catch_unwind();
    handled.map(move |handled| Ok(handled.unwrap_or_else(|_| internal(shape()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_500_of_the_wire() {
        let handled = async { panic!("on purpose") };
        let Ok(response) = contained(handled, || WireId::Gemini).await;
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["x-baton-error"], "internal");
    }
}
