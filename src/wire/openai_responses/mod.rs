//! OpenAI Responses (`/v1/responses`, `…/compact`, `…/input_tokens`). Facts: WIRE.md, section 4.
//!
//! Every item is a turn of its own, calls and results included, and the sentinel is an item, too.

mod ask_again;
mod back;
mod compose;
mod echo;
mod error;
mod event;
mod item;
mod own;
mod repair;
mod reply;
mod request;
mod stream;
mod usage;

use bytes::Bytes;

use super::{Anatomy, Beside, Call, HiddenCall, OwnItem, Role, Turn, Unread, View, Wire};
use crate::record::HiddenPair;
use crate::record::WireId;
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;

/// The wire.
pub struct OpenaiResponses;

impl Wire for OpenaiResponses {
    fn id(&self) -> WireId {
        WireId::OpenaiResponses
    }

    fn provider(&self) -> &'static str {
        "openai"
    }

    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
        request::read(body, call, prescan)
    }

    fn anatomy(&self, view: &View, turn: usize) -> Anatomy {
        item::anatomy(view, turn)
    }

    fn bound(&self, view: &View) -> bool {
        item::bound(view)
    }

    fn tool(&self, view: &View, description: &str) -> Option<Edit> {
        request::tool(view, description)
    }

    fn listed(&self, view: &View) -> Vec<Edit> {
        request::listed(view)
    }

    fn own_items(&self, view: &View) -> Vec<OwnItem> {
        item::own_items(view)
    }

    fn is_models(&self, view: &View, turn: usize) -> bool {
        let here = &view.turns[turn];
        let refers = || item::Item::read(&view.body, here.span).reference;
        here.role == Role::Assistant || here.role == Role::Other && refers()
    }

    /// The model's items that stand together.
    fn message(&self, view: &View, turn: usize) -> std::ops::Range<usize> {
        let models = |t: &Turn| matches!(t.role, Role::Assistant | Role::Other);
        let before = view.turns[..turn].iter().rev().take_while(|t| models(t));
        let behind = view.turns[turn + 1..].iter().take_while(|t| models(t));
        turn - before.count()..turn + 1 + behind.count()
    }

    fn repairs(&self, view: &View, from: usize, edits: &[Edit]) -> Vec<Edit> {
        repair::lone_reasoning(view, from, edits)
    }

    fn repair(&self, view: &View, cut: usize) -> Option<Vec<Edit>> {
        Some(repair::behind(view, cut))
    }

    fn previous(&self, view: &View, id: Option<&str>) -> Vec<Edit> {
        request::previous(view, id)
    }

    fn carry_over(&self, blocks: &[String], prompt: &str) -> String {
        request::carry_over(blocks, prompt)
    }

    fn user_text(&self, text: &str) -> String {
        request::carry_over(&[], text)
    }

    fn hidden_call(&self, call: &HiddenCall) -> String {
        back::hidden_call(call)
    }

    fn put_beside(&self, view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>> {
        back::put_beside(view, besides)
    }

    fn put_by_results(
        &self,
        view: &View,
        pairs: &[&HiddenPair],
        from: usize,
    ) -> Vec<Option<(usize, Vec<Edit>)>> {
        back::put_by_results(view, pairs, from)
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
        back::put_aside(view, turn, anatomy, part, mark, pair)
    }

    fn goes_on_by_id(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
