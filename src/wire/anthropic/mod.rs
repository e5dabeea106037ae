//! Anthropic Messages (`/v1/messages`, `/v1/messages/count_tokens`). Facts: WIRE.md, section 2.

mod ask_again;
mod compose;
mod error;
mod reply;
mod request;
mod stream;
mod usage;

use bytes::Bytes;

use super::{Anatomy, Beside, Call, HiddenCall, Unread, View, Wire};
use crate::record::HiddenPair;
use crate::record::WireId;
use crate::text::Span;
use crate::text::prescan::Prescan;
use crate::text::splice::Edit;

/// The wire.
pub struct Anthropic;

impl Wire for Anthropic {
    fn id(&self) -> WireId {
        WireId::Anthropic
    }

    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn read_prescanned(&self, body: &Bytes, call: Call, prescan: &Prescan) -> Result<View, Unread> {
        request::read(body, call, prescan)
    }

    fn anatomy(&self, view: &View, turn: usize) -> Anatomy {
        request::anatomy(view, turn)
    }

    fn bound(&self, view: &View) -> bool {
        request::bound(view)
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
        request::hidden_call(call)
    }

    fn put_beside(&self, view: &View, besides: &[Beside<'_>]) -> Vec<Vec<Edit>> {
        request::put_beside(view, besides)
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
        request::put_aside(view, turn, anatomy, part, mark, pair)
    }
}
