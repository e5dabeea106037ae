//! Parts of request contents and of a reply's candidate, and the two spellings of proto-JSON keys.

use crate::text::Span;
use crate::text::json::{self, InvalidJson, WalkResult};
use crate::wire::view::{TurnPart, TurnPartKind};
use std::borrow::Cow;

/// The API's placeholder for a lost signature.
pub(super) const LOST_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether `key` is this name in camelCase or in snake_case, which proto-JSON both accepts.
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

/// Value under a name in either spelling.
pub(super) fn get(text: &[u8], object: Span, camel: &str) -> Option<Span> {
    let all = json::members(text, object);
    let mut last_first = all.into_iter().rev();
    let found = last_first.find(|(key, _)| is(key.of(text), camel));
    found.map(|(_, value)| value)
}

/// Elements of an array, or the single object in its place.
pub(super) fn list(text: &[u8], value: Span) -> Vec<Span> {
    match text.get(value.start) {
        Some(b'{') => vec![value],
        _ => json::elements(text, value),
    }
}

/// A part and its relevant members.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartMembers {
    /// The part in the form shared by all wires.
    pub(super) part: TurnPart,
    /// Function call.
    pub(super) call: Option<Span>,
}

impl PartMembers {
    /// A value that is not an object.
    fn nameless(span: Span) -> Self {
        let name = Some(Span::default());
        Self {
            part: TurnPart::named(span, TurnPartKind::Other, name, Some(span)),
            ..Self::default()
        }
    }

    /// Determines the kind from the members found: `said` is the value of the text, `data` that of embedded
    /// data.
    fn finish(&mut self, span: Span, is_thought: bool, said: Option<Span>, data: Option<Span>) {
        self.part.span = span;
        match self.part.kind {
            TurnPartKind::Call => {}
            TurnPartKind::Result => self.part.failed = Some(false),
            _ => {
                // A thought is text with a flag, so the flag decides first.
                let (kind, value) = match (is_thought, said, data) {
                    (true, ..) => (TurnPartKind::Thinking, said),
                    (false, Some(_), _) => (TurnPartKind::Text, None),
                    (false, None, Some(_)) => (TurnPartKind::Image, data),
                    (false, None, None) => (TurnPartKind::Other, Some(span)),
                };
                self.part = TurnPart::named(span, kind, None, value);
            }
        }
        let is_text = self.part.kind == TurnPartKind::Text;
        self.part.text = said.filter(|_| is_text).map(Span::inner);
    }

    /// Name of the called function.
    pub(super) fn called<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, str>> {
        let name = self.part.name.filter(|_| self.part.kind == TurnPartKind::Call)?;
        Some(json::unescape(name.of(text)))
    }

    /// Whether the part is text without any character, which agents drop.
    pub(super) fn is_empty_text(&self) -> bool {
        self.part.kind == TurnPartKind::Text && self.part.text.is_some_and(Span::is_empty)
    }
}

/// Parses a list of parts, or a single part in its place.
pub(super) fn pieces(text: &[u8], parts: Span) -> Vec<PartMembers> {
    if text.get(parts.start) == Some(&b'{') {
        return vec![piece(text, parts)];
    }
    let mut all = Vec::new();
    let walked = json::array(text, parts.start, |at| {
        let (piece, end) = piece_at(text, at)?;
        all.push(piece);
        Ok(end)
    });
    if walked.is_err() {
        all.clear();
    }
    all
}

pub(super) fn piece(text: &[u8], span: Span) -> PartMembers {
    let found = piece_at(text, span.start);
    found.map_or_else(|_| PartMembers::nameless(span), |(piece, _)| piece)
}

/// Parses the part at `at`. Returns it with its end.
fn piece_at(text: &[u8], at: usize) -> Result<(PartMembers, usize), InvalidJson> {
    if text.get(at) != Some(&b'{') {
        let end = json::value_end(text, at)?;
        return Ok((PartMembers::nameless(Span::new(at, end)), end));
    }
    let mut piece = PartMembers::default();
    let (mut is_thought, mut said, mut data, mut signature) = (false, None, None, None);
    let end = json::object(text, at, |key, at| {
        let key = key.of(text);
        let (is_call, is_result) = (is(key, "functionCall"), is(key, "functionResponse"));
        if (is_call || is_result) && text.get(at) == Some(&b'{') {
            let end = function(text, at, &mut piece)?;
            piece.part.kind = match is_call {
                true => TurnPartKind::Call,
                false => TurnPartKind::Result,
            };
            piece.call = is_call.then_some(Span::new(at, end)).or(piece.call);
            return Ok(end);
        }
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        let literal = Some(value.inner()).filter(|_| text[at] == b'"');
        match key {
            b"text" => said = literal.map(|_| value).or(said),
            b"thought" => is_thought = json::is_true(value.of(text)),
            _ if is(key, "thoughtSignature") => signature = literal.or(signature),
            _ if is(key, "inlineData") || is(key, "fileData") => data = Some(value),
            // Malformed, but a call must not be mistaken for text.
            _ if is_call => (piece.part.kind, piece.call) = (TurnPartKind::Call, Some(value)),
            _ if is_result => piece.part.kind = TurnPartKind::Result,
            _ => {}
        }
        Ok(end)
    })?;
    piece.finish(Span::new(at, end), is_thought, said, data);
    piece.part.signature = signature;
    Ok((piece, end))
}

/// Parses a function call or response, and returns its end.
fn function(text: &[u8], at: usize, piece: &mut PartMembers) -> WalkResult {
    json::object(text, at, |key, at| {
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        let literal = Some(value.inner()).filter(|_| text[at] == b'"');
        match key.of(text) {
            b"name" => piece.part.name = literal,
            b"args" | b"response" => piece.part.value = Some(value),
            b"id" => piece.part.id = literal.filter(|id| !id.is_empty()).or(piece.part.id),
            _ => {}
        }
        Ok(end)
    })
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
