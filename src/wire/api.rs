//! What differs from API to API, a trait for each file of a wire's folder. All of it is pure.

use bytes::Bytes;

use super::framing::Framing;
use super::leg::{Dialect, Ending, Leg, LegReport, Spoken, Watch};
use super::said::{Said, Shape};
use super::view::View;
use crate::record::HiddenPair;

/// Streams.
pub trait Streams {
    /// How streams are framed where the request does not say.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// The machine that reads this wire's streams.
    fn dialect(&self, view: &View, watch: Watch) -> Box<dyn Dialect>;
}

/// Replies in one piece.
pub trait Replies {
    /// Reads a reply that came in one piece.
    fn reply(&self, body: &Bytes, watch: Watch) -> Option<LegReport>;

    /// The same with its calls named by where the transcript will have them, behind the request `view`.
    fn reply_to(&self, _view: &View, body: &Bytes, watch: Watch) -> Option<LegReport> {
        self.reply(body, watch)
    }

    /// Joins the replies of an exchange's legs into the one the agent gets. `opening` is a sentinel shown in
    /// front of them all: the first leg is a later one.
    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes;

    /// A reply with what it echoes of the request as the agent asked it.
    fn as_asked(&self, _view: &View, reply: Bytes) -> Bytes {
        reply
    }
}

/// What a model said, told back to it.
pub trait AskAgain {
    /// The messages that ask the model again after a refused call: its own message as it streamed it, then
    /// the results, as elements to append to the transcript. `pairs` are of its first calls of ours, in order;
    /// further ones are left out.
    fn ask_again(&self, spoken: &Spoken, pairs: &[HiddenPair]) -> Option<String>;
}

/// Answers of our own.
pub trait Compose {
    /// A whole answer of our own, in this wire's success shape: nothing goes upstream.
    fn compose(&self, view: &View, said: &Said<'_>, shape: Shape) -> Bytes;
}
