//! Open connections of a listener, and the one that is closed to make room for another.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use crate::state::access::peers;

/// The other end of a connection. Clones share whether it was admitted.
#[derive(Clone)]
pub struct Peer {
    pub(crate) address: IpAddr,
    is_admitted: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self {
            address,
            is_admitted: Arc::default(),
        }
    }

    /// Records that a request of this connection was admitted. From then on the connection never gives way.
    pub(crate) fn admit(&self) {
        self.is_admitted.store(true, Relaxed);
    }
}

/// Tasks of open connections, up to a limit.
///
/// At the limit a connection without an admitted request gives way, so that peers without a key or a token cannot keep
/// others out.
pub(crate) struct Connections {
    limit: usize,
    /// Time before a connection can give way, because its first request may be on its way.
    patience: Duration,
    tasks: JoinSet<()>,
    open: HashMap<Id, OpenConnection>,
}

struct OpenConnection {
    peer: Peer,
    since: Instant,
    task: AbortHandle,
}

impl Connections {
    pub(crate) fn new(limit: usize, patience: Duration) -> Self {
        Self {
            limit,
            patience,
            tasks: JoinSet::new(),
            open: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether another connection can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < self.limit || self.giving_way().is_some()
    }

    /// Returns the connection to close for another one.
    ///
    /// That is the oldest one without an admitted request, from the network that has the most of them: a flood from one
    /// network then closes only its own.
    fn giving_way(&self) -> Option<Id> {
        let mut networks = HashMap::new();
        for (id, OpenConnection { peer, since, .. }) in &self.open {
            if !peer.is_admitted.load(Relaxed) {
                let network = networks.entry(peers::network(peer.address));
                let (count, oldest) = network.or_insert((0, (*since, *id)));
                *count += 1;
                *oldest = (*oldest).min((*since, *id));
            }
        }
        let largest = networks
            .into_values()
            .max_by_key(|(count, oldest)| (*count, Reverse(*oldest)));
        let oldest = largest.filter(|(_, (since, _))| since.elapsed() >= self.patience);
        oldest.map(|(_, (_, id))| id)
    }

    /// Starts the task of a connection. At the limit another one gives way for it.
    pub(crate) fn spawn(&mut self, peer: Peer, task: impl Future<Output = ()> + Send + 'static) {
        if self.open.len() >= self.limit
            && let Some(given) = self.giving_way().and_then(|id| self.open.remove(&id))
        {
            given.task.abort();
        }
        let task = self.tasks.spawn(task);
        let since = Instant::now();
        self.open.insert(task.id(), OpenConnection { peer, since, task });
    }

    /// Waits for the end of a connection. `None` if none is open.
    ///
    /// Logs a panic, which ends the connection because the agent already has part of the response.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(|error| error.id(), |(id, ())| *id);
        self.open.remove(&id);
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "connection task panicked; closing the connection");
        }
        Some(())
    }

    /// Aborts the tasks and waits for their end.
    pub(crate) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a connection that never ends by itself.
    async fn open(connections: &mut Connections, address: &str) -> Peer {
        assert!(connections.has_room());
        let peer = Peer::new(address.parse().unwrap());
        connections.spawn(peer.clone(), std::future::pending());
        // No two begin at the same instant.
        tokio::time::advance(Duration::from_millis(1)).await;
        peer
    }

    fn addresses(connections: &Connections) -> Vec<String> {
        let mut all: Vec<_> = connections
            .open
            .values()
            .map(|one| (one.since, one.peer.address))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, address)| address.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_the_largest_network_gives_way_and_none_that_was_admitted() {
        let mut connections = Connections::new(5, Duration::ZERO);
        for address in [
            "192.0.2.1",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8::3",
            "198.51.100.1",
        ] {
            let peer = open(&mut connections, address).await;
            if address == "2001:db8::1" {
                peer.admit();
            }
        }
        open(&mut connections, "203.0.113.1").await;
        let after = [
            "192.0.2.1",
            "2001:db8::1",
            "2001:db8::3",
            "198.51.100.1",
            "203.0.113.1",
        ];
        assert_eq!(addresses(&connections), after);
        // Now each network has one, so the oldest gives way.
        open(&mut connections, "203.0.113.2").await.admit();
        assert_eq!(addresses(&connections)[..2], ["2001:db8::1", "2001:db8::3"]);
        connections.open.values().for_each(|one| one.peer.admit());
        assert!(!connections.has_room() && connections.len() == 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_for_its_first_request() {
        let mut connections = Connections::new(1, Duration::from_secs(1));
        open(&mut connections, "192.0.2.1").await;
        assert!(!connections.has_room());
        tokio::time::advance(Duration::from_secs(1)).await;
        open(&mut connections, "192.0.2.2").await;
        assert_eq!(addresses(&connections), ["192.0.2.2"]);
        assert!(
            connections.ended().await.is_some(),
            "the other's task was aborted"
        );
    }
}
