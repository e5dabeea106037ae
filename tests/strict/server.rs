//! The server: its listener and its connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::api::Endpoint;
use super::complaint::Complaint;
use super::dialect::Received;
use super::exchange::{ProviderShared, answer, lock, respond};
use super::model::Model;
use super::options::Options;

/// A running provider. It shuts down, with all its connections, when it is dropped.
pub struct Strict {
    addr: SocketAddr,
    shared: Arc<ProviderShared>,
    /// `None`: nothing listens.
    task: Option<JoinHandle<()>>,
}

/// The answer to a request that came over no socket.
#[derive(Debug)]
pub struct DirectAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as it would be written.
    pub pieces: Vec<Bytes>,
    /// Whether the connection would be dropped before the body's end.
    pub broken: bool,
}

impl Strict {
    /// Binds the address and starts to serve.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(model: impl Model + 'static, options: Options) -> io::Result<Strict> {
        let listener = TcpListener::bind(options.listen).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(ProviderShared::new(Box::new(model), options));
        let task = Some(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Ok(Strict { addr, shared, task })
    }

    /// A provider without a socket, which [`Strict::answer`] asks.
    pub fn direct(model: impl Model + 'static, options: Options) -> Strict {
        Strict {
            addr: options.listen,
            shared: Arc::new(ProviderShared::new(Box::new(model), options)),
            task: None,
        }
    }

    /// Answers a POST of this body, without the delays that a reply asks for.
    ///
    /// # Errors
    /// The request cannot be made, or the script gives it no answer.
    pub async fn answer(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> io::Result<DirectAnswer> {
        let mut head = Request::post(path);
        for (name, value) in headers {
            head = head.header(*name, *value);
        }
        let (head, ()) = head.body(()).map_err(io::Error::other)?.into_parts();
        let in_flight = self.shared.aborted.request();
        let (parts, body) = respond(Arc::clone(&self.shared), &head, body, in_flight)
            .await?
            .into_parts();
        let (pieces, broken) = body.into_pieces();
        Ok(DirectAnswer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            pieces,
            broken,
        })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Every request so far, in order, including those that were refused; the last ones where the options say so.
    pub fn requests(&self) -> Vec<Arc<Received>> {
        lock(&self.shared.requests).clone()
    }

    /// The requests to the model, in order.
    pub fn generations(&self) -> Vec<Arc<Received>> {
        let mut requests = self.requests();
        requests.retain(|request| request.endpoint == Endpoint::Generate);
        requests
    }

    /// Every violation so far.
    pub fn complaints(&self) -> Vec<Complaint> {
        lock(&self.shared.complaints).clone()
    }

    /// How many requests the client left before their reply was written to its end. Cuts of the script are not counted.
    pub fn aborted(&self) -> usize {
        self.shared.aborted.now()
    }

    /// Waits until the client has left at least `requests` replies unfinished; false after 5 seconds.
    pub async fn wait_aborted(&self, requests: usize) -> bool {
        self.shared.aborted.wait(requests).await
    }

    /// Waits until the server ends by itself, which it does only when its listener fails.
    pub async fn serve(mut self) {
        if let Some(task) = &mut self.task {
            let _ = task.await;
        }
    }
}

impl fmt::Debug for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strict")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        // The accept loop owns the connections, so aborting it closes them.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProviderShared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(stream, Arc::clone(&shared)));
    }
}

async fn connection(stream: TcpStream, shared: Arc<ProviderShared>) {
    // A socket that refuses the option still serves.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(Arc::clone(&shared), request));
    let server = http1::Builder::new();
    // How a connection ends is up to the client; its response bodies count aborted requests.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
