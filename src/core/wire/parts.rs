//! The single reader of transcript elements, for rewriting and for everything derived from transcripts.
//!
//! Elements are distinguished by their members. A Responses item has a type, and a Gemini content has parts.
//! All others have content, with calls in it or next to it. These shapes do not collide, so an element can be
//! read without its transcript.
//!
//! `WireFunctions::content` decides for each wire which parts a rewrite may edit.

use super::gemini;
use super::turn::{Role, TurnContent, TurnPart, TurnPartKind};
use crate::text::Span;
use crate::text::json::{self, InvalidJson, WalkResult};

/// Members that hold reasoning next to the content, best first. Some servers send the same reasoning under
/// several names.
const THOUGHTS: [&[u8]; 5] = [
    b"reasoning_content",
    b"reasoning",
    b"thinking",
    b"reasoning_details",
    b"thinking_blocks",
];

/// The members of an element. One walk reads them together with its content and calls.
pub(super) struct ElementMembers<'t> {
    text: &'t [u8],
    span: Span,
    /// Span of the key, inside its quotes, and of the value.
    all: Vec<(Span, Span)>,
    /// Parsed content.
    pub(super) blocks: TurnContent,
    /// Calls next to the content, if the element has a list of them.
    pub(super) calls: Option<Vec<TurnPart>>,
}

impl<'t> ElementMembers<'t> {
    /// Reads an element, with its content and calls if `apart` is set.
    ///
    /// If the JSON is truncated, the members before that point are kept.
    pub(super) fn read(text: &'t [u8], span: Span, apart: bool) -> Self {
        let mut found = Self {
            text,
            span,
            all: Vec::new(),
            blocks: TurnContent::default(),
            calls: None,
        };
        let _ = json::object(text, span.start, |key, at| {
            // A content that fails to parse falls back to `value_end`, which reports the error and ends the
            // walk.
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

    /// Parses the content or the list of calls. Returns `None` for any other member, which the caller then
    /// skips as a whole.
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

    /// The value of the last member with this key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Span> {
        let mut last_first = self.all.iter().rev();
        let found = last_first.find(|(name, _)| name.of(self.text) == key);
        found.map(|(_, value)| *value)
    }

    /// Inside of the string literal under a key.
    pub(super) fn literal(&self, key: &[u8]) -> Option<Span> {
        let value = self.get(key).filter(|value| self.text[value.start] == b'"');
        value.map(Span::inner)
    }

    /// The first value under one of `keys` that is not one of `but`.
    fn first(&self, keys: &[&[u8]], but: &[&[u8]]) -> Option<Span> {
        let values = keys.iter().filter_map(|key| self.get(key));
        let mut values = values.into_iter();
        values.find(|value| !but.contains(&value.of(self.text)))
    }

    /// Type of the element. Elements without a type are messages.
    pub(super) fn kind(&self) -> &'t [u8] {
        self.literal(b"type")
            .map_or(b"message", |kind| kind.of(self.text))
    }

    /// Whether the element only refers to an item that the provider stores. References may omit their type.
    pub(super) fn is_reference(&self) -> bool {
        match self.kind() {
            b"message" => {
                let says = self.get(b"content").or_else(|| self.get(b"tool_calls"));
                says.is_none() && self.literal(b"id").is_some()
            }
            kind => kind == b"item_reference",
        }
    }

    /// Parts of a message: reasoning, content, images, then the parts next to the content.
    fn message(mut self) -> Vec<TurnPart> {
        let thought = self.first(&THOUGHTS, &[b"null", b"\"\"", b"[]", b"{}"]);
        let thought = thought.map(|value| TurnPart::named(value, TurnPartKind::Thinking, None, Some(value)));
        let images = self.get(b"images");
        let images = images.map_or(Vec::new(), |list| json::elements(self.text, list));
        let image = |span| TurnPart::new(span, TurnPartKind::Image);
        let images = images.into_iter().map(image);
        let content = std::mem::take(&mut self.blocks.parts);
        let mut all: Vec<_> = thought.into_iter().chain(content).chain(images).collect();
        self.beside(&mut all);
        all
    }

    /// Returns the content of a message that a rewrite may edit.
    ///
    /// `seen` maps each block, and turns those that must not be edited into `Other`.
    pub(super) fn edited(mut self, seen: impl Fn(&mut TurnPart)) -> TurnContent {
        let mut content = std::mem::take(&mut self.blocks).edited(seen);
        self.beside(&mut content.parts);
        content
    }

    /// Appends the parts next to the content: refusal and audio, then the calls, and last a call of the
    /// deprecated form `function_call`.
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
        // Agents built on older SDKs still send the single call that `tool_calls` replaced.
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

    /// Reads a tool message as one result.
    ///
    /// Ollama names the tool in `tool_name`; its result spans only the content.
    pub(super) fn result(&self) -> TurnPart {
        let (tool, content) = (self.literal(b"tool_name"), self.get(b"content"));
        let span = tool.and(content).unwrap_or(self.span);
        let name = tool.or_else(|| self.literal(b"name"));
        TurnPart::named(span, TurnPartKind::Result, name, content).with_id(self.literal(b"tool_call_id"))
    }

    /// Id of the call that a Responses item makes or answers.
    pub(super) fn call_id(&self) -> Option<Span> {
        self.literal(match self.kind() {
            b"mcp_approval_request" => b"id",
            b"mcp_approval_response" => b"approval_request_id",
            _ => b"call_id",
        })
    }

    /// Reads a Responses item other than a message.
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
            // Tools of the provider have no call id, and the agent does not answer them.
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

    /// Reads an item that is a call. Built-in tools of the provider are named by the item's type.
    fn item_call(&self) -> TurnPart {
        let kind = self.literal(b"type").unwrap_or_default();
        // For example, `web_search_call` is named `web_search`.
        let built_in = Span::new(kind.start, kind.end.saturating_sub("_call".len()).max(kind.start));
        let name = self.literal(b"name").or(Some(built_in));
        let arguments = self.first(&[b"arguments", b"input", b"action", b"operation"], &[b"null"]);
        TurnPart::named(self.span, TurnPartKind::Call, name, arguments)
    }
}

/// Parts of an element, in the order that the model reads them. Empty if the element is not JSON.
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

/// Content of an element, without the parts next to it. Truncated JSON is read up to that point.
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

/// Parses the list at `at`. Returns its parts and its end.
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

/// Parses the content at `at`, a string or a list of blocks. Returns its parts and its end.
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

/// Appends a content block and returns its end. Blocks of text are named by their type.
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
    // The meaning of `id`, `name` and `content` depends on the type, which may come last.
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
        // Besides `text`, the types `input_text` and `output_text`.
        _ if says.is_some() => TurnPartKind::Text,
        _ => TurnPartKind::Other,
    }
}

/// Elements of a list of calls that stands next to the content.
pub(super) fn calls(text: &[u8], calls: Span) -> Vec<TurnPart> {
    list(text, calls.start, call).map_or(Vec::new(), |(calls, _)| calls.parts)
}

/// Appends an element of `tool_calls` and returns its end. The name and arguments are nested in `function` or
/// `custom`.
fn call(text: &[u8], at: usize, parts: &mut Vec<TurnPart>) -> WalkResult {
    let mut part = TurnPart::new(Span::new(at, at), TurnPartKind::Call);
    part.span.end = match text.get(at) {
        Some(b'{') => function(text, at, &mut part)?,
        _ => json::value_end(text, at)?,
    };
    parts.push(part);
    Ok(part.span.end)
}

/// Reads a call's id, name and arguments, at this level or one below.
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
