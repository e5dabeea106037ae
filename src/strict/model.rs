//! Who decides what the provider says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;

use super::dialect::{Endpoint, Offered, Role, Turn, Wire};
use super::faults::Fault;
use super::fields::list;
use super::openai_responses::Memory;
use super::reply::Reply;

/// The tool by which a model hands its session over.
pub(crate) const HANDOFF: &str = "session_handoff";

/// One request as the provider received it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, from 1, over all requests that this provider received.
    pub number: usize,
    /// The wire that its path belongs to.
    pub wire: Wire,
    /// What it asks for.
    pub endpoint: Endpoint,
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it came.
    pub raw: Bytes,
    /// The body without its content-encoding, parsed; `null` where it cannot be read.
    pub body: Value,
    /// The part of the transcript that the provider itself held, which comes before the request's own
    /// (Responses: `previous_response_id`, `conversation`).
    pub recalled: Vec<Value>,
    /// When it came, in seconds since 1970.
    pub received: u64,
    /// What the provider keeps between requests.
    pub(crate) memory: Arc<Memory>,
}

impl Seen {
    /// The request's own transcript as it is: `messages`, `input` items or `contents`. Empty where the whole
    /// of it is one string.
    pub fn messages(&self) -> &[Value] {
        list(&self.body, self.wire.dialect().transcript())
    }

    /// The whole transcript in front of the model: what the provider holds of it, then the request's own, with what is
    /// named by id alone in its place.
    pub fn transcript(&self) -> Vec<Value> {
        match self.wire {
            Wire::OpenAiResponses => super::openai_responses::whole(self),
            _ => self.messages().to_vec(),
        }
    }

    /// The transcript in the shape that all wires share.
    pub fn turns(&self) -> Vec<Turn> {
        self.wire.dialect().turns(self)
    }

    /// The last text of the user; tool results are not text.
    pub fn last_user_text(&self) -> Option<String> {
        let turns = self.turns();
        turns
            .iter()
            .rev()
            .filter(|turn| turn.role == Role::User)
            .find_map(|turn| turn.texts.last().cloned())
    }

    /// The client tools on offer.
    pub fn tools(&self) -> Vec<Offered> {
        self.wire.dialect().tools(self)
    }

    /// The names of the client tools on offer.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools().into_iter().map(|tool| tool.name).collect()
    }

    /// Whether `session_handoff` is on offer.
    pub fn offers_handoff(&self) -> bool {
        self.tools().iter().any(|tool| tool.name == HANDOFF)
    }

    /// Whether the reply is to be streamed.
    pub fn stream(&self) -> bool {
        self.wire.dialect().streams(self)
    }

    /// A header as text; `None` where it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

#[cfg(test)]
impl Seen {
    /// A request that never went over a line.
    pub(crate) fn made_up(wire: Wire, path: &str, body: Value) -> Self {
        let (_, endpoint) = super::routes::route(
            &Method::POST,
            path.split('?').next().unwrap_or(""),
            &HeaderMap::new(),
        );
        Seen {
            number: 1,
            wire,
            endpoint,
            method: Method::POST,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            raw: Bytes::from(body.to_string()),
            body,
            recalled: Vec::new(),
            received: 1_790_000_000,
            memory: Arc::default(),
        }
    }
}

/// Decides the reply to each request that passed the rules. Closures are models too.
pub trait Model: Send + Sync {
    /// The reply to `seen`.
    fn reply(&self, seen: &Seen) -> Reply;
}

impl<F: Fn(&Seen) -> Reply + Send + Sync> Model for F {
    fn reply(&self, seen: &Seen) -> Reply {
        self(seen)
    }
}

/// A script: one reply per request, in order. Clones share it, so that a test can go on adding to it. A
/// request beyond its end is answered with an error and a [`Rule::Script`](super::Rule) complaint.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Mutex<VecDeque<Reply>>>);

impl Queue {
    /// A script of these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Queue(Arc::new(Mutex::new(replies.into_iter().collect())))
    }

    /// Adds a reply at the end.
    pub fn push(&self, reply: Reply) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(reply);
    }

    /// How many replies are left.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Model for Queue {
    fn reply(&self, _: &Seen) -> Reply {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or_else(|| Reply::failing(Fault::OutOfScript))
    }
}
