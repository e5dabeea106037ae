//! The inspector's JSON for several replicas: merged lists of all of them, and anything else from the replica that has
//! it.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::merge::{self, Part};
use super::peers::{OfflineReplica, Peer, PeerAnswer, Peers};
use super::query::{ApiResult, QueryParams, Unanswered, shown};
use super::responses::{FullResponse, JSON, TEXT, error, respond};

/// The replica whose answer this is.
const REPLICA: HeaderName = HeaderName::from_static("x-baton-replica");

/// The answer of all replicas to `/api/{path}?{query}`; `own` is this one's.
pub(super) async fn answer(
    peers: &Peers,
    path: &str,
    params: &QueryParams,
    own: FullResponse,
) -> FullResponse {
    let segments: Vec<_> = path.split('/').collect();
    let list = match segments.as_slice() {
        ["status"] => List::Status,
        ["conversations"] => List::Conversations,
        ["conversations", _] => List::Conversation,
        ["exchanges"] => List::Exchanges,
        ["handoffs"] => List::Handoffs,
        ["search"] => List::Search,
        _ if own.status() == StatusCode::NOT_FOUND => return whoever_has_it(peers, path, params, own).await,
        _ => {
            let own = whole(own, peers.own_name()).await;
            return passed_on(own, path);
        }
    };
    // A journal that cannot be read, or an invalid query.
    if !own.status().is_success() && own.status() != StatusCode::NOT_FOUND {
        return own;
    }
    let own = whole(own, peers.own_name()).await;
    let (replies, mut offline) = peers.ask(path, &params.without_replica()).await;
    let mut parts = Vec::new();
    for reply in std::iter::once(own).chain(replies) {
        if reply.status == StatusCode::NOT_FOUND {
            continue;
        }
        match serde_json::from_slice(&reply.body) {
            Ok(body) if reply.status.is_success() => parts.push(Part {
                replica: reply.replica,
                body,
            }),
            _ => offline.push(OfflineReplica {
                replica: reply.replica,
                why: format!("it answered {}", reply.status.as_u16()),
            }),
        }
    }
    let merged = list.of(&parts, params, &offline, peers.own_name());
    merged.unwrap_or_else(Unanswered::answer)
}

/// One other replica's own answer.
pub(super) async fn of_one(peer: &Peer, path: &str, params: &QueryParams) -> FullResponse {
    match peer.ask(path, &params.without_replica()).await {
        Ok(reply) => passed_on(reply, path),
        Err(why) => error(
            StatusCode::BAD_GATEWAY,
            "replica_away",
            &format!("replica {} does not answer: {why}", peer.name),
        ),
    }
}

/// What replicas have together.
#[derive(Clone, Copy)]
enum List {
    Status,
    Conversations,
    Conversation,
    Exchanges,
    Handoffs,
    Search,
}

impl List {
    fn of(self, parts: &[Part], params: &QueryParams, offline: &[OfflineReplica], own: &str) -> ApiResult {
        let limit = params.limit()?;
        let mut merged = match self {
            Self::Status => status(parts, offline, own),
            Self::Conversations => json!({"conversations": merge::conversations(parts, limit)}),
            Self::Conversation => match merge::conversation(parts) {
                Some(found) => found,
                None => return Ok(nowhere("there is no such conversation in the journal", offline)),
            },
            Self::Exchanges => json!({"exchanges": merge::exchanges(parts, limit)}),
            Self::Handoffs => json!({"handoffs": merge::handoffs(parts, limit)}),
            Self::Search => {
                let (hits, complete) = merge::hits(parts, limit);
                json!({"hits": hits, "complete": complete && offline.is_empty()})
            }
        };
        merged["away"] = json!(offline);
        shown(&merged)
    }
}

/// This replica's state, and that of all.
fn status(parts: &[Part], offline: &[OfflineReplica], own: &str) -> Value {
    let here = parts.iter().find(|part| part.replica == own);
    let mut status = here.map_or_else(|| json!({}), |part| part.body.clone());
    let replicas = parts.iter().map(|part| {
        let of = |name: &str| part.body.get(name).cloned().unwrap_or_default();
        json!({
            "name": part.replica,
            "here": part.replica == own,
            "version": of("version"),
            "data_listener": of("data_listener"),
            "conversations": of("conversations"),
            "exchanges": part.body.pointer("/journal/exchanges"),
        })
    });
    status["replicas"] = replicas.collect();
    // One process has the files of a SQLite store; only Redis is shared.
    for (name, total) in merge::totals(parts, status["store"] == "redis") {
        status[name] = total;
    }
    status["away"] = json!(offline);
    status
}

/// Asks the other replicas for what this one has not.
async fn whoever_has_it(peers: &Peers, path: &str, params: &QueryParams, own: FullResponse) -> FullResponse {
    let (replies, offline) = peers.ask(path, &params.without_replica()).await;
    match replies.into_iter().find(|reply| reply.status.is_success()) {
        Some(reply) => passed_on(reply, path),
        None if offline.is_empty() => own,
        None => nowhere("no replica that answers has this", &offline),
    }
}

fn nowhere(message: &str, offline: &[OfflineReplica]) -> FullResponse {
    let names: Vec<_> = offline
        .iter()
        .map(|offline| format!("{} ({})", offline.replica, offline.why))
        .collect();
    let message = match names.is_empty() {
        true => message.to_owned(),
        false => format!("{message}; away: {}", names.join(", ")),
    };
    error(StatusCode::NOT_FOUND, "not_found", &message)
}

/// A replica's answer as it is, signed with its name. Its headers are this listener's own.
fn passed_on(reply: PeerAnswer, path: &str) -> FullResponse {
    let last = path.rsplit('/').next().unwrap_or_default();
    let kind = match last {
        "received" | "sent" | "response" | "shown" if reply.status.is_success() => TEXT,
        _ => JSON,
    };
    let is_exchange = matches!(path.split('/').collect::<Vec<_>>().as_slice(), ["exchanges", _]);
    let body = match is_exchange && reply.status.is_success() {
        true => with_replica(&reply).unwrap_or(reply.body),
        false => reply.body,
    };
    let mut answer = respond(reply.status, kind, body);
    if last == "har" {
        let file = HeaderValue::from_static("attachment; filename=\"exchange.har\"");
        answer.headers_mut().insert(CONTENT_DISPOSITION, file);
    }
    signed(answer, &reply.replica)
}

/// An exchange whose row names its replica.
fn with_replica(reply: &PeerAnswer) -> Option<Bytes> {
    let mut body: Value = serde_json::from_slice(&reply.body).ok()?;
    let row = body.get_mut("exchange")?.take();
    body["exchange"] = merge::of_replica(row, &reply.replica);
    serde_json::to_vec(&body).ok().map(Bytes::from)
}

fn signed(mut answer: FullResponse, replica: &str) -> FullResponse {
    if let Ok(name) = HeaderValue::try_from(replica) {
        answer.headers_mut().insert(REPLICA, name);
    }
    answer
}

/// This replica's own answer, like another's.
async fn whole(answer: FullResponse, name: &str) -> PeerAnswer {
    let status = answer.status();
    // It is complete already, and cannot fail.
    let body = answer.into_body().collect().await;
    PeerAnswer {
        replica: name.to_owned(),
        status,
        body: body.map(|body| body.to_bytes()).unwrap_or_default(),
    }
}
