//! Ollama's own chat (`/api/chat`): one JSON text a line, arguments as objects, ids that may be missing.
//! Facts: WIRE.md, section 6. Ollama's other chat paths speak other providers' wires.

mod ask_again;
mod compose;
mod error;
mod pairs;
mod reply;
mod request;
mod stream;
mod usage;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use self::pairs::Messages;
use super::{Anatomy, Beside, Call, CallAt, CallMemo, HiddenCall, Unread, View, Wire};
use crate::record::HiddenPair;
use crate::record::WireId;
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;
use crate::wire::anchored;

/// The wire.
pub struct Ollama;

impl Wire for Ollama {
    fn id(&self) -> WireId {
        WireId::Ollama
    }

    fn provider(&self) -> &'static str {
        "ollama"
    }

    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
        request::read(body, call, prescan)
    }

    fn anatomy(&self, view: &View, turn: usize) -> Anatomy {
        request::anatomy(view, turn)
    }

    /// Thinking is plain text here.
    fn bound(&self, _view: &View) -> bool {
        false
    }

    fn call_names(&self, view: &View, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        anchored::call_names(Messages, view, turn, memo)
    }

    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        anchored::find_calls(Messages, view, siblings, from)
    }

    fn settled(&self, view: &View, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        Some(anchored::settled(Messages, view, siblings, from))
    }

    fn prove(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        anchored::prove(Messages, view, siblings)
    }

    fn are_here(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        let found = anchored::find_calls(Messages, view, siblings, 0);
        found.iter().map(Option::is_some).collect()
    }

    fn tool(&self, view: &View, description: &str) -> Option<Edit> {
        request::tool(view, description)
    }

    fn carry_over(&self, _blocks: &[String], prompt: &str) -> String {
        request::user_text(prompt)
    }

    fn user_text(&self, text: &str) -> String {
        request::user_text(text)
    }

    fn absent_content(&self) -> Option<&'static str> {
        Some(r#""""#)
    }

    fn hidden_call(&self, call: &HiddenCall) -> String {
        pairs::hidden_call(call)
    }

    fn put_beside(&self, view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>> {
        pairs::put_beside(view, besides)
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
        pairs::put_aside(view, turn, anatomy, part, mark, pair)
    }
}
