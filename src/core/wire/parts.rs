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

/// The members of an element that say what it is made of; ids and names are the insides of their literals.
#[derive(Default)]
pub(super) struct ElementMembers {
    span: Span,
    kind: Option<Span>,
    pub(super) id: Option<Span>,
    /// Its content, and what that is made of.
    pub(super) content: Option<Span>,
    pub(super) blocks: TurnContent,
    /// Gemini's content.
    parts: Option<Span>,
    thoughts: [Option<Span>; THOUGHTS.len()],
    images: Option<Span>,
    /// What is next to the content and is neither reasoning nor a call.
    beside: Vec<TurnPart>,
    /// The calls next to the content, where it has a list of them.
    pub(super) calls: Option<Vec<TurnPart>>,
    /// The one call of an older form.
    call: Option<TurnPart>,
    /// The call that an item is or answers, and a message.
    call_id: Option<Span>,
    answered: Option<Span>,
    /// The request that it approves.
    approved: Option<Span>,
    name: Option<Span>,
    /// The tool that a message of Ollama's answers for.
    tool: Option<Span>,
    arguments: Option<Span>,
    /// The summary of a reasoning item.
    summary: Option<Span>,
    output: Option<Span>,
    /// Whether it carries encrypted reasoning.
    pub(super) encrypted: bool,
}

impl ElementMembers {
    /// Reads an element, and where `apart` is set what is in its content. One that breaks off is read up to there.
    pub(super) fn read(text: &[u8], span: Span, apart: bool) -> Self {
        let mut found = Self {
            span,
            ..Self::default()
        };
        let _ = json::object(text, span.start, |key, at| {
            if apart && let Some(end) = found.taken_apart(text, key.of(text), at) {
                return Ok(end);
            }
            let end = json::value_end(text, at)?;
            found.member(text, key, Span::new(at, end));
            Ok(end)
        });
        found
    }

    /// Takes a member's value apart in the same walk; `None`: it is read as a whole.
    fn taken_apart(&mut self, text: &[u8], key: &[u8], at: usize) -> Option<usize> {
        let end = match key {
            b"content" => {
                let (blocks, end) = content(text, at).ok()?;
                self.blocks = blocks;
                self.content = Some(Span::new(at, end));
                end
            }
            b"tool_calls" if text.get(at) == Some(&b'[') => {
                let (calls, end) = list(text, at, call).ok()?;
                self.calls = Some(calls);
                end
            }
            _ => return None,
        };
        Some(end)
    }

    fn member(&mut self, text: &[u8], key: Span, value: Span) {
        let literal = Some(value.inner()).filter(|_| text[value.start] == b'"');
        let is_there = !matches!(value.of(text), b"null" | b"\"\"" | b"[]");
        match key.of(text) {
            b"type" => self.kind = literal,
            b"id" => self.id = literal,
            b"content" => self.content = Some(value),
            b"parts" => self.parts = Some(value),
            b"images" => self.images = Some(value),
            b"function_call" if is_there => {
                let mut part = TurnPart::new(value, TurnPartKind::Call);
                let _ = json::object(text, value.start, |key, at| {
                    called(text, key.of(text), at, &mut part)
                });
                self.call = Some(part);
            }
            b"refusal" | b"audio" if is_there => {
                let said = literal.map(|_| value);
                let part = TurnPart::named(value, TurnPartKind::Other, Some(key), said);
                self.beside.push(part);
            }
            b"call_id" => self.call_id = literal,
            b"tool_call_id" => self.answered = literal,
            b"approval_request_id" => self.approved = literal,
            b"encrypted_content" => self.encrypted = literal.is_some(),
            b"tool_name" => self.tool = literal,
            b"name" => self.name = literal,
            b"arguments" | b"input" | b"action" | b"operation" if value.of(text) != b"null" => {
                self.arguments = self.arguments.or(Some(value));
            }
            b"summary" => self.summary = Some(value),
            b"output" => self.output = Some(value),
            other => {
                if let Some(i) = THOUGHTS.iter().position(|thought| *thought == other) {
                    self.thoughts[i] = Some(value).filter(|_| is_there && value.of(text) != b"{}");
                }
            }
        }
    }

    /// What it is, messages being untyped.
    pub(super) fn kind<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        self.kind.map_or(b"message", |kind| kind.of(text))
    }

    fn is_item(&self, text: &[u8]) -> bool {
        self.kind(text) != b"message"
    }

    /// Whether it is nothing but a reference to an item that the provider holds, which may leave its type out.
    pub(super) fn is_reference(&self, text: &[u8]) -> bool {
        match self.kind(text) {
            b"message" => self.content.is_none() && self.calls.is_none() && self.id.is_some(),
            kind => kind == b"item_reference",
        }
    }

    /// A message whose reasoning and calls may be next to its content: these first and last, then what a rewrite knows.
    fn message(self, text: &[u8]) -> Vec<TurnPart> {
        let thought = self.thoughts.into_iter().flatten().next();
        let thought = thought.map(|value| TurnPart::named(value, TurnPartKind::Thinking, None, Some(value)));
        let images = self.images.map_or(Vec::new(), |list| json::elements(text, list));
        let images = images
            .into_iter()
            .map(|span| TurnPart::new(span, TurnPartKind::Image));
        let mut all: Vec<_> = thought
            .into_iter()
            .chain(self.blocks.parts)
            .chain(images)
            .collect();
        all.extend(
            self.beside
                .into_iter()
                .chain(self.calls.into_iter().flatten())
                .chain(self.call),
        );
        all
    }

    /// The same without what no rewrite edits; `seen`: what it sees of a block.
    pub(super) fn edited(self, seen: impl Fn(&TurnPart) -> TurnPart) -> TurnContent {
        let mut all = self.blocks.edited(seen);
        let calls = self.calls.into_iter().flatten();
        all.parts
            .extend(self.beside.into_iter().chain(calls).chain(self.call));
        all
    }

    /// A tool's message: all of it is one result. Ollama's names its tool, and is no more than its content.
    pub(super) fn result(&self) -> TurnPart {
        let span = self.tool.and(self.content).unwrap_or(self.span);
        let name = self.tool.or(self.name);
        TurnPart::named(span, TurnPartKind::Result, name, self.content).with_id(self.answered)
    }

    /// The call that an item of the Responses API is or answers.
    pub(super) fn call_id(&self, text: &[u8]) -> Option<Span> {
        match self.kind(text) {
            b"mcp_approval_request" => self.id,
            b"mcp_approval_response" => self.approved,
            _ => self.call_id,
        }
    }

    /// An item of the Responses API that is no message.
    pub(super) fn item(&self, text: &[u8]) -> TurnPart {
        let of_kind = |kind| TurnPart::named(self.span, kind, self.kind, Some(self.span));
        let part = match self.kind(text) {
            b"reasoning" => TurnPart {
                value: self.summary,
                more: self.content,
                ..of_kind(TurnPartKind::Thinking)
            },
            b"additional_tools" | b"configuration_update" => of_kind(TurnPartKind::ToolChange),
            b"compaction" => of_kind(TurnPartKind::Compaction),
            b"mcp_approval_request" => self.item_call(),
            kind if kind.ends_with(b"_call") && self.call_id.is_some() => self.item_call(),
            b"mcp_approval_response" => TurnPart::named(self.span, TurnPartKind::Result, self.name, None),
            kind if kind.ends_with(b"_output") => {
                TurnPart::named(self.span, TurnPartKind::Result, self.name, self.output)
            }
            b"item_reference" => TurnPart::named(self.span, TurnPartKind::Other, self.kind, None),
            _ => of_kind(TurnPartKind::Other),
        };
        part.with_id(self.call_id(text))
    }

    /// A call that is an item: tools of the provider's own design are named by the item's type.
    fn item_call(&self) -> TurnPart {
        let kind = self.kind.unwrap_or_default();
        let built_in = Span::new(kind.start, kind.end.saturating_sub("_call".len()).max(kind.start));
        let name = self.name.or(Some(built_in));
        TurnPart::named(self.span, TurnPartKind::Call, name, self.arguments)
    }
}

/// The parts of an element, in the order in which the model reads them; none where it is not JSON.
pub fn parts(text: &[u8], span: Span, role: Role) -> Vec<TurnPart> {
    if text.get(span.start) == Some(&b'"') {
        return vec![TurnPart::literal(span)];
    }
    let found = ElementMembers::read(text, span, role != Role::Tool);
    match found.parts {
        Some(parts) => gemini::parts(text, parts),
        None if found.is_item(text) => vec![found.item(text)],
        None if role == Role::Tool => vec![found.result()],
        None if found.is_reference(text) => vec![TurnPart::named(
            span,
            TurnPartKind::Other,
            Some(Span::default()),
            None,
        )],
        None => found.message(text),
    }
}

/// The elements of the list at `at`, and where it ends.
fn list(
    text: &[u8],
    at: usize,
    each: impl Fn(&[u8], usize) -> Result<TurnPart, InvalidJson>,
) -> Result<(Vec<TurnPart>, usize), InvalidJson> {
    let mut parts = Vec::new();
    let end = json::array(text, at, |at| {
        let part = each(text, at)?;
        let end = part.span.end;
        parts.push(part);
        Ok(end)
    })?;
    Ok((parts, end))
}

/// What a content at `at` is made of, a string or a list of blocks, and where it ends.
fn content(text: &[u8], at: usize) -> Result<(TurnContent, usize), InvalidJson> {
    if text.get(at) == Some(&b'[') {
        let (parts, end) = list(text, at, block)?;
        let list = Some(Span::new(at, end));
        return Ok((TurnContent { parts, list }, end));
    }
    let end = json::value_end(text, at)?;
    let content = match text[at] {
        b'"' => TurnContent::of(TurnPart::literal(Span::new(at, end))),
        _ => TurnContent::default(),
    };
    Ok((content, end))
}

/// A block with a type; a text's own type is its name.
fn block(text: &[u8], at: usize) -> Result<TurnPart, InvalidJson> {
    if text.get(at) != Some(&b'{') {
        let span = Span::new(at, json::value_end(text, at)?);
        let nameless = Some(Span::default());
        return Ok(TurnPart::named(span, TurnPartKind::Other, nameless, Some(span)));
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
    Ok(found)
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
    list(text, calls.start, call).map_or(Vec::new(), |(calls, _)| calls)
}

/// An element of `tool_calls`: what it calls is in a member of its own.
fn call(text: &[u8], at: usize) -> Result<TurnPart, InvalidJson> {
    let mut part = TurnPart::new(Span::new(at, at), TurnPartKind::Call);
    part.span.end = match text.get(at) {
        Some(b'{') => function(text, at, &mut part)?,
        _ => json::value_end(text, at)?,
    };
    Ok(part)
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
