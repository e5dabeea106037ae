//! What a message is made of, on any wire. Messages are distinguished by their members: a Responses item has a type, a
//! Gemini content has parts, all others have content, and calls in it or next to it.

use super::exits;
use super::literal::{CallArguments, JsonText};
use super::part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind};
use crate::text::Span;
use crate::text::json::{self, InvalidJson};
use crate::wire::Role;

/// Members that hold reasoning next to the content, best first: some servers send the same text under several names.
const THOUGHTS: [&[u8]; 5] = [
    b"reasoning_content",
    b"reasoning",
    b"thinking",
    b"reasoning_details",
    b"thinking_blocks",
];

/// The members of a message that say what it is made of.
#[derive(Default)]
struct MessageMembers {
    span: Span,
    /// The inside of its type, where it has one.
    kind: Option<Span>,
    id: Option<Span>,
    content: Option<Span>,
    /// Gemini's content.
    parts: Option<Span>,
    thoughts: [Option<Span>; THOUGHTS.len()],
    images: Option<Span>,
    calls: Option<Span>,
    /// The one call of an older form.
    call: Option<Span>,
    /// What is next to the content and is neither reasoning nor a call: name and value.
    beside: Vec<(Span, Span)>,
    /// Which call it is or answers.
    call_id: Option<Span>,
    name: Option<Span>,
    /// The tool that a message of Ollama's answers for.
    tool: Option<Span>,
    arguments: Option<Span>,
    /// The summary of a reasoning item.
    summary: Option<Span>,
    output: Option<Span>,
}

impl MessageMembers {
    fn read(body: &[u8], span: Span) -> Self {
        let mut found = Self {
            span,
            ..Self::default()
        };
        // A truncated message is read up to its end.
        let _ = json::object(body, span.start, |key, at| {
            let end = json::value_end(body, at)?;
            found.member(body, key, Span::new(at, end));
            Ok(end)
        });
        found
    }

    fn member(&mut self, body: &[u8], key: Span, value: Span) {
        let literal = Some(value).filter(|_| body[value.start] == b'"');
        let there = Some(value).filter(|_| is_there(body, value));
        let given = Some(value).filter(|_| value.of(body) != b"null");
        match key.of(body) {
            b"type" => self.kind = literal.map(Span::inner),
            b"id" => self.id = literal,
            b"content" => self.content = Some(value),
            b"parts" => self.parts = Some(value),
            b"images" => self.images = Some(value),
            b"tool_calls" => self.calls = Some(value),
            b"function_call" => self.call = there,
            b"refusal" | b"audio" if there.is_some() => self.beside.push((key, value)),
            b"call_id" | b"tool_call_id" | b"approval_request_id" => self.call_id = literal,
            b"tool_name" => self.tool = literal,
            b"name" => self.name = literal,
            b"arguments" | b"input" | b"action" | b"operation" => self.arguments = self.arguments.or(given),
            b"summary" => self.summary = Some(value),
            b"output" => self.output = Some(value),
            other => {
                if let Some(i) = THOUGHTS.iter().position(|thought| *thought == other) {
                    self.thoughts[i] = there;
                }
            }
        }
    }
}

/// The parts of the message at `span`; none where it is not JSON.
pub(super) fn parts<'a>(body: &'a [u8], span: Span, role: Role) -> Vec<TranscriptPart<'a>> {
    if let Some(text) = JsonText::literal(body, span) {
        let kind = TranscriptPartKind::Text(text);
        return vec![TranscriptPart::new(body, span, kind, [Some(span), None])];
    }
    let message = MessageMembers::read(body, span);
    let kind = message.kind.filter(|kind| kind.of(body) != b"message");
    match (kind, message.parts) {
        (Some(kind), None) => vec![message.item(body, JsonText::new(body, kind))],
        (_, Some(parts)) => blocks(body, parts),
        _ if role == Role::Tool => vec![message.tool_result(body)],
        // A reference to an item that the provider holds may leave its type out.
        _ if message.content.is_none() && message.calls.is_none() && message.id.is_some() => {
            let nameless = TranscriptPartKind::Other(JsonText::new(body, Span::default()));
            vec![TranscriptPart::new(body, span, nameless, [None; 2])]
        }
        _ => message.parts(body),
    }
}

fn is_there(body: &[u8], value: Span) -> bool {
    !matches!(value.of(body), b"null" | b"\"\"" | b"[]" | b"{}")
}

impl MessageMembers {
    /// A message whose reasoning and calls may be next to its content.
    fn parts<'a>(&self, body: &'a [u8]) -> Vec<TranscriptPart<'a>> {
        let part = |span, kind, words| TranscriptPart::new(body, span, kind, [words, None]);
        let thought = self.thoughts.into_iter().flatten().next();
        let mut all: Vec<_> = thought
            .map(|value| part(value, TranscriptPartKind::Thinking, Some(value)))
            .into_iter()
            .collect();
        all.extend(self.content.map_or(Vec::new(), |content| blocks(body, content)));
        let images = self.images.map_or(Vec::new(), |list| json::elements(body, list));
        let images = images.into_iter();
        all.extend(images.map(|span| part(span, TranscriptPartKind::Image, None)));
        for (name, value) in &self.beside {
            let kind = TranscriptPartKind::Other(JsonText::new(body, *name));
            all.push(part(*value, kind, Some(*value).filter(|v| body[v.start] == b'"')));
        }
        let calls = self.calls.map_or(Vec::new(), |list| json::elements(body, list));
        all.extend(calls.into_iter().map(|call| beside_call(body, call)));
        all.extend(self.call.map(|call| call_part(body, call, call, None)));
        all
    }

    /// A tool's message: all of it is one result. Ollama's names its tool, and is no more than its content.
    fn tool_result<'a>(&self, body: &'a [u8]) -> TranscriptPart<'a> {
        let mut part = self.result(body, self.content, None);
        part.span = self.tool.and(self.content).unwrap_or(part.span);
        part
    }

    fn result<'a>(&self, body: &'a [u8], content: Option<Span>, exit: Option<i32>) -> TranscriptPart<'a> {
        let literal = |value: Option<Span>| JsonText::literal(body, value?);
        let result = ToolResult {
            call: literal(self.call_id),
            name: literal(self.tool.or(self.name)),
            error: None,
            exit,
        };
        TranscriptPart::new(
            body,
            self.span,
            TranscriptPartKind::Result(result),
            [content, None],
        )
    }

    /// An item of the Responses API that is no message.
    fn item<'a>(&self, body: &'a [u8], kind: JsonText<'a>) -> TranscriptPart<'a> {
        let part = |kind, words| TranscriptPart::new(body, self.span, kind, words);
        match kind.raw() {
            b"reasoning" => part(TranscriptPartKind::Thinking, [self.summary, self.content]),
            b"additional_tools" | b"configuration_update" => part(TranscriptPartKind::ToolChange, [None; 2]),
            b"mcp_approval_request" => self.item_call(body, kind, self.id),
            raw if raw.ends_with(b"_call") && self.call_id.is_some() => {
                self.item_call(body, kind, self.call_id)
            }
            b"mcp_approval_response" => self.result(body, None, None),
            raw if raw.ends_with(b"_output") => self.result(body, self.output, exit_of(body, self.output)),
            b"item_reference" => part(TranscriptPartKind::Other(kind), [None; 2]),
            _ => part(TranscriptPartKind::Other(kind), [Some(self.span), None]),
        }
    }

    /// A call that is an item: tools of the provider's own design are named by the item's type.
    fn item_call<'a>(&self, body: &'a [u8], kind: JsonText<'a>, id: Option<Span>) -> TranscriptPart<'a> {
        let literal = |value: Option<Span>| JsonText::literal(body, value?);
        let end = kind.span.end.saturating_sub("_call".len());
        let built_in = JsonText::new(body, Span::new(kind.span.start, end.max(kind.span.start)));
        let call = ToolCall {
            id: literal(id),
            name: literal(self.name).or(Some(built_in)),
            arguments: self.arguments.map(|span| CallArguments::new(body, span)),
        };
        TranscriptPart::new(body, self.span, TranscriptPartKind::Call(call), [None; 2])
    }
}

/// An element of `tool_calls`: what it calls is in a member of its own.
fn beside_call<'a>(body: &'a [u8], call: Span) -> TranscriptPart<'a> {
    let [id, function, custom] = json::pick(body, call, ["id", "function", "custom"]);
    call_part(body, call, function.or(custom).unwrap_or(call), id)
}

/// A call whose name and arguments are members of `inside`.
fn call_part<'a>(body: &'a [u8], span: Span, inside: Span, id: Option<Span>) -> TranscriptPart<'a> {
    let keys = ["name", "arguments", "args", "input", "id"];
    let [name, arguments, args, input, own] = json::pick(body, inside, keys);
    let literal = |value: Option<Span>| JsonText::literal(body, value?);
    let call = ToolCall {
        id: literal(id.or(own)).filter(|id| !id.span.is_empty()),
        name: literal(name),
        arguments: arguments
            .or(args)
            .or(input)
            .map(|span| CallArguments::new(body, span)),
    };
    TranscriptPart::new(body, span, TranscriptPartKind::Call(call), [None; 2])
}

/// The exit code of a `shell_call_output`: of its last command.
fn exit_of(body: &[u8], output: Option<Span>) -> Option<i32> {
    let last = json::elements(body, output?).pop()?;
    let code = json::at_path(body, last, &["outcome", "exit_code"])?;
    std::str::from_utf8(code.of(body)).ok()?.parse().ok()
}

/// The parts of a content: a string, a list of blocks, or a single block.
fn blocks<'a>(body: &'a [u8], content: Span) -> Vec<TranscriptPart<'a>> {
    let mut all = Vec::new();
    match body.get(content.start) {
        Some(b'"') => {
            let kind = TranscriptPartKind::Text(JsonText::new(body, content.inner()));
            all.push(TranscriptPart::new(body, content, kind, [Some(content), None]));
        }
        Some(b'{') => all.extend(block(body, content.start).ok()),
        Some(b'[') => {
            let walked = json::array(body, content.start, |at| {
                let part = block(body, at)?;
                all.push(part);
                Ok(part.span.end)
            });
            if walked.is_err() {
                all.clear();
            }
        }
        _ => {}
    }
    all
}

/// The members of a block that say what it is.
#[derive(Default)]
struct BlockMembers {
    kind: Option<Span>,
    text: Option<Span>,
    thinking: Option<Span>,
    thought: bool,
    id: Option<Span>,
    answered: Option<Span>,
    content: Option<Span>,
    error: bool,
    call: Option<Span>,
    response: Option<Span>,
    data: Option<Span>,
    /// The name of its first member, if it has no type.
    first: Option<Span>,
}

fn block<'a>(body: &'a [u8], at: usize) -> Result<TranscriptPart<'a>, InvalidJson> {
    if body.get(at) != Some(&b'{') {
        let span = Span::new(at, json::value_end(body, at)?);
        let nameless = TranscriptPartKind::Other(JsonText::new(body, Span::default()));
        return Ok(TranscriptPart::new(body, span, nameless, [Some(span), None]));
    }
    let mut found = BlockMembers::default();
    let end = json::object(body, at, |key, at| {
        let end = json::value_end(body, at)?;
        let value = Span::new(at, end);
        let literal = Some(value).filter(|_| body[at] == b'"');
        found.first = found.first.or(Some(key));
        match key.of(body) {
            b"type" => found.kind = literal.map(Span::inner),
            b"text" => found.text = literal,
            b"thinking" => found.thinking = literal,
            b"thought" => found.thought = json::is_true(value.of(body)),
            b"id" => found.id = Some(value),
            b"tool_use_id" => found.answered = literal.map(Span::inner),
            b"content" => found.content = Some(value),
            b"is_error" => found.error = json::is_true(value.of(body)),
            b"functionCall" | b"function_call" => found.call = Some(value),
            b"functionResponse" | b"function_response" => found.response = Some(value),
            b"inlineData" | b"inline_data" | b"fileData" | b"file_data" => found.data = Some(value),
            _ => {}
        }
        Ok(end)
    })?;
    Ok(found.part(body, Span::new(at, end)))
}

impl BlockMembers {
    fn part<'a>(&self, body: &'a [u8], span: Span) -> TranscriptPart<'a> {
        let part = |kind, words: Option<Span>| TranscriptPart::new(body, span, kind, [words, None]);
        if let Some(call) = self.call {
            return call_part(body, span, call, None);
        }
        if let Some(response) = self.response {
            return function_response(body, span, response);
        }
        match self.kind.map_or(&b""[..], |kind| kind.of(body)) {
            b"tool_use" => call_part(body, span, span, self.id),
            b"tool_result" => {
                let result = ToolResult {
                    call: self.answered.map(|id| JsonText::new(body, id)),
                    name: None,
                    error: Some(self.error),
                    exit: None,
                };
                part(TranscriptPartKind::Result(result), self.content)
            }
            b"thinking" | b"redacted_thinking" => part(TranscriptPartKind::Thinking, self.thinking),
            b"tool_addition" | b"tool_removal" => part(TranscriptPartKind::ToolChange, None),
            b"image" | b"image_url" | b"input_image" => part(TranscriptPartKind::Image, None),
            _ => self.untyped(body, span),
        }
    }

    /// Texts, and whatever has no type or one that is unknown.
    fn untyped<'a>(&self, body: &'a [u8], span: Span) -> TranscriptPart<'a> {
        let part = |kind, words| TranscriptPart::new(body, span, kind, [words, None]);
        if self.thought {
            return part(TranscriptPartKind::Thinking, self.text);
        }
        if let Some(text) = self.text {
            return part(
                TranscriptPartKind::Text(JsonText::new(body, text.inner())),
                Some(text),
            );
        }
        if let Some(data) = self.data {
            let is_image = ["mimeType", "mime_type"]
                .iter()
                .any(|key| json::get_string(body, data, key).is_some_and(|mime| mime.starts_with("image/")));
            if is_image {
                return part(TranscriptPartKind::Image, None);
            }
        }
        let name = self.kind.or(self.first).unwrap_or_default();
        let words = Some(span).filter(|_| self.data.is_none());
        part(TranscriptPartKind::Other(JsonText::new(body, name)), words)
    }
}

/// Gemini's result. An object with an `error` is how a tool says that it failed.
fn function_response<'a>(body: &'a [u8], span: Span, inside: Span) -> TranscriptPart<'a> {
    let [name, id, response] = json::pick(body, inside, ["name", "id", "response"]);
    let literal = |value: Option<Span>| JsonText::literal(body, value?);
    let error = response.and_then(|response| json::get(body, response, "error"));
    let result = ToolResult {
        call: literal(id).filter(|id| !id.span.is_empty()),
        name: literal(name),
        error: Some(error.is_some_and(|error| is_there(body, error))),
        exit: response.and_then(|response| exits::of_members(body, response)),
    };
    TranscriptPart::new(body, span, TranscriptPartKind::Result(result), [response, None])
}
