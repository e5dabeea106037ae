//! Parts: what a request's contents and a reply's candidate are made of; and proto-JSON's two spellings.

use crate::text::{Span, json};
use crate::wire::call_fingerprint::Traits;
use crate::wire::view::{TurnPart, TurnPartKind};
use std::borrow::Cow;

/// The API's placeholder for a lost signature.
pub(super) const LOST_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether `key` is this name in camelCase or in snake_case: proto-JSON accepts both.
pub(super) fn is(key: &[u8], camel: &str) -> bool {
    if key == camel.as_bytes() {
        return true;
    }
    let mut rest = key;
    for c in camel.bytes() {
        let spelled: &[u8] = if c.is_ascii_uppercase() {
            &[b'_', c.to_ascii_lowercase()]
        } else {
            &[c]
        };
        let Some(after) = rest.strip_prefix(spelled) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

/// The value under a name in either spelling.
pub(super) fn get(text: &[u8], object: Span, camel: &str) -> Option<Span> {
    let all = json::members(text, object);
    all.into_iter()
        .rev()
        .find(|(key, _)| is(key.of(text), camel))
        .map(|(_, value)| value)
}

/// The elements of an array, or the single object that is in its place.
pub(super) fn list(text: &[u8], value: Span) -> Vec<Span> {
    match text.get(value.start) {
        Some(b'{') => vec![value],
        _ => json::elements(text, value),
    }
}

/// One part with what matters in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartMembers {
    /// The part as every wire has it.
    pub(super) part: TurnPart,
    /// The inside of its thought signature.
    pub(super) signature: Option<Span>,
    /// Its function call's name literal.
    pub(super) name: Option<Span>,
    /// Its function call's arguments.
    pub(super) args: Option<Span>,
    /// Its function call.
    pub(super) call: Option<Span>,
}

impl PartMembers {
    /// The name of the function that it calls.
    pub(super) fn called<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        self.name.and_then(|n| json::string(text, n))
    }

    /// What its call is identified by.
    pub(super) fn traits(&self) -> Traits {
        Traits {
            name: self.name,
            arguments: self.args,
            id: self.part.id,
            signature: self.signature,
        }
    }

    /// Whether it is text without a single character, which agents drop.
    pub(super) fn is_empty_text(&self) -> bool {
        self.part.kind == TurnPartKind::Text && self.part.text.is_some_and(Span::is_empty)
    }
}

/// Reads the parts of a list, or the single one in its place.
pub(super) fn pieces(text: &[u8], parts: Span) -> Vec<PartMembers> {
    list(text, parts)
        .into_iter()
        .map(|span| piece(text, span))
        .collect()
}

pub(super) fn piece(text: &[u8], span: Span) -> PartMembers {
    let mut piece = PartMembers {
        part: TurnPart::new(span, TurnPartKind::Other),
        ..PartMembers::default()
    };
    let mut thought = false;
    for (key, value) in json::members(text, span) {
        let key = key.of(text);
        let literal = text[value.start] == b'"';
        match key {
            b"text" if literal => piece.part.text = Some(value.inner()),
            b"thought" => thought = json::is_true(value.of(text)),
            _ if is(key, "thoughtSignature") && literal => piece.signature = Some(value.inner()),
            _ if is(key, "functionCall") => {
                piece.part.kind = TurnPartKind::Call;
                function(text, value, &mut piece);
                piece.call = Some(value);
            }
            _ if is(key, "functionResponse") => {
                piece.part.kind = TurnPartKind::Result;
                function(text, value, &mut piece);
                piece.name = None;
            }
            _ => {}
        }
    }
    if piece.part.kind == TurnPartKind::Other {
        piece.part.kind = match (thought, piece.part.text.is_some()) {
            (true, _) => TurnPartKind::Thinking,
            (false, true) => TurnPartKind::Text,
            (false, false) => TurnPartKind::Other,
        };
    }
    if piece.part.kind != TurnPartKind::Text {
        piece.part.text = None;
    }
    piece
}

fn function(text: &[u8], function: Span, piece: &mut PartMembers) {
    for (key, value) in json::members(text, function) {
        match key.of(text) {
            b"name" => piece.name = Some(value),
            b"args" => piece.args = Some(value),
            b"id" if text[value.start] == b'"' && value.len() > 2 => piece.part.id = Some(value.inner()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name() {
        for (key, camel, same) in [
            ("functionCall", "functionCall", true),
            ("function_call", "functionCall", true),
            ("function_calls", "functionCall", false),
            ("function", "functionCall", false),
            ("functioncall", "functionCall", false),
            ("parameters_json_schema", "parametersJsonSchema", true),
        ] {
            assert_eq!(is(key.as_bytes(), camel), same, "{key}");
        }
    }
}
