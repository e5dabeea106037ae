//! Hidden calls and their results in Ollama's messages.

use super::Ollama;
use super::turns::traits;
use crate::mark::gap;
use crate::record::HiddenPair;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::HiddenCall;
use crate::wire::fingerprints::{CallInTurn, FingerprintSource};
use crate::wire::sibling_calls::{SiblingPair, among_calls};
use crate::wire::view::{TurnContent, TurnPartKind, View};
use crate::wire::{CallAt, CallMemo, Pairs, Turns, fingerprints};

impl Pairs for Ollama {
    fn call_names(&self, view: &View, turn: usize, memo: &mut CallMemo) -> Vec<String> {
        fingerprints::call_names(OllamaMessages, view, turn, memo)
    }

    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        fingerprints::find_calls(OllamaMessages, view, siblings, from)
    }

    fn settled(&self, view: &View, siblings: &[&str], from: usize) -> Option<Vec<String>> {
        Some(fingerprints::settled(OllamaMessages, view, siblings, from))
    }

    fn prove(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        fingerprints::prove(OllamaMessages, view, siblings)
    }

    fn are_here(&self, view: &View, siblings: &[&str]) -> Vec<bool> {
        let found = fingerprints::find_calls(OllamaMessages, view, siblings, 0);
        found.iter().map(Option::is_some).collect()
    }

    /// The call as restored: upstream's own element where it is known. Arguments that are not a JSON object become an
    /// empty one: the API accepts nothing else.
    fn hidden_call(&self, call: &HiddenCall) -> String {
        if let Some(raw) = &call.raw {
            return raw.clone();
        }
        let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
        let arguments = if object.is_ok() {
            call.arguments.trim()
        } else {
            "{}"
        };
        let id = if call.id.is_empty() {
            String::new()
        } else {
            format!(r#""id":{},"#, json::quote(&call.id))
        };
        let name = call.name();
        format!(r#"{{{id}"function":{{"name":"{name}","arguments":{arguments}}}}}"#)
    }

    /// Only calls count as parts here: text and calls are members of their own.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<Edit>> {
        among_calls(|turn| self.content(view, turn), view, besides, result)
    }

    /// The message is split at the aside's line: what was written before it with the call, the result, the message
    /// with what was written after it.
    fn put_aside(
        &self,
        view: &View,
        turn: usize,
        content: &TurnContent,
        part: usize,
        mark: Span,
        pair: &HiddenPair,
    ) -> Vec<Edit> {
        let text: &[u8] = &view.body;
        let whole = view.turns[turn].span;
        let Some(inside) = content.parts.get(part).and_then(|p| p.text) else {
            return Vec::new();
        };
        let before = gap::before(text, inside.start, mark.start).max(inside.start);
        let after = gap::after(text, mark.end, inside.end);
        let mut with = format!(
            r#"{{"role":"assistant","content":"{}","tool_calls":[{}]}},{}"#,
            view.str(Span::new(inside.start, before)),
            pair.call,
            result(pair)
        );
        let blank = json::unescape(Span::new(after, inside.end).of(text))
            .trim()
            .is_empty();
        if !blank || content.parts.len() > 1 {
            with.push_str(&format!(
                ",{}{}",
                view.str(Span::new(whole.start, inside.start)),
                view.str(Span::new(after, whole.end))
            ));
        }
        vec![Edit::replace(whole, with)]
    }
}

/// The result of a hidden call, as a message.
pub(super) fn result(pair: &HiddenPair) -> String {
    let id = if pair.call_id.is_empty() {
        String::new()
    } else {
        format!(r#","tool_call_id":{}"#, json::quote(&pair.call_id))
    };
    format!(
        r#"{{"role":"tool","content":{},"tool_name":"{}"{id}}}"#,
        json::quote(pair.answer.text()),
        pair.tool
    )
}

/// How messages are read for fingerprints.
#[derive(Clone, Copy)]
pub(super) struct OllamaMessages;

impl FingerprintSource for OllamaMessages {
    fn calls(self, view: &View, turn: usize) -> Vec<CallInTurn> {
        // The list of calls may stand in front of the text, and belongs to what is after a cut in that all the same.
        let start = view.turns[turn].span.end;
        let parts = Ollama.content(view, turn).parts.into_iter().enumerate();
        let calls = parts.filter(|(_, part)| part.kind == TurnPartKind::Call);
        calls
            .map(|(part, call)| CallInTurn {
                traits: traits(&view.body, call.span),
                part,
                start,
            })
            .collect()
    }

    fn user_texts(self, view: &View, turn: usize) -> Vec<Span> {
        let parts = Ollama.content(view, turn).parts.into_iter();
        parts.filter_map(|part| part.text).collect()
    }
}
