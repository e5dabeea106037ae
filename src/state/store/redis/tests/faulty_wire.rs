//! A network between a client and a server that is slow, loses data or breaks. Also compiled into the
//! library's own tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// Fault of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Forwards nothing in either direction until the fault ends.
    Stalled,
    /// Accepts data without forwarding it or reporting an error, as with half-open connections.
    Swallowed,
    /// Responses arrive byte by byte, at this interval.
    Trickled(Duration),
    /// One of `one_in` segments is late, as if it was lost and sent again, together with the data after it.
    Lossy { one_in: u64, late: Duration },
    /// Resets connections, and new ones as soon as they are made.
    Reset,
    /// Truncates responses and resets their connections.
    Torn,
}

/// A network to one server, in a thread of its own, so that its tasks do not run in the runtime under test.
pub struct FaultyWire {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Dropping the sender ends the thread.
    _open: oneshot::Sender<()>,
}

struct Shared {
    /// Port of the server. Connections break when it changes.
    port: watch::Sender<u16>,
    fault: watch::Sender<Fault>,
    delay_us: AtomicU64,
    segments: AtomicU64,
}

impl FaultyWire {
    /// Connects to a server on this machine.
    pub fn to(port: u16) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            port: watch::Sender::new(port),
            fault: watch::Sender::new(Fault::None),
            delay_us: AtomicU64::new(0),
            segments: AtomicU64::new(0),
        });
        let (open, closed) = oneshot::channel::<()>();
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, of_thread) => {}
                    _ = closed => {}
                }
            });
        });
        Self {
            addr,
            shared,
            _open: open,
        }
    }

    /// Address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// URL of a Redis server at the other end.
    pub fn redis_url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Leads to another server from now on.
    pub fn lead_to(&self, port: u16) {
        self.shared.port.send_replace(port);
    }

    /// Sets the fault from now on.
    pub fn fault(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Delays each response by this time from now on.
    pub fn delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap();
        self.shared.delay_us.store(micros, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if *shared.fault.borrow() == Fault::Reset {
            // Unread bytes in a socket make the system reset it.
            drop(client);
            continue;
        }
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut ports = shared.port.subscribe();
            let port = *ports.borrow_and_update();
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                return;
            };
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let mut faults = shared.fault.subscribe();
            // When one direction ends, both halves of both sockets are dropped.
            tokio::select! {
                () = pass_on(from_client, to_server, Arc::clone(&shared), false) => {}
                () = pass_on(from_server, to_client, Arc::clone(&shared), true) => {}
                _ = faults.wait_for(|fault| *fault == Fault::Reset) => {}
                _ = ports.changed() => {}
            }
        });
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: Arc<Shared>, answers: bool) {
    let mut faults = shared.fault.subscribe();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let mut data = &buffer[..read];
        if answers {
            let delay = Duration::from_micros(shared.delay_us.load(Ordering::SeqCst));
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
        if faults.wait_for(|fault| *fault != Fault::Stalled).await.is_err() {
            return;
        }
        let fault = *faults.borrow();
        match fault {
            Fault::Swallowed => continue,
            Fault::Lossy { one_in, late } => {
                let before = shared.segments.fetch_add(1, Ordering::SeqCst);
                let is_lost = before.is_multiple_of(one_in);
                tokio::time::sleep(if is_lost { late } else { Duration::ZERO }).await;
            }
            Fault::Trickled(gap) if answers => {
                for byte in data {
                    if to.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(gap).await;
                }
                data = &[];
            }
            Fault::Torn if answers => {
                let _ = to.write_all(&data[..read / 2]).await;
                return;
            }
            _ => {}
        }
        if to.write_all(data).await.is_err() {
            return;
        }
    }
}
