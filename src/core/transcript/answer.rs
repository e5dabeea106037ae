//! Content of a response, whether from a provider or from baton: a JSON body or a recorded stream.
//!
//! The pieces of each part are joined, on any wire.

use memchr::{memchr, memmem};

use super::literal::{CallArguments, JsonText};
use crate::text::{Span, json};
use crate::wire::{self, Role, TurnPartKind};

/// The content of a response.
#[derive(Debug, Default)]
pub struct AnswerContent<'a> {
    /// Parts in order.
    pub parts: Vec<AnswerPart<'a>>,
    body: &'a [u8],
}

/// Kind of a response part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPartKind {
    /// Visible output.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call; its text is the arguments.
    Call,
    /// A refusal that the model gives instead of an answer.
    Refusal,
    Error,
}

/// A part of a response, whose text a stream may deliver in several pieces.
#[derive(Debug)]
pub struct AnswerPart<'a> {
    body: &'a [u8],
    pub kind: AnswerPartKind,
    /// Name of the called tool.
    pub name: Option<JsonText<'a>>,
    /// Values that make up the text, in order: strings, or the JSON of arguments.
    pub pieces: Vec<Span>,
    /// Number of the part among those of its kind, if the wire numbers them.
    key: Option<u64>,
}

impl AnswerPart<'_> {
    /// Joins the pieces to the text of the part.
    pub fn text(&self) -> String {
        let pieces = self.pieces.iter();
        pieces
            .map(|piece| CallArguments::new(self.body, *piece).get())
            .collect()
    }
}

impl<'a> AnswerContent<'a> {
    /// Reads a response. Unknown shapes have no parts.
    pub fn from_body(body: &'a [u8]) -> Self {
        let mut answered = Self {
            parts: Vec::new(),
            body,
        };
        match json::whole(body) {
            // Gemini streams a JSON array unless the request asks for server-sent events.
            Ok(whole) if body[whole.start] == b'[' => {
                for event in json::elements(body, whole) {
                    answered.take(body, event);
                }
            }
            Ok(whole) => answered.take(body, whole),
            Err(_) => answered.lines(),
        }
        answered
    }

    /// Reads server-sent events, or one JSON event per line.
    fn lines(&mut self) {
        let mut at = 0;
        while at < self.body.len() {
            let end = memchr(b'\n', &self.body[at..]).map_or(self.body.len(), |len| at + len);
            // The search ends with the line: looking for the end of a truncated value must not run through
            // the rest.
            let text = &self.body[..end];
            let data = at
                + if text[at..].starts_with(b"data:") {
                    "data:".len()
                } else {
                    0
                };
            let start = json::blank(text, data);
            at = end + 1;
            if text.get(start) == Some(&b'{')
                && let Ok(close) = json::value_end(text, start)
                && json::blank(text, close) == text.len()
            {
                self.take(text, Span::new(start, close));
            }
        }
    }

    /// Appends a piece to the current part, or begins a new part.
    fn add(&mut self, kind: AnswerPartKind, key: Option<u64>, piece: Option<Span>) {
        let Some(piece) = piece else { return };
        match self.parts.last_mut() {
            Some(last) if last.kind == kind && last.key == key => last.pieces.push(piece),
            // An empty string, which is two quotes, begins no part.
            _ if piece.len() <= "\"\"".len() => {}
            _ => self.begin(kind, key, None, Some(piece)),
        }
    }

    fn begin(&mut self, kind: AnswerPartKind, key: Option<u64>, name: Option<Span>, piece: Option<Span>) {
        let body = self.body;
        self.parts.push(AnswerPart {
            body,
            kind,
            name: name.map(|name| JsonText::new(body, name)),
            pieces: piece.into_iter().collect(),
            key,
        });
    }

    /// Begins a call, or adds later arguments to the current one.
    fn call(&mut self, key: Option<u64>, name: Option<Span>, arguments: Option<Span>) {
        let arguments = arguments.filter(|span| span.of(self.body) != b"null");
        match name {
            Some(_) => self.begin(AnswerPartKind::Call, key, name, arguments),
            // Servers name a call only in its first piece.
            None => self.add(AnswerPartKind::Call, key, arguments),
        }
    }

    /// Takes a stream event, or a whole response. `text` is the body up to the event's line end.
    fn take(&mut self, text: &[u8], event: Span) {
        let keys = ["error", "type", "object", "output", "choices"];
        let [error, kind, object, output, choices] = json::pick(text, event, keys);
        let keys = ["candidates", "response", "done", "message"];
        let [candidates, response, done, message] = json::pick(text, event, keys);
        // The Responses API has `"error":null` in every complete response.
        if let Some(error) = error.filter(|error| error.of(text) != b"null") {
            return self.begin(AnswerPartKind::Error, None, None, Some(error));
        }
        if let Some(kind) = kind {
            self.anthropic(text, event, kind.inner().of(text));
            self.responses(text, event, kind.inner().of(text));
        }
        if object.is_some_and(|object| object.of(text) == b"\"response\"") {
            for (i, item) in elements(text, output).into_iter().enumerate() {
                self.item(text, item, Some(i as u64));
            }
        }
        for choice in elements(text, choices) {
            let [delta, message] = json::pick(text, choice, ["delta", "message"]);
            if let Some(delta) = delta.filter(|delta| delta.of(text) != b"null").or(message) {
                self.message(text, delta, false);
            }
        }
        // Code Assist nests the same members one level deeper.
        let inside = || json::get(text, response.filter(|r| text[r.start] == b'{')?, "candidates");
        for candidate in elements(text, candidates.or_else(inside)) {
            if let Some(content) = json::get(text, candidate, "content") {
                self.message(text, content, false);
            }
        }
        // Ollama: `done` in each line tells its messages from members of that name elsewhere.
        if let (Some(_), Some(message)) = (done.filter(|done| is_bool(done.of(text))), message) {
            self.message(text, message, false);
        }
    }

    fn anthropic(&mut self, text: &[u8], event: Span, kind: &[u8]) {
        let [index, block, delta] = json::pick(text, event, ["index", "content_block", "delta"]);
        let key = number(text, index);
        match kind {
            b"content_block_start" => {
                let Some(block) = block else { return };
                let [kind, words, thought, name] = strings(text, block, ["type", "text", "thinking", "name"]);
                self.add(AnswerPartKind::Text, key, words);
                self.add(AnswerPartKind::Thinking, key, thought);
                if kind.is_some_and(|kind| kind.of(text) == b"\"tool_use\"") {
                    self.call(key, name.map(Span::inner), None);
                }
            }
            b"content_block_delta" => {
                let Some(delta) = delta else { return };
                let [words, thought, input] = strings(text, delta, ["text", "thinking", "partial_json"]);
                self.add(AnswerPartKind::Text, key, words);
                self.add(AnswerPartKind::Thinking, key, thought);
                self.add(AnswerPartKind::Call, key, input);
            }
            b"message" => self.message(text, event, true),
            _ => {}
        }
    }

    /// Takes a message or a piece of one. The parts of a whole message are keyed by their index.
    fn message(&mut self, text: &[u8], message: Span, is_whole: bool) {
        let mut calls = 0;
        for (i, part) in wire::parts(text, message, Role::Assistant)
            .into_iter()
            .enumerate()
        {
            let key = Some(i as u64).filter(|_| is_whole);
            let said = part.value.filter(|value| text[value.start] == b'"');
            match part.kind {
                TurnPartKind::Text => self.add(AnswerPartKind::Text, key, part.text.map(Span::outer)),
                TurnPartKind::Thinking => self.add(AnswerPartKind::Thinking, key, said),
                TurnPartKind::Call => {
                    let index = number(text, json::get(text, part.span, "index"));
                    // A call without a number is identified by its order in the message.
                    self.call(index.or(Some(calls)), part.name, part.value);
                    calls += 1;
                }
                _ if part.name.is_some_and(|name| name.of(text) == b"refusal") => {
                    self.add(AnswerPartKind::Refusal, key, said);
                }
                _ => {}
            }
        }
    }

    fn responses(&mut self, text: &[u8], event: Span, kind: &[u8]) {
        let part_kind = match kind {
            b"response.output_text.delta" => AnswerPartKind::Text,
            b"response.refusal.delta" => AnswerPartKind::Refusal,
            b"response.reasoning_summary_text.delta" | b"response.reasoning_text.delta" => {
                AnswerPartKind::Thinking
            }
            b"response.function_call_arguments.delta" | b"response.custom_tool_call_input.delta" => {
                AnswerPartKind::Call
            }
            b"response.output_item.added" => {
                let [index, item] = json::pick(text, event, ["output_index", "item"]);
                if let Some(item) = item.filter(|item| is_call(text, *item)) {
                    let [name] = strings(text, item, ["name"]);
                    self.call(number(text, index), name.map(Span::inner), None);
                }
                return;
            }
            _ => return,
        };
        let key = number(text, json::get(text, event, "output_index"));
        let [delta] = strings(text, event, ["delta"]);
        self.add(part_kind, key, delta);
    }

    /// Takes an item of a whole Responses body.
    fn item(&mut self, text: &[u8], item: Span, key: Option<u64>) {
        let keys = ["type", "arguments", "input", "content", "summary"];
        let [kind, arguments, input, content, summary] = json::pick(text, item, keys);
        if is_call(text, item) {
            let [name] = strings(text, item, ["name"]);
            let arguments = arguments.filter(|span| span.of(text) != b"null");
            self.call(key, name.map(Span::inner), arguments.or(input));
        }
        let part_kind = match kind.is_some_and(|kind| kind.of(text) == b"\"reasoning\"") {
            true => AnswerPartKind::Thinking,
            false => AnswerPartKind::Text,
        };
        let parts = elements(text, content).into_iter().chain(elements(text, summary));
        for part in parts {
            let [words, refusal] = strings(text, part, ["text", "refusal"]);
            self.add(part_kind, key, words);
            self.add(AnswerPartKind::Refusal, key, refusal);
        }
    }

    /// Whether a response may contain a plain word, even if the word is split between pieces.
    ///
    /// `holds` tests the raw response and the joined values of the members that carry text. This is a fast
    /// filter: the caller joins a matching response and searches it exactly.
    pub fn may_hold(body: &[u8], holds: impl Fn(&[u8]) -> bool) -> bool {
        if holds(body) {
            return true;
        }
        let mut joined = Vec::new();
        PIECES.iter().any(|key| {
            joined.clear();
            for at in memmem::find_iter(body, key) {
                let start = json::blank(body, at + key.len());
                if body.get(start) == Some(&b'"')
                    && let Ok(end) = json::string_end(body, start)
                {
                    joined.extend_from_slice(&body[start + 1..end - 1]);
                }
            }
            holds(&joined)
        })
    }
}

/// Stream members that carry pieces of text.
const PIECES: [&str; 10] = [
    "\"text\":",
    "\"delta\":",
    "\"content\":",
    "\"thinking\":",
    "\"partial_json\":",
    "\"arguments\":",
    "\"reasoning\":",
    "\"reasoning_content\":",
    "\"refusal\":",
    "\"name\":",
];

/// Whether a Responses item calls one of the agent's tools.
fn is_call(text: &[u8], item: Span) -> bool {
    let kind = json::get(text, item, "type");
    kind.is_some_and(|kind| matches!(kind.of(text), b"\"function_call\"" | b"\"custom_tool_call\""))
}

fn is_bool(raw: &[u8]) -> bool {
    matches!(raw, b"true" | b"false")
}

fn elements(text: &[u8], list: Option<Span>) -> Vec<Span> {
    list.map_or(Vec::new(), |list| json::elements(text, list))
}

fn number(text: &[u8], value: Option<Span>) -> Option<u64> {
    json::number(value?.of(text))
}

/// The values of these keys, if they are strings.
fn strings<const N: usize>(text: &[u8], object: Span, keys: [&str; N]) -> [Option<Span>; N] {
    json::pick(text, object, keys).map(|value| value.filter(|value| text[value.start] == b'"'))
}
