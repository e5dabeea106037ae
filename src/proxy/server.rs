//! The data listener: accepts, speaks HTTP/1.1 or HTTP/2 (with prior knowledge, or by ALPN over TLS), and drains
//! on shutdown. A connection is a task; a panic ends the exchange it happens in and no other.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::fault::{Code, Fault};
use super::out::OutBody;
use super::upstream::SMALLEST_BUFFER;
use super::{App, find_route, handle};
use crate::config::Config;
use crate::wire::WireId;

/// A handshake that takes longer is nobody's.
const TLS_HANDSHAKE: Duration = Duration::from_secs(10);

/// A head that takes longer is an attack. The time also runs between requests of a kept connection, so it is
/// longer than the pools of agents keep idle ones (reqwest: 90 s), lest they send into a closing one.
const HEAD_TIME: Duration = Duration::from_secs(300);

/// Pings on HTTP/2, by which an agent that has vanished is noticed.
const H2_PING: Duration = Duration::from_secs(30);

/// After a failed accept (out of file descriptors, mostly): time for connections to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound listener.
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
    tls: Option<TlsAcceptor>,
    http: Builder<TokioExecutor>,
    drain: Duration,
}

/// Binds the data listener and reads the certificate. Must be called inside a runtime.
pub fn bind(config: &Config) -> io::Result<Bound> {
    let tls = match &config.server.tls {
        Some((chain, key)) => Some(acceptor(chain, key)?),
        None => None,
    };
    let listener = std::net::TcpListener::bind(config.server.listen)?;
    listener.set_nonblocking(true)?;
    Ok(Bound {
        addr: listener.local_addr()?,
        listener: TcpListener::from_std(listener)?,
        tls,
        http: http(config.limits.header_bytes),
        drain: config.server.drain,
    })
}

fn http(header_bytes: usize) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(header_bytes.max(SMALLEST_BUFFER));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(H2_PING)
        .adaptive_window(true)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX));
    builder
}

fn acceptor(chain: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let bad = |path: &Path, e: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(chain, &e))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|e| bad(chain, &e))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

impl Bound {
    /// The address, with the port that was picked.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown` is ready, then takes no new requests and gives those under way the drain time.
    pub async fn run(self, app: Arc<App>, shutdown: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let connection = self.connection(stream, app.clone(), graceful.watcher());
                        connections.spawn(connection);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = connections.join_next() => note_panic(ended),
            }
        }
        drop(self.listener);
        if tokio::time::timeout(self.drain, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(
                left = connections.len(),
                "drain time is over; open streams are cut"
            );
        }
        connections.shutdown().await;
    }

    fn connection(
        &self,
        stream: TcpStream,
        app: Arc<App>,
        watcher: Watcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (tls, http) = (self.tls.clone(), self.http.clone());
        async move {
            // Events of a stream are small and must not wait for each other.
            let _ = stream.set_nodelay(true);
            let Some(tls) = tls else {
                return serve(stream, http, app, watcher).await;
            };
            match tokio::time::timeout(TLS_HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, http, app, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "TLS handshake"),
                Err(_) => tracing::debug!("TLS handshake: timeout"),
            }
        }
    }
}

async fn serve<S>(stream: S, http: Builder<TokioExecutor>, app: Arc<App>, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (again, uri) = (app.clone(), request.uri().clone());
        let shape = move || find_route(&again, &uri, &HeaderMap::new()).shape();
        contained(handle(app.clone(), request), shape)
    });
    let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error, "connection");
    }
}

/// A panic in a body ends its connection: the agent has half an answer already.
fn note_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "connection");
    }
}

/// A panic becomes a 500 in the wire's shape. Its exchange is noted by the meter that it drops.
async fn contained(
    handled: impl Future<Output = Response<OutBody>>,
    shape: impl FnOnce() -> WireId,
) -> Result<Response<OutBody>, Infallible> {
    let handled = AssertUnwindSafe(handled).catch_unwind().await;
    Ok(handled.unwrap_or_else(|_| Fault::from(Code::INTERNAL).response(shape())))
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
