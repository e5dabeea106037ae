//! Gemini generateContent (`:generateContent`, `:streamGenerateContent`, `:countTokens`), also one level down
//! in the envelopes of Code Assist. Facts: WIRE.md, section 5.
//!
//! Model and streaming are said by the path: whoever calls sets `facts.model` and `facts.stream`.

mod ask_again;
mod chunk;
mod compose;
mod error;
mod pairs;
mod part;
mod reply;
mod request;
mod run;
mod seen;
mod stream;
mod usage;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use self::pairs::Contents;
use super::{Anatomy, Beside, Call, CallAt, CallMemo, HiddenCall, Unread, View, Wire};
use crate::record::HiddenPair;
use crate::record::WireId;
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;
use crate::wire::anchored;

/// The wire.
pub struct Gemini;

impl Wire for Gemini {
    fn id(&self) -> WireId {
        WireId::Gemini
    }

    fn provider(&self) -> &'static str {
        "gcp.gemini"
    }

    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
        request::read(body, call, prescan)
    }

    fn anatomy(&self, view: &View, turn: usize) -> Anatomy {
        request::anatomy(view, turn)
    }

    fn message(&self, view: &View, turn: usize) -> std::ops::Range<usize> {
        anchored::message(view, turn)
    }

    fn bound(&self, view: &View) -> bool {
        request::bound(view)
    }

    fn call_names(&self, view: &View, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        anchored::call_names(Contents, view, turn, memo)
    }

    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        anchored::find_calls(Contents, view, siblings, from)
    }

    fn settled(&self, view: &View, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        Some(anchored::settled(Contents, view, siblings, from))
    }

    fn prove(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        anchored::prove(Contents, view, siblings)
    }

    fn are_here(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        let found = anchored::find_calls(Contents, view, siblings, 0);
        found.iter().map(Option::is_some).collect()
    }

    fn repairs(&self, view: &View, from: usize, edits: &[Edit]) -> Vec<Edit> {
        pairs::repairs(view, from, edits)
    }

    fn tool(&self, view: &View, description: &str) -> Option<Edit> {
        request::tool(view, description)
    }

    fn carry_over(&self, blocks: &[String], prompt: &str) -> String {
        request::carry_over(blocks, prompt)
    }

    fn user_text(&self, text: &str) -> String {
        request::carry_over(&[], text)
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
