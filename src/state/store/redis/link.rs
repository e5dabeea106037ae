//! A persistent connection to the primary, reopened when it breaks, with bounded waits.
//!
//! A background task opens the connection, and retries after a failure, at least every quarter of a second.
//! Callers wait for the first attempt, or for one that follows a failure. While the server is offline they
//! fail at once. Every call ends within the link's timeout, and the number of concurrent calls is bounded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use super::answers::{LinkFault, durable, server_fault};
use super::dial::{Dialer, PrimaryConnection};
use super::scripts::ScriptCall;
use super::settings::WriteWait;
use crate::store::{Durable, StoreError, StoreResult};

/// Maximum number of concurrent calls. More would only wait for each other.
const MAX_CONCURRENT_CALLS: usize = 1024;

/// First and longest pause after a failed attempt to connect. The first one is short, for a server that
/// restarts.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Fraction of a call's timeout that the server may wait for a replica or for its file.
const WAIT_SHARE: f64 = 0.75;

/// A connection that is kept open.
pub(super) struct Link {
    shared: Arc<LinkCore>,
    connector: OnceLock<JoinHandle<()>>,
    places: Semaphore,
    time: Duration,
}

struct LinkCore {
    dial: Arc<Dialer>,
    state: watch::Sender<LinkState>,
    broken: Notify,
    /// Counts connections, so that a failure of an old one does not break a newer one.
    opened: AtomicU64,
}

#[derive(Clone)]
enum LinkState {
    /// An attempt to connect is in progress.
    Opening,
    Open(u64, Arc<PrimaryConnection>),
    /// The last attempt failed.
    Offline(String),
}

/// A request to the server.
pub(super) enum LinkRequest {
    /// A script. The call returns when its write is durable, if requested.
    Script(ScriptCall, Durable),
    /// Plain commands.
    Plain(Pipeline),
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = self.connector.get() {
            task.abort();
        }
    }
}

impl Link {
    /// Creates a link without connecting. No call takes longer than `time`.
    pub(super) fn new(dial: Arc<Dialer>, time: Duration) -> Self {
        let (state, _) = watch::channel(LinkState::Opening);
        Self {
            shared: Arc::new(LinkCore {
                dial,
                state,
                broken: Notify::new(),
                opened: AtomicU64::new(0),
            }),
            connector: OnceLock::new(),
            places: Semaphore::new(MAX_CONCURRENT_CALLS),
            time,
        }
    }

    /// Waits for the connection to open, and returns it.
    pub(super) async fn line(&self) -> StoreResult<Arc<PrimaryConnection>> {
        let found = tokio::time::timeout(self.time, self.open()).await;
        found.map_or_else(
            |_| Err(self.offline("it takes too long to connect")),
            |found| found.map(|(_, line)| line),
        )
    }

    /// Sends a request, which must be idempotent because it may be sent twice.
    pub(super) async fn send(&self, what: &'static str, request: &LinkRequest) -> StoreResult<Vec<Value>> {
        // Refused instead of queued: a call that waited here would probably time out anyway.
        let Ok(_place) = self.places.try_acquire() else {
            return Err(self.failed(what, "too many calls wait for it"));
        };
        let mut used = None;
        match tokio::time::timeout(self.time, self.send_twice(what, request, &mut used)).await {
            Ok(sent) => sent,
            Err(_) => {
                // The connection may be dead: the next call tries a new one.
                if let Some(opened) = used {
                    self.shared.report(opened);
                }
                Err(self.failed(what, "it takes too long to answer"))
            }
        }
    }

    async fn send_twice(
        &self,
        what: &'static str,
        request: &LinkRequest,
        used: &mut Option<u64>,
    ) -> StoreResult<Vec<Value>> {
        let mut last = String::new();
        // A broken connection gets one retry, since the first call after a failover usually finds the old
        // connection.
        for _ in 0..2 {
            let (opened, line) = self.open().await?;
            *used = Some(opened);
            match self.send_by(&line, request).await {
                Ok(values) => return Ok(values),
                Err(LinkFault::Refused(error)) => return Err(self.failed(what, &error)),
                Err(LinkFault::Broken(error)) => {
                    self.shared.report(opened);
                    last = error;
                }
            }
        }
        Err(self.failed(what, &last))
    }

    async fn send_by(
        &self,
        line: &PrimaryConnection,
        request: &LinkRequest,
    ) -> Result<Vec<Value>, LinkFault> {
        let mut waited = None;
        let owned;
        let pipe = match request {
            LinkRequest::Plain(pipe) => pipe,
            LinkRequest::Script(call, durable) => {
                let mut pipe = Pipeline::new();
                pipe.add_command(call.command(&line.digests, &self.shared.dial.slot));
                if *durable == Durable::Yes {
                    // An unsuitable server refuses durable writes only, so reads still work.
                    let wait = line.wait.as_ref();
                    let wait = wait.map_err(|why| LinkFault::Refused(why.clone()))?;
                    let millis = (self.time.as_secs_f64() * WAIT_SHARE * 1000.0) as u64;
                    match wait {
                        WriteWait::No => {}
                        WriteWait::Replica => drop(pipe.cmd("WAIT").arg(1).arg(millis)),
                        WriteWait::File => drop(pipe.cmd("WAITAOF").arg(1).arg(0).arg(millis)),
                    }
                    waited = Some(*wait).filter(|wait| *wait != WriteWait::No);
                }
                owned = pipe;
                &owned
            }
        };
        let mut connection = line.connection.clone();
        let sent = connection.send_packed_commands(pipe, 0, pipe.len()).await;
        let mut values = sent.map_err(|error| LinkFault::Broken(error.to_string()))?;
        if let Some(fault) = values.iter().find_map(server_fault) {
            return Err(fault);
        }
        if let Some(wait) = waited {
            // The wait was the last command, so its answer is the last value.
            durable(wait, values.pop())?;
        }
        Ok(values)
    }

    /// Begins to connect, unless that already happened. Call it within the runtime.
    pub(super) fn start(&self) {
        self.connector
            .get_or_init(|| tokio::spawn(keep(Arc::clone(&self.shared))));
    }

    /// Returns the connection, after the current attempt to connect has ended.
    async fn open(&self) -> StoreResult<(u64, Arc<PrimaryConnection>)> {
        self.start();
        let mut states = self.shared.state.subscribe();
        let is_known = |state: &LinkState| !matches!(state, LinkState::Opening);
        let known = states.wait_for(is_known).await;
        match known.as_deref() {
            Ok(LinkState::Open(opened, line)) => Ok((*opened, Arc::clone(line))),
            Ok(LinkState::Offline(why)) => Err(self.offline(why)),
            Ok(LinkState::Opening) | Err(_) => Err(self.offline("it is not opened")),
        }
    }

    fn offline(&self, why: &str) -> StoreError {
        StoreError::new(format!("{} cannot be reached: {why}", self.shared.dial.address))
    }

    fn failed(&self, what: &str, why: &str) -> StoreError {
        StoreError::new(format!("{what} at {}: {why}", self.shared.dial.address))
    }
}

impl LinkCore {
    /// Reports a connection as broken.
    fn report(&self, opened: u64) {
        let stale = self.state.send_if_modified(|state| match state {
            LinkState::Open(known, _) if *known == opened => {
                *state = LinkState::Opening;
                true
            }
            _ => false,
        });
        if stale {
            self.broken.notify_one();
        }
    }
}

/// Opens the connection, and reopens it whenever it is reported broken.
async fn keep(shared: Arc<LinkCore>) {
    let (first, longest) = RECONNECT_PAUSES;
    let mut pause = first;
    let mut reported = false;
    loop {
        match shared.dial.connect().await {
            Ok(line) => {
                if let Err(why) = &line.wait {
                    tracing::error!(server = %shared.dial.address, why, "the store's server cannot make writes durable; refusing durable writes");
                }
                if reported {
                    tracing::info!(server = %shared.dial.address, "reconnected to the store's server");
                    reported = false;
                }
                let opened = shared.opened.fetch_add(1, Ordering::Relaxed) + 1;
                let line = Arc::new(line);
                shared
                    .state
                    .send_replace(LinkState::Open(opened, Arc::clone(&line)));
                pause = first;
                tokio::select! {
                    // A report before this line is not lost, because `notify_one` keeps it.
                    () = shared.broken.notified() => {}
                    () = shared.dial.is_replaced(&line.address) => {
                        tracing::warn!(server = %shared.dial.address, "the Sentinels name another primary; connecting to it");
                        shared.state.send_replace(LinkState::Opening);
                    }
                }
            }
            Err(why) => {
                // One message for an outage, not one for each attempt.
                if !reported {
                    tracing::error!(server = %shared.dial.address, why, "failed to reach the store's server; trying again");
                    reported = true;
                }
                shared.state.send_replace(LinkState::Offline(why));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}
