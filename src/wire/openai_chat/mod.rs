//! OpenAI Chat Completions (`/v1/chat/completions`) and its many compatible servers. Facts: WIRE.md, section 3.

mod aside;
mod ask_again;
mod calls;
mod chunk;
mod compose;
mod error;
mod identity;
mod message;
mod reply;
mod request;
mod stream;
mod usage;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use super::{Anatomy, Beside, Call, CallAt, HiddenCall, Unread, View, Wire};
use crate::record::HiddenPair;
use crate::record::WireId;
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;

/// The wire.
pub struct OpenaiChat;

impl Wire for OpenaiChat {
    fn id(&self) -> WireId {
        WireId::OpenaiChat
    }

    fn provider(&self) -> &'static str {
        "openai"
    }

    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
        request::read(body, call, prescan)
    }

    fn anatomy(&self, view: &View, turn: usize) -> Anatomy {
        message::anatomy(view, turn)
    }

    fn bound(&self, view: &View) -> bool {
        message::bound(view)
    }

    /// Calls are a list of their own, behind all that is said, also where agents write that member first: from within a
    /// message's text on, all of its calls count.
    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let from = view
            .turn_at(from)
            .map_or(from, |turn| view.turns[turn].span.start);
        super::beside::find_by_ids(self, view, siblings, from)
    }

    fn tool(&self, view: &View, description: &str) -> Option<Edit> {
        request::tool(view, description)
    }

    fn companions(&self, view: &View) -> Vec<Edit> {
        request::companions(view)
    }

    fn carry_over(&self, blocks: &[String], prompt: &str) -> String {
        request::carry_over(blocks, prompt)
    }

    fn user_text(&self, text: &str) -> String {
        request::carry_over(&[], text)
    }

    // Blank text is legal here, and what a model said is given back as it said it.
    fn drops_blank_text(&self) -> bool {
        false
    }

    fn absent_content(&self) -> Option<&'static str> {
        Some("null")
    }

    fn hidden_call(&self, call: &HiddenCall) -> String {
        request::hidden_call(call)
    }

    fn put_beside(&self, view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>> {
        aside::put_beside(view, besides)
    }

    fn put_aside(
        &self,
        view: &View,
        turn: usize,
        anatomy: &Anatomy,
        part: usize,
        mark: Span,
        pair: &HiddenPair,
    ) -> Vec<Edit> {
        aside::put_aside(view, turn, anatomy, part, mark, pair)
    }
}
