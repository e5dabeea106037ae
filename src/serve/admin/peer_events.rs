//! Live updates of the other replicas, passed on as they come.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use memchr::memmem;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::merge;
use super::peers::{Peer, Peers, TIME};

/// Pause before a replica that is offline is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// Maximum length of one event.
const EVENT_BYTES: usize = 4 << 20;

/// Notifies the page that it may have missed something.
const MISSED: &[u8] = b"event: missed\ndata: 0\n\n";

/// Passes on the events of all other replicas, also of those that come later, until the reader leaves or the listener
/// closes.
pub(super) async fn follow_all(
    peers: Arc<Peers>,
    out: mpsc::Sender<Bytes>,
    mut closing: watch::Receiver<bool>,
) {
    let following = async {
        let mut followed = JoinSet::new();
        let mut known: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            let all = peers.all();
            known.retain(|name, task| {
                let stays = all.iter().any(|peer| peer.name == *name);
                if !stays {
                    task.abort();
                }
                stays
            });
            for peer in all
                .iter()
                .filter(|peer| !known.contains_key(&peer.name))
                .collect::<Vec<_>>()
            {
                let task = followed.spawn(follow(peer.clone(), out.clone()));
                known.insert(peer.name.clone(), task);
            }
            if !peers.are_possible() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    // With the set its tasks end.
    tokio::select! {
        () = out.closed() => {}
        _ = closing.wait_for(|closed| *closed) => {}
        () = following => {}
    }
}

/// Forwards a replica's events until its task is dropped.
async fn follow(peer: Peer, out: mpsc::Sender<Bytes>) {
    let mut is_first = true;
    loop {
        // The viewer has to ask for what happened while it was offline.
        let before = (!is_first).then_some(Bytes::from_static(MISSED));
        pass_on(&peer, before, &out).await;
        is_first = false;
        tokio::time::sleep(AGAIN).await;
    }
}

/// Passes on events until the connection ends.
async fn pass_on(peer: &Peer, before: Option<Bytes>, out: &mpsc::Sender<Bytes>) {
    let opened = tokio::time::timeout(TIME, peer.open("events", "", "text/event-stream")).await;
    let Ok(Ok(response)) = opened else { return };
    if response.status() != StatusCode::OK {
        return;
    }
    if let Some(before) = before {
        let _ = out.send(before).await;
    }
    let mut body = response.into_body();
    let mut blocks = Blocks::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        for block in blocks.add(&data) {
            let Some(event) = of_replica(&block, &peer.name) else {
                continue;
            };
            if out.send(event).await.is_err() {
                return;
            }
        }
        if blocks.rest.len() > EVENT_BYTES {
            return;
        }
    }
}

/// Server-sent events, cut where each ends.
#[derive(Default)]
struct Blocks {
    rest: Vec<u8>,
    /// So many bytes of the rest hold no end.
    searched: usize,
}

impl Blocks {
    fn add(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(data);
        let mut found = Vec::new();
        while let Some(at) = memmem::find(&self.rest[self.searched..], b"\n\n") {
            let after = self.rest.split_off(self.searched + at + 2);
            found.push(std::mem::replace(&mut self.rest, after));
            self.searched = 0;
        }
        self.searched = self.rest.len().saturating_sub(1);
        found
    }
}

/// An event that says whose it is; `None` for comments, and for what is no JSON object.
pub(super) fn of_replica(block: &[u8], replica: &str) -> Option<Bytes> {
    let text = std::str::from_utf8(block).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let (event, data) = (field("event: ")?, field("data: ")?);
    let data: Value = serde_json::from_str(data).ok()?;
    let data = merge::of_replica(data, replica);
    Some(format!("event: {event}\ndata: {data}\n\n").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_wherever_they_were_cut_and_say_whose_they_are() {
        let text = b": hello\n\nevent: begun\ndata: {\"id\":\"1\"}\n\nevent: missed\ndata: 3\n\n";
        for at in 0..text.len() {
            let mut blocks = Blocks::default();
            let mut found = blocks.add(&text[..at]);
            found.extend(blocks.add(&text[at..]));
            let reply: Vec<_> = found
                .iter()
                .filter_map(|block| of_replica(block, "two"))
                .collect();
            assert_eq!(
                reply[0], "event: begun\ndata: {\"id\":\"1\",\"replica\":\"two\"}\n\n",
                "{at}"
            );
            assert_eq!(
                (reply.len(), &reply[1][..]),
                (2, &b"event: missed\ndata: 3\n\n"[..])
            );
        }
    }
}
