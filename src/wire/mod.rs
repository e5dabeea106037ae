//! Provider APIs. A wire is a folder with the same files in each, behind the traits of this room:
//! `mod` (the door and its tables), `request` (what an agent sends), `stream` (what upstream streams),
//! `reply` (what upstream answers in one piece).
//!
//! Knows JSON and a provider's rules. Knows nothing of stores, sockets or policies, and there is no
//! translation between wires.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;

use crate::mark::gap;
use crate::record::{HiddenPair, WireId};
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;

mod anchor;
mod anchored;
pub mod anthropic;
mod api;
mod beside;
pub mod error;
pub mod framer;
pub mod framing;
pub mod gemini;
pub mod leg;
pub mod ollama;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod said;
mod spelling;
pub mod sse;
pub mod view;
mod walk;

pub use anchor::unique_part;
pub use anchored::CallMemo;
pub use api::{AskAgain, Compose, Replies, Streams};
pub use beside::{Beside, CallAt};
pub use error::{Errors, OwnError, tells_error};
pub use framing::Framing;
pub use leg::{Dialect, Ending, HiddenCall, Leg, LegReport, Spoken, Stop, Usage, Watch};
pub use said::{Said, Shape};
pub use spelling::Pass;
pub use view::{
    Anatomy, Call, Choice, Facts, OwnItem, Part, PartKind, Previous, Role, Tools, Turn, Unread, View,
};

/// The wire of that id.
pub fn wire(id: WireId) -> &'static dyn Wire {
    match id {
        WireId::Anthropic => &anthropic::Anthropic,
        WireId::OpenaiChat => &openai_chat::OpenaiChat,
        WireId::OpenaiResponses => &openai_responses::OpenaiResponses,
        WireId::Gemini => &gemini::Gemini,
        WireId::Ollama => &ollama::Ollama,
    }
}

/// All wires.
pub const WIRES: &[&dyn Wire] = &[
    &anthropic::Anthropic,
    &openai_chat::OpenaiChat,
    &openai_responses::OpenaiResponses,
    &gemini::Gemini,
    &ollama::Ollama,
];

/// What differs from API to API in a request, a stream and a reply. All of it is pure.
pub trait Wire: Streams + Replies + AskAgain + Compose + Errors + Send + Sync + 'static {
    /// Which one it is.
    fn id(&self) -> WireId;

    /// The provider as OpenTelemetry's conventions spell it (`gen_ai.provider.name`).
    fn provider(&self) -> &'static str;

    /// Indexes a request body of which `prescan` is known.
    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread>;

    /// Indexes a request body.
    fn read(&self, body: &Bytes, call: Call) -> Result<View, Unread> {
        self.read_prescanned(body, call, &Prescan::default())
    }

    /// What a turn is made of.
    fn anatomy(&self, view: &View, turn: usize) -> Anatomy;

    /// Whether a turn is the model's own, or stands for one that is.
    fn is_models(&self, view: &View, turn: usize) -> bool {
        view.turns[turn].role == Role::Assistant
    }

    /// The turns that are one message of the model's together with this one.
    fn message(&self, _view: &View, turn: usize) -> std::ops::Range<usize> {
        turn..turn + 1
    }

    /// Whether the transcript holds anything bound to its prefix (signed thinking, encrypted reasoning).
    fn bound(&self, view: &View) -> bool;

    /// What hidden pairs name the calls of this turn by: the calls' ids, where the wire has nothing better. `memo` is of
    /// the same view, and makes the way over many turns a short one.
    fn call_names(&self, view: &View, turn: usize, _memo: &mut CallMemo) -> Vec<String> {
        let calls = self
            .anatomy(view, turn)
            .parts
            .into_iter()
            .filter(|p| p.kind == PartKind::Call);
        calls.filter_map(|p| Some(view.str(p.id?).into_owned())).collect()
    }

    /// Where the calls stand that hidden pairs name as their siblings, at or behind offset `from`.
    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        beside::find_by_ids(self, view, siblings, from)
    }

    /// The siblings by names that hold while what stands before the calls is edited, where their own do not.
    fn settled(&self, _view: &View, _siblings: &[&str], _from: usize) -> Option<Vec<String>> {
        None
    }

    /// Of each call that a pair of *another* conversation stands beside, whether it is surely in this transcript, too:
    /// the conversation goes on here under another name. An id that a server counts up proves nothing.
    fn prove(&self, _view: &View, siblings: &[&str]) -> Vec<bool> {
        siblings
            .iter()
            .map(|sibling| anchor::is_random(sibling))
            .collect()
    }

    /// Of each sibling by which a pair was looked up among this transcript's names of calls, whether it is that very
    /// call: an id is.
    fn are_here(&self, _view: &View, siblings: &[&str]) -> Vec<bool> {
        vec![true; siblings.len()]
    }

    /// Last edits of a request with the tool, `edits` being made already: what a hidden pair that is lost
    /// would otherwise be refused for. Turns before `from` do not go out.
    fn repairs(&self, _view: &View, _from: usize, _edits: &[Edit]) -> Vec<Edit> {
        Vec::new()
    }

    /// The edit that adds the tool; `None` where there is no list to add it to. `description` is a JSON string
    /// literal: it is the same for all requests, and quoted once.
    fn tool(&self, view: &View, description: &str) -> Option<Edit>;

    /// Edits that make a list of a transcript that stands there as a lone string; none where it is a list.
    fn listed(&self, _view: &View) -> Vec<Edit> {
        Vec::new()
    }

    /// Sentinels and asides that are known by their item's id.
    fn own_items(&self, _view: &View) -> Vec<OwnItem> {
        Vec::new()
    }

    /// What must be mended behind a cut in turn `cut`; `None`: results right behind it whose calls are gone.
    fn repair(&self, _view: &View, _cut: usize) -> Option<Vec<Edit>> {
        None
    }

    /// Makes the request go on from another earlier response (`Some`), or from none.
    fn previous(&self, _view: &View, _id: Option<&str>) -> Vec<Edit> {
        Vec::new()
    }

    /// Further edits that every request with the tool needs (chat: usage in the stream).
    fn companions(&self, _view: &View) -> Vec<Edit> {
        Vec::new()
    }

    /// The carry-over message: preamble blocks as they were, the prompt as the last one.
    fn carry_over(&self, blocks: &[String], prompt: &str) -> String;

    /// A user message of plain text: what is left of a preamble that stood in a string.
    fn user_text(&self, text: &str) -> String;

    /// A sentinel or aside as this wire streams it.
    fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// Whether a text block of nothing but white space is refused, and so dropped.
    fn drops_blank_text(&self) -> bool {
        true
    }

    /// What stands in for the content of a message that has calls and no text left.
    fn absent_content(&self) -> Option<&'static str> {
        None
    }

    /// The call as it goes back into the upstream view: a block, an element, an item or a part.
    fn hidden_call(&self, call: &HiddenCall) -> String;

    /// The edits that put each of these pairs back beside its sibling; none for one that has no place there.
    fn put_beside(&self, view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>>;

    /// The same for pairs whose siblings' calls are not in the transcript, only their results, at or behind offset
    /// `from`: upstream holds the calls, or the agent refers to them by item id. With the result's turn.
    fn put_by_results(
        &self,
        _view: &View,
        pairs: &[&HiddenPair],
        _from: usize,
    ) -> Vec<Option<(usize, Vec<Edit>)>> {
        vec![None; pairs.len()]
    }

    /// Puts a hidden pair back at its aside: the line is `mark`, inside the text `anatomy.parts[part]`.
    fn put_aside(
        &self,
        view: &View,
        turn: usize,
        anatomy: &Anatomy,
        part: usize,
        mark: Span,
        pair: &HiddenPair,
    ) -> Vec<Edit>;

    /// Whether a later request may go on from a response by its id alone.
    fn goes_on_by_id(&self) -> bool {
        false
    }
}
