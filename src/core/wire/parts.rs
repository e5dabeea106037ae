//! The one reader of what an element of a transcript is made of, for rewriting and for everything that is derived from
//! transcripts. Elements are distinguished by their members: a Responses item has a type, a Gemini content has parts,
//! all others have content, and calls in it or next to it. The wires' shapes do not collide, so an element that stands
//! alone is read as well. What of it a rewrite may edit, each wire says ([`Turns::content`](super::Turns::content)).

use super::gemini;
use super::turn::{Role, TurnContent, TurnPart, TurnPartKind};
use crate::text::Span;
use crate::text::json::{self, InvalidJson, WalkResult};

/// Members that hold reasoning next to the content, best first: some servers send the same text under several names.
const THOUGHTS: [&[u8]; 5] = [
    b"reasoning_content",
    b"reasoning",
    b"thinking",
    b"reasoning_details",
    b"thinking_blocks",
];

/// The members of an element; what is in its content and in its calls is read in the same walk.
pub(super) struct ElementMembers<'t> {
    text: &'t [u8],
    span: Span,
    /// Key, inside its quotes, and value.
    all: Vec<(Span, Span)>,
    /// What its content is made of.
    pub(super) blocks: TurnContent,
    /// The calls next to the content, where it has a list of them.
    pub(super) calls: Option<Vec<TurnPart>>,
}

impl<'t> ElementMembers<'t> {
    /// Reads an element, and where `apart` is set what is in its members. One that breaks off is read up to there.
    pub(super) fn read(text: &'t [u8], span: Span, apart: bool) -> Self {
        let mut found = Self {
            text,
            span,
            all: Vec::new(),
            blocks: TurnContent::default(),
            calls: None,
        };
        let _ = json::object(text, span.start, |key, at| {
            let within = Some(key.of(text)).filter(|_| apart);
            let end = match within.and_then(|key| found.take_apart(key, at)) {
                Some(end) => end,
                None => json::value_end(text, at)?,
            };
            found.all.push((key, Span::new(at, end)));
            Ok(end)
        });
        found
    }

    /// Takes a member's value apart; `None`: it is read as a whole.
    fn take_apart(&mut self, key: &[u8], at: usize) -> Option<usize> {
        let (list, end) = match key {
            b"content" => content(self.text, at).ok()?,
            b"tool_calls" => list(self.text, at, call).ok()?,
            _ => return None,
        };
        match key {
            b"content" => self.blocks = list,
            _ => self.calls = Some(list.parts),
        }
        Some(end)
    }

    /// The value under a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Span> {
        let mut found = self
            .all
            .iter()
            .rev()
            .filter(|(name, _)| name.of(self.text) == key);
        found.next().map(|(_, value)| *value)
    }

    /// The inside of the literal under a key.
    pub(super) fn literal(&self, key: &[u8]) -> Option<Span> {
        let value = self.get(key).filter(|value| self.text[value.start] == b'"');
        value.map(Span::inner)
    }

    /// The first value under one of these keys, but for these.
    fn first(&self, keys: &[&[u8]], but: &[&[u8]]) -> Option<Span> {
        let values = keys.iter().filter_map(|key| self.get(key));
        values
            .into_iter()
            .find(|value| !but.contains(&value.of(self.text)))
    }

    /// What it is, messages being untyped.
    pub(super) fn kind(&self) -> &'t [u8] {
        self.literal(b"type")
            .map_or(b"message", |kind| kind.of(self.text))
    }

    /// Whether it is nothing but a reference to an item that the provider holds, which may leave its type out.
    pub(super) fn is_reference(&self) -> bool {
        match self.kind() {
            b"message" => {
                let says = self.get(b"content").or_else(|| self.get(b"tool_calls"));
                says.is_none() && self.literal(b"id").is_some()
            }
            kind => kind == b"item_reference",
        }
    }

    /// A message: its reasoning, its content, then what is next to that.
    fn message(mut self) -> Vec<TurnPart> {
        let thought = self.first(&THOUGHTS, &[b"null", b"\"\"", b"[]", b"{}"]);
        let thought = thought.map(|value| TurnPart::named(value, TurnPartKind::Thinking, None, Some(value)));
        let images = self
            .get(b"images")
            .map_or(Vec::new(), |list| json::elements(self.text, list));
        let images = images
            .into_iter()
            .map(|span| TurnPart::new(span, TurnPartKind::Image));
        let content = std::mem::take(&mut self.blocks.parts);
        let mut all: Vec<_> = thought.into_iter().chain(content).chain(images).collect();
        self.beside(&mut all);
        all
    }

    /// A message without what no rewrite edits; `seen`: what it sees of a block.
    pub(super) fn edited(mut self, seen: impl Fn(&mut TurnPart)) -> TurnContent {
        let mut content = std::mem::take(&mut self.blocks).edited(seen);
        self.beside(&mut content.parts);
        content
    }

    /// What is next to the content: other statements, then the calls, the one of an older form at the end.
    fn beside(self, out: &mut Vec<TurnPart>) {
        let is_there = |value: &Span| !matches!(value.of(self.text), b"null" | b"\"\"" | b"[]");
        let others = self
            .all
            .iter()
            .filter(|(key, value)| matches!(key.of(self.text), b"refusal" | b"audio") && is_there(value));
        out.extend(others.map(|(key, value)| {
            let said = Some(*value).filter(|_| self.text[value.start] == b'"');
            TurnPart::named(*value, TurnPartKind::Other, Some(*key), said)
        }));
        let older = self.get(b"function_call").filter(is_there);
        out.extend(self.calls.into_iter().flatten());
        out.extend(older.map(|value| {
            let mut part = TurnPart::new(value, TurnPartKind::Call);
            let _ = json::object(self.text, value.start, |key, at| {
                called(self.text, key.of(self.text), at, &mut part)
            });
            part
        }));
    }

    /// A tool's message: all of it is one result. Ollama's names its tool, and is no more than its content.
    pub(super) fn result(&self) -> TurnPart {
        let (tool, content) = (self.literal(b"tool_name"), self.get(b"content"));
        let span = tool.and(content).unwrap_or(self.span);
        let name = tool.or_else(|| self.literal(b"name"));
        TurnPart::named(span, TurnPartKind::Result, name, content).with_id(self.literal(b"tool_call_id"))
    }

    /// The call that an item of the Responses API is or answers.
    pub(super) fn call_id(&self) -> Option<Span> {
        self.literal(match self.kind() {
            b"mcp_approval_request" => b"id",
            b"mcp_approval_response" => b"approval_request_id",
            _ => b"call_id",
        })
    }

    /// An item of the Responses API that is no message.
    pub(super) fn item(&self) -> TurnPart {
        let of = |kind, name, value| TurnPart::named(self.span, kind, name, value);
        let (kind, whole) = (self.literal(b"type"), Some(self.span));
        let call_id = self.call_id();
        let part = match self.kind() {
            b"reasoning" => TurnPart {
                more: self.get(b"content"),
                ..of(TurnPartKind::Thinking, kind, self.get(b"summary"))
            },
            b"additional_tools" | b"configuration_update" => of(TurnPartKind::ToolChange, kind, None),
            b"compaction" => of(TurnPartKind::Compaction, kind, whole),
            b"mcp_approval_request" => self.item_call(),
            name if name.ends_with(b"_call") && call_id.is_some() => self.item_call(),
            b"mcp_approval_response" => of(TurnPartKind::Result, self.literal(b"name"), None),
            name if name.ends_with(b"_output") => {
                of(TurnPartKind::Result, self.literal(b"name"), self.get(b"output"))
            }
            b"item_reference" => of(TurnPartKind::Other, kind, None),
            _ => of(TurnPartKind::Other, kind, whole),
        };
        part.with_id(call_id)
    }

    /// A call that is an item: tools of the provider's own design are named by the item's type.
    fn item_call(&self) -> TurnPart {
        let kind = self.literal(b"type").unwrap_or_default();
        let built_in = Span::new(kind.start, kind.end.saturating_sub("_call".len()).max(kind.start));
        let name = self.literal(b"name").or(Some(built_in));
        let arguments = self.first(&[b"arguments", b"input", b"action", b"operation"], &[b"null"]);
        TurnPart::named(self.span, TurnPartKind::Call, name, arguments)
    }
}

/// The parts of an element, in the order in which the model reads them; none where it is not JSON.
pub fn parts(text: &[u8], span: Span, role: Role) -> Vec<TurnPart> {
    if text.get(span.start) == Some(&b'"') {
        return vec![TurnPart::literal(span)];
    }
    let found = ElementMembers::read(text, span, role != Role::Tool);
    let reference = TurnPart::named(span, TurnPartKind::Other, Some(Span::default()), None);
    match found.get(b"parts") {
        Some(parts) => gemini::parts(text, parts),
        None if found.kind() != b"message" => vec![found.item()],
        None if role == Role::Tool => vec![found.result()],
        None if found.is_reference() => vec![reference],
        None => found.message(),
    }
}

/// What the content of an element is made of, without what is next to it. One that breaks off is read up to there.
pub(super) fn content_of(text: &[u8], span: Span) -> TurnContent {
    let mut found = TurnContent::default();
    let _ = json::object(text, span.start, |key, at| {
        if key.of(text) != b"content" {
            return json::value_end(text, at);
        }
        let (read, end) = content(text, at)?;
        found = read;
        Ok(end)
    });
    found
}

/// What the list at `at` is made of, and where it ends.
fn list(
    text: &[u8],
    at: usize,
    each: impl Fn(&[u8], usize, &mut Vec<TurnPart>) -> WalkResult,
) -> Result<(TurnContent, usize), InvalidJson> {
    let mut parts = Vec::new();
    let end = json::array(text, at, |at| each(text, at, &mut parts))?;
    let list = Some(Span::new(at, end));
    Ok((TurnContent { parts, list }, end))
}

/// What the content at `at` is made of, a string or a list of blocks, and where it ends.
fn content(text: &[u8], at: usize) -> Result<(TurnContent, usize), InvalidJson> {
    if text.get(at) == Some(&b'[') {
        return list(text, at, block);
    }
    let end = json::value_end(text, at)?;
    let content = match text[at] {
        b'"' => TurnContent::from_part(TurnPart::literal(Span::new(at, end))),
        _ => TurnContent::default(),
    };
    Ok((content, end))
}

/// Adds a block with a type, and returns its end; a text's own type is its name.
fn block(text: &[u8], at: usize, parts: &mut Vec<TurnPart>) -> WalkResult {
    if text.get(at) != Some(&b'{') {
        let span = Span::new(at, json::value_end(text, at)?);
        let nameless = Some(Span::default());
        parts.push(TurnPart::named(span, TurnPartKind::Other, nameless, Some(span)));
        return Ok(span.end);
    }
    let mut found = TurnPart::default();
    let [mut kind, mut tool, mut own, mut answered] = [None; 4];
    let [mut input, mut thinking, mut content] = [None; 3];
    let mut failed = false;
    let end = json::object(text, at, |key, at| {
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        let literal = Some(value.inner()).filter(|_| text[at] == b'"');
        match key.of(text) {
            b"type" => kind = literal,
            b"text" => found.text = literal,
            b"thinking" => thinking = literal.map(|_| value),
            b"id" => own = literal,
            b"name" => tool = literal,
            b"input" => input = Some(value),
            b"tool_use_id" => answered = literal,
            b"content" => content = Some(value),
            b"is_error" => failed = json::is_true(value.of(text)),
            _ => {}
        }
        Ok(end)
    })?;
    found.span = Span::new(at, end);
    found.kind = block_kind(kind.map_or(b"", |kind| kind.of(text)), found.text);
    (found.id, found.name, found.value) = match found.kind {
        TurnPartKind::Call => (own, tool, input),
        TurnPartKind::Result => (answered, None, content),
        TurnPartKind::Thinking => (None, kind, thinking),
        TurnPartKind::Image => (None, kind, None),
        _ => (None, kind, Some(found.span)),
    };
    found.failed = Some(failed).filter(|_| found.kind == TurnPartKind::Result);
    parts.push(found);
    Ok(end)
}

fn block_kind(kind: &[u8], says: Option<Span>) -> TurnPartKind {
    match kind {
        b"tool_use" => TurnPartKind::Call,
        b"tool_result" => TurnPartKind::Result,
        b"thinking" | b"redacted_thinking" => TurnPartKind::Thinking,
        b"tool_addition" | b"tool_removal" => TurnPartKind::ToolChange,
        b"compaction" => TurnPartKind::Compaction,
        b"image" | b"image_url" | b"input_image" => TurnPartKind::Image,
        _ if says.is_some() => TurnPartKind::Text,
        _ => TurnPartKind::Other,
    }
}

/// The elements of a list of calls that is next to a content.
pub(super) fn calls(text: &[u8], calls: Span) -> Vec<TurnPart> {
    list(text, calls.start, call).map_or(Vec::new(), |(calls, _)| calls.parts)
}

/// Adds an element of `tool_calls`, and returns its end: what it calls is in a member of its own.
fn call(text: &[u8], at: usize, parts: &mut Vec<TurnPart>) -> WalkResult {
    let mut part = TurnPart::new(Span::new(at, at), TurnPartKind::Call);
    part.span.end = match text.get(at) {
        Some(b'{') => function(text, at, &mut part)?,
        _ => json::value_end(text, at)?,
    };
    parts.push(part);
    Ok(part.span.end)
}

/// Takes a call's id, name and arguments, here or a level down.
fn function(text: &[u8], at: usize, part: &mut TurnPart) -> WalkResult {
    json::object(text, at, |key, at| {
        let key = key.of(text);
        if matches!(key, b"function" | b"custom") && text.get(at) == Some(&b'{') {
            return json::object(text, at, |key, at| called(text, key.of(text), at, part));
        }
        let end = called(text, key, at, part)?;
        if key == b"id" && text[at] == b'"' {
            part.id = Some(Span::new(at, end).inner());
        }
        Ok(end)
    })
}

fn called(text: &[u8], key: &[u8], at: usize, part: &mut TurnPart) -> WalkResult {
    let end = json::value_end(text, at)?;
    let value = Span::new(at, end);
    match key {
        b"name" if text[at] == b'"' => part.name = Some(value.inner()),
        b"arguments" | b"args" | b"input" => part.value = Some(value),
        _ => {}
    }
    Ok(end)
}
