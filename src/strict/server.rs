//! The server: its options, its connections, and what it remembers of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::complaint::{Complaint, Rule};
use super::dialect::Endpoint;
use super::exchange::answer;
use super::model::{Model, Seen};
use super::openai_responses::Memory;
use super::usage::PromptCache;

/// How long the waiting functions wait: far beyond what a loopback needs, and short enough for a test.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) type Watch = Arc<dyn Fn(&Seen, &[Complaint]) + Send + Sync>;

/// How a provider runs.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The address to bind; by default a free port on the loopback.
    pub listen: SocketAddr,
    /// Rules that are neither enforced nor recorded.
    pub ignored: Vec<Rule>,
    pub(crate) watch: Option<Watch>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ignored: Vec::new(),
            watch: None,
        }
    }
}

impl Options {
    /// Binds this address.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Neither enforces nor records this rule.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.ignored.push(rule);
        self
    }

    /// Calls `watch` for every request, with what was found wrong with it, before it is answered.
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&Seen, &[Complaint]) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("ignored", &self.ignored)
            .finish()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    open: usize,
    aborted: usize,
}

/// A running provider. It shuts down, with all its connections, when it is dropped.
pub struct Strict {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What all connections of one provider share.
pub(crate) struct Shared {
    pub(crate) model: Box<dyn Model>,
    pub(crate) options: Options,
    pub(crate) seen: Mutex<Vec<Arc<Seen>>>,
    pub(crate) complaints: Mutex<Vec<Complaint>>,
    pub(crate) cache: PromptCache,
    pub(crate) memory: Arc<Memory>,
    counts: watch::Sender<Counts>,
}

impl Shared {
    /// Counts a request that begins.
    pub(crate) fn begin(&self) -> InFlight {
        InFlight {
            counts: self.counts.clone(),
            done: false,
        }
    }
}

impl Strict {
    /// Binds the address and starts to serve.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(model: impl Model + 'static, options: Options) -> io::Result<Strict> {
        let listener = TcpListener::bind(options.listen).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            model: Box::new(model),
            options,
            seen: Mutex::default(),
            complaints: Mutex::default(),
            cache: PromptCache::default(),
            memory: Arc::default(),
            counts: watch::Sender::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Strict { addr, shared, task })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Every request so far, in order, those refused included.
    pub fn requests(&self) -> Vec<Arc<Seen>> {
        lock(&self.shared.seen).clone()
    }

    /// The requests that asked the model for a reply, in order.
    pub fn generations(&self) -> Vec<Arc<Seen>> {
        let mut requests = self.requests();
        requests.retain(|seen| seen.endpoint == Endpoint::Generate);
        requests
    }

    /// Every violation so far.
    pub fn complaints(&self) -> Vec<Complaint> {
        lock(&self.shared.complaints).clone()
    }

    /// The connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.counts.borrow().open
    }

    /// How many requests the client left before their reply was written to its end (cuts of the script's
    /// own are not counted).
    pub fn aborted(&self) -> usize {
        self.shared.counts.borrow().aborted
    }

    /// Waits until the client has left at least `requests` replies unfinished; false after 5 seconds.
    pub async fn wait_aborted(&self, requests: usize) -> bool {
        self.wait(|counts| counts.aborted >= requests).await
    }

    /// Waits until at most `connections` are open; false after 5 seconds.
    pub async fn wait_open(&self, connections: usize) -> bool {
        self.wait(|counts| counts.open <= connections).await
    }

    /// Waits until the server ends by itself, which it does only when its listener fails.
    pub async fn serve(mut self) {
        let _ = (&mut self.task).await;
    }

    async fn wait(&self, ready: impl FnMut(&Counts) -> bool) -> bool {
        let mut counts = self.shared.counts.subscribe();
        let waited = tokio::time::timeout(PATIENCE, counts.wait_for(ready)).await;
        matches!(waited, Ok(Ok(_)))
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
        // The accept loop owns the connections, so they go with it.
        self.task.abort();
    }
}

/// A request whose reply is not yet written to its end.
pub(crate) struct InFlight {
    counts: watch::Sender<Counts>,
    done: bool,
}

impl InFlight {
    /// The reply ended as planned.
    pub(crate) fn finish(&mut self) {
        self.done = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.done {
            self.counts.send_modify(|counts| counts.aborted += 1);
        }
    }
}

/// One connection, counted while it lives.
struct Open(watch::Sender<Counts>);

impl Open {
    fn new(counts: &watch::Sender<Counts>) -> Self {
        counts.send_modify(|counts| counts.open += 1);
        Open(counts.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.open -= 1);
    }
}

/// Locks, also behind a model that panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(stream, Arc::clone(&shared)));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _open = Open::new(&shared.counts);
    // A socket that refuses the option still serves.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(Arc::clone(&shared), request));
    let server = auto::Builder::new(TokioExecutor::new());
    // How a connection ends is the client's business, and is counted by its bodies.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
