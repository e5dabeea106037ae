//! Connections to upstreams.
//!
//! One timeout covers DNS, TCP, an outbound proxy and TLS together, and each stage has its own fault. A
//! connection counts its responses, which distinguishes a stale one from a failing one.

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Builder, Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::net::TcpStream;
use tower_service::Service;

use super::fault::{Code, Fault};
use crate::state::access::hosts;

/// Interval of TCP probes on an idle connection. They reveal a peer that a NAT has dropped.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// The outbound proxies that the environment names.
struct Proxies {
    usable: Matcher,
    /// Variables that name none, each with the URLs that it is about.
    broken: Vec<(String, Matcher)>,
}

impl Proxies {
    fn from_env() -> Self {
        type Set = fn(Builder, String) -> Builder;
        let variables: [([&str; 2], Set); 3] = [
            (["HTTP_PROXY", "http_proxy"], |builder, url| builder.http(url)),
            (["HTTPS_PROXY", "https_proxy"], |builder, url| builder.https(url)),
            (["ALL_PROXY", "all_proxy"], |builder, url| builder.all(url)),
        ];
        let value = |names: [&str; 2]| {
            let mut names = names.into_iter();
            names.find_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        };
        let (_, except) = value(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let ends = ["http://upstream.invalid", "https://upstream.invalid"].map(Uri::from_static);
        let broken = variables.into_iter().filter_map(|(names, set)| {
            let (name, url) = value(names).filter(|(_, url)| !url.trim().is_empty())?;
            let given = set(Matcher::builder(), url).build();
            let about = || {
                set(
                    Matcher::builder().no(except.clone()),
                    "http://unnamed.invalid".to_owned(),
                )
            };
            let names_one = ends.iter().any(|end| given.intercept(end).is_some());
            (!names_one).then(|| (name, about().build()))
        });
        Self {
            usable: Matcher::from_env(),
            broken: broken.collect(),
        }
    }

    /// Returns the proxy for a URL, if it has one.
    ///
    /// # Errors
    /// Returns a fault if a variable that applies names no proxy. A direct connection would go where the user does not
    /// want one.
    fn intercept(&self, uri: &Uri) -> Result<Option<Intercept>, Fault> {
        if let Some(proxy) = self.usable.intercept(uri) {
            return Ok(Some(proxy));
        }
        match self
            .broken
            .iter()
            .find(|(_, about)| about.intercept(uri).is_some())
        {
            // Without the value, which may have a password.
            Some((name, _)) => {
                let detail = format!("the environment variable {name} is not the URL of a proxy");
                Err(Fault::because(Code::UNREACHABLE, detail))
            }
            None => Ok(None),
        }
    }
}

/// Variables of the environment that are to name an outbound proxy, and do not.
pub(super) fn broken_proxies() -> impl Iterator<Item = String> {
    Proxies::from_env().broken.into_iter().map(|(name, _)| name)
}

/// Settings that the connectors of all upstreams share.
pub(super) struct Outbound {
    proxies: Arc<Proxies>,
    /// Trusts Mozilla's roots and the system's.
    tls: Arc<ClientConfig>,
}

impl Outbound {
    /// Reads the outbound proxies from the environment, and the system's roots.
    pub(super) fn from_system() -> io::Result<Self> {
        let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::debug!(%error, "failed to read certificates of the system; not trusting them");
        }
        // A system's store may have certificates that rustls cannot read. They are skipped, since providers use none.
        roots.add_parsable_certificates(system.certs);
        Ok(Self {
            proxies: Arc::new(Proxies::from_env()),
            tls: tls_config(roots)?,
        })
    }
}

/// TLS settings of a client that trusts these roots.
fn tls_config(roots: RootCertStore) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Reads the roots of a PEM file.
fn roots_of(path: &Path) -> io::Result<RootCertStore> {
    let bad = |error: &dyn Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(&error))?;
        roots.add(certificate).map_err(|error| bad(&error))?;
    }
    match roots.is_empty() {
        true => Err(bad(&"the file has no certificate")),
        false => Ok(roots),
    }
}

/// Connector to one upstream.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<Dialer>,
    limit: Duration,
}

impl Connector {
    /// Creates a connector that speaks only HTTP/1.1. With a `ca_file` it trusts no other roots.
    ///
    /// Over HTTP/2 the client library would put all streams of an upstream into one connection. There they
    /// would wait for the provider's stream limit and for each other's lost packets.
    pub(super) fn new(limit: Duration, ca_file: Option<&Path>, outbound: &Outbound) -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        // A request is written in several pieces, which must not wait for acknowledgements.
        tcp.set_nodelay(true);
        // The TCP connector also serves `https`.
        tcp.enforce_http(false);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        // Divided among a host's addresses, so that a dead one does not use up the whole time.
        tcp.set_connect_timeout(Some(limit));
        let tls = match ca_file {
            Some(path) => tls_config(roots_of(path)?)?,
            None => Arc::clone(&outbound.tls),
        };
        let dialer = Dialer {
            to_proxy: https(&outbound.tls, tcp.clone()),
            tcp,
            proxies: Arc::clone(&outbound.proxies),
        };
        Ok(Self {
            inner: https(&tls, dialer),
            limit,
        })
    }
}

fn https<C>(tls: &Arc<ClientConfig>, inner: C) -> HttpsConnector<C> {
    HttpsConnectorBuilder::new()
        .with_tls_config(ClientConfig::clone(tls))
        .https_or_http()
        .enable_http1()
        .wrap_connector(inner)
}

type BoxError = Box<dyn Error + Send + Sync>;

/// Opens the TCP connection to a host: directly, or through the outbound proxy that the environment names.
#[derive(Clone)]
struct Dialer {
    tcp: HttpConnector,
    to_proxy: HttpsConnector<HttpConnector>,
    proxies: Arc<Proxies>,
}

impl Dialer {
    fn proxy(&self, uri: &Uri) -> Result<Option<Intercept>, Fault> {
        // The company's proxy does not reach local models, whether `NO_PROXY` names them or not.
        let is_local = |host: &str| hosts::is_loopback(host.trim_matches(['[', ']']));
        match uri.host().is_some_and(is_local) {
            true => Ok(None),
            false => self.proxies.intercept(uri),
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let proxy = match self.proxy(&uri) {
            Ok(Some(proxy)) => proxy,
            Ok(None) => {
                let connecting = self.tcp.call(uri);
                return Box::pin(async move { Ok(MaybeHttpsStream::Http(connecting.await?)) });
            }
            Err(fault) => return Box::pin(std::future::ready(Err(fault.into()))),
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy.clone());
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let connecting = tunnel.call(with_port(uri));
        Box::pin(async move {
            connecting.await.map_err(|error| {
                // The address is without the credentials of the variable.
                let detail = format!("proxy {} (from the environment): {}", proxy.uri(), causes(&error));
                Fault::because(Code::UNREACHABLE, detail).into()
            })
        })
    }
}

/// Messages of an error and its causes.
fn causes(error: &(dyn Error + 'static)) -> String {
    let messages: Vec<_> = chain(error).map(ToString::to_string).collect();
    messages.join(": ")
}

/// Adds the port of the scheme, because a tunnel takes a missing one for 443.
fn with_port(uri: Uri) -> Uri {
    let is_plain_http = uri.scheme() == Some(&Scheme::HTTP) && uri.port().is_none();
    let authority = match uri.authority() {
        Some(authority) if is_plain_http => format!("{authority}:80"),
        _ => return uri,
    };
    let complete = Uri::builder()
        .scheme(Scheme::HTTP)
        .path_and_query("/")
        .authority(authority);
    complete.build().unwrap_or(uri)
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
    let last = || chain(error).last().map(ToString::to_string);
    let cause = tls_problem(error)
        .map(str::to_owned)
        .or_else(last)
        .unwrap_or_default();
    let timed_out = |e: &(dyn Error + 'static)| {
        e.downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
    };
    if let Some(fault) = chain(error).find_map(|error| error.downcast_ref::<Fault>()) {
        return fault.clone();
    }
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

/// Describes the cause of a failed TLS handshake, and its remedy. `None` if the cause is rare.
fn tls_problem(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let problem = chain(error).find_map(rustls_error)?;
    Some(match problem {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => {
                "its certificate is from an authority that baton does not trust, perhaps that of a proxy that \
                 intercepts TLS; name the authority's certificate in upstreams.NAME.ca_file or SSL_CERT_FILE"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; renew it, or correct this machine's clock"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; correct this machine's clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another host name; use that name in base_url"
            }
            _ => return None,
        },
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS on this port; use http:// or another port in base_url"
        }
        _ => return None,
    })
}

/// The TLS error in an error, which I/O errors wrap without naming it as their source.
fn rustls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let wrapped = || rustls_error(error.downcast_ref::<io::Error>()?.get_ref()?);
    error.downcast_ref().or_else(wrapped)
}

/// Whether an error is `EMFILE` or `ENFILE` (too many open files). Every Unix uses these numbers.
fn out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    let number = error.downcast_ref().and_then(io::Error::raw_os_error);
    matches!(number, Some(23 | 24))
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
    stream: MaybeHttpsStream<MaybeHttpsStream<TokioIo<TcpStream>>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_handshake_is_told_with_what_to_do() {
        let told = |error: rustls::Error| {
            // As tokio-rustls and hyper-rustls wrap it.
            let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            let fault = classify(&wrapped, true);
            assert_eq!(fault.code, Code::TLS);
            fault.detail.unwrap()
        };
        for (problem, parts) in [
            (
                CertificateError::UnknownIssuer,
                ["upstreams.NAME.ca_file", "SSL_CERT_FILE"],
            ),
            (CertificateError::Expired, ["expired", "clock"]),
            (CertificateError::NotValidYet, ["not valid yet", "clock"]),
            (
                CertificateError::NotValidForName,
                ["another host name", "base_url"],
            ),
            (CertificateError::Revoked, ["certificate", "Revoked"]),
        ] {
            let detail = told(problem.into());
            assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
        }
        let plain = told(rustls::InvalidMessage::InvalidContentType.into());
        assert!(plain.contains("http://"), "{plain}");
        assert_eq!(
            told(rustls::Error::DecryptError),
            rustls::Error::DecryptError.to_string()
        );
    }
}
