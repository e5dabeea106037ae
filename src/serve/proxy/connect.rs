//! Connections to upstreams.
//!
//! One timeout covers DNS, TCP and TLS together, and each stage has its own fault. A connection counts its
//! responses, which distinguishes a stale one from a failing one.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::fault::{Code, Fault};

/// Interval of TCP probes on an idle connection. They reveal a peer that a NAT has dropped.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Connector to one upstream.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<HttpConnector>,
    limit: Duration,
}

impl Connector {
    /// Creates a connector that trusts Mozilla's roots and speaks only HTTP/1.1.
    ///
    /// Over HTTP/2 the client library would put all streams of an upstream into one connection. There they
    /// would wait for the provider's stream limit and for each other's lost packets.
    pub(super) fn new(limit: Duration) -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        // A request is written in several pieces, which must not wait for acknowledgements.
        tcp.set_nodelay(true);
        // The TCP connector also serves `https`.
        tcp.enforce_http(false);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        // Divided among a host's addresses, so that a dead one does not use up the whole time.
        tcp.set_connect_timeout(Some(limit));
        let inner = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(io::Error::other)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self { inner, limit })
    }
}

impl Service<Uri> for Connector {
    type Response = Counted;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Counted, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.inner.poll_ready(cx).map_err(|e| classify(&*e, false))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let secure = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let connecting = tokio::time::timeout(self.limit, self.inner.call(uri));
        Box::pin(async move {
            match connecting.await {
                Ok(Ok(stream)) => Ok(Counted {
                    stream,
                    served: Served::default(),
                }),
                Ok(Err(error)) => Err(classify(&*error, secure)),
                Err(_) => Err(timeout()),
            }
        })
    }
}

fn timeout() -> Fault {
    Fault::because(Code::CONNECT_TIMEOUT, "timeout")
}

/// Classifies a connection error by the connector's messages, because its error type is private.
///
/// A `secure` connection that fails neither in DNS nor in TCP fails in TLS.
fn classify(error: &(dyn Error + 'static), secure: bool) -> Fault {
    let cause = chain(error).last().map(ToString::to_string).unwrap_or_default();
    let timed_out = |e: &(dyn Error + 'static)| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
    };
    let code = match error.to_string().as_str() {
        // A shortage of this process, which implies nothing about upstream.
        _ if chain(error).any(out_of_descriptors) => Code::OVERLOADED,
        // Before timeouts, because a name lookup that times out is a fault of DNS.
        "dns error" => Code::DNS,
        _ if chain(error).any(timed_out) => return timeout(),
        text if secure && !text.starts_with("tcp ") => Code::TLS,
        _ => Code::UNREACHABLE,
    };
    Fault::because(code, cause)
}

/// Whether an error is `EMFILE` or `ENFILE` (too many open files). Every Unix uses these numbers.
fn out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    let number = error.downcast_ref().and_then(io::Error::raw_os_error);
    cfg!(unix) && matches!(number, Some(23 | 24))
}

/// Iterates over an error and its causes.
pub(super) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Number of responses that a connection has begun. Stored in the extensions of responses and errors.
#[derive(Debug, Clone, Default)]
pub(super) struct Served(Arc<AtomicUsize>);

impl Served {
    pub(super) fn one_more(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

/// Connection that carries its [`Served`] counter.
pub(super) struct Counted {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    served: Served,
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.served.clone())
    }
}

impl Read for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
