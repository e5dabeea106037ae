//! What a message is made of, on any wire. Messages are told apart by their members: a Responses item has a type, a Gemini
//! content has parts, all others have content, and calls in it or beside it.

use super::part::{Arguments, Kind, Part, Text, ToolCall, ToolResult};
use crate::json::{self, Malformed, Span};
use crate::wire::Role;

/// Members that hold reasoning beside the content, best first: some servers send the same text under several names.
const THOUGHTS: [&str; 5] = [
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_details",
    "thinking_blocks",
];

/// Members that stand beside the content and are no call.
const BESIDE: [&str; 2] = ["refusal", "audio"];

/// The parts of the message at `span`; none where it is not JSON.
pub(super) fn parts<'a>(body: &'a [u8], span: Span, role: Role) -> Vec<Part<'a>> {
    if let Some(text) = Text::literal(body, span) {
        return vec![Part::new(body, span, Kind::Text(text), [Some(span), None])];
    }
    let [kind, parts, content, id] = json::pick(body, span, ["type", "parts", "content", "id"]);
    let kind = kind
        .and_then(|kind| Text::literal(body, kind))
        .filter(|k| k.raw() != b"message");
    match (kind, parts, content) {
        (Some(kind), None, _) => vec![item(body, span, kind)],
        (_, Some(parts), _) => blocks(body, parts),
        _ if role == Role::Tool => vec![tool_message(body, span)],
        // A reference to an item that the provider holds may leave its type out.
        (None, None, None) if id.is_some() && json::get(body, span, "tool_calls").is_none() => {
            let named = Text::new(body, Span::default());
            vec![Part::new(body, span, Kind::Other(named), [None; 2])]
        }
        (_, None, content) => message(body, span, content),
    }
}

/// A message whose reasoning and calls may stand beside its content.
fn message<'a>(body: &'a [u8], span: Span, content: Option<Span>) -> Vec<Part<'a>> {
    let thought = json::pick(body, span, THOUGHTS);
    let mut all: Vec<_> = thought
        .into_iter()
        .flatten()
        .find(|value| is_there(body, *value))
        .map(|value| Part::new(body, value, Kind::Thinking, [Some(value), None]))
        .into_iter()
        .collect();
    all.extend(content.map_or(Vec::new(), |content| blocks(body, content)));
    let [images, calls, call] = json::pick(body, span, ["images", "tool_calls", "function_call"]);
    let images = images.map_or(Vec::new(), |list| json::elements(body, list));
    let image = |span| Part::new(body, span, Kind::Image, [None; 2]);
    all.extend(images.into_iter().map(image));
    let beside = json::pick(body, span, BESIDE).into_iter().zip(BESIDE);
    for (value, name) in beside.filter_map(|(value, name)| Some((value?, name))) {
        if is_there(body, value) {
            let said = Some(value).filter(|_| name == "refusal");
            // The name stands right before the value, whatever the spaces between.
            let kind = Kind::Other(name_before(body, value, name));
            all.push(Part::new(body, value, kind, [said, None]));
        }
    }
    let calls = calls.map_or(Vec::new(), |list| json::elements(body, list));
    all.extend(calls.into_iter().map(|call| beside_call(body, call)));
    let call = call.filter(|call| is_there(body, *call));
    all.extend(call.map(|call| call_part(body, call, call, None)));
    all
}

fn is_there(body: &[u8], value: Span) -> bool {
    !matches!(value.of(body), b"null" | b"\"\"" | b"[]" | b"{}")
}

/// The name of the member whose value this is.
fn name_before<'a>(body: &'a [u8], value: Span, name: &str) -> Text<'a> {
    let before = body.get(..value.start).unwrap_or_default();
    let end = before.iter().rposition(|b| *b == b'"').unwrap_or_default();
    Text::new(body, Span::new(end.saturating_sub(name.len()), end))
}

/// A tool's message: all of it is one result.
fn tool_message<'a>(body: &'a [u8], span: Span) -> Part<'a> {
    let keys = ["tool_call_id", "tool_name", "name", "content"];
    let [id, tool, name, content] = json::pick(body, span, keys);
    let literal = |value: Option<Span>| Text::literal(body, value?);
    let result = ToolResult {
        call: literal(id),
        name: literal(tool).or(literal(name)),
        error: None,
        exit: None,
    };
    Part::new(body, span, Kind::Result(result), [content, None])
}

/// An element of `tool_calls`: what it calls stands in a member of its own.
fn beside_call<'a>(body: &'a [u8], call: Span) -> Part<'a> {
    let [id, function, custom] = json::pick(body, call, ["id", "function", "custom"]);
    call_part(body, call, function.or(custom).unwrap_or(call), id)
}

/// A call whose name and arguments are members of `inside`.
fn call_part<'a>(body: &'a [u8], span: Span, inside: Span, id: Option<Span>) -> Part<'a> {
    let keys = ["name", "arguments", "args", "input", "id"];
    let [name, arguments, args, input, own] = json::pick(body, inside, keys);
    let literal = |value: Option<Span>| Text::literal(body, value?);
    let call = ToolCall {
        id: literal(id.or(own)).filter(|id| !id.span.is_empty()),
        name: literal(name),
        arguments: arguments
            .or(args)
            .or(input)
            .map(|span| Arguments::new(body, span)),
    };
    Part::new(body, span, Kind::Call(call), [None; 2])
}

/// An item of the Responses API that is no message.
fn item<'a>(body: &'a [u8], span: Span, kind: Text<'a>) -> Part<'a> {
    let part = |kind, said| Part::new(body, span, kind, said);
    let keys = [
        "call_id",
        "id",
        "approval_request_id",
        "summary",
        "content",
        "output",
    ];
    let [call_id, id, asked, summary, content, output] = json::pick(body, span, keys);
    let literal = |value: Option<Span>| Text::literal(body, value?);
    let result = |call| {
        let result = ToolResult {
            call: literal(call),
            name: None,
            error: None,
            exit: exit_of(body, output),
        };
        part(Kind::Result(result), [output, None])
    };
    match kind.raw() {
        b"reasoning" => part(Kind::Thinking, [summary, content]),
        b"additional_tools" | b"configuration_update" => part(Kind::ToolChange, [None; 2]),
        b"mcp_approval_request" => item_call(body, span, kind, id),
        b"mcp_approval_response" => result(asked),
        raw if raw.ends_with(b"_call") && literal(call_id).is_some() => item_call(body, span, kind, call_id),
        raw if raw.ends_with(b"_output") => result(call_id),
        b"item_reference" => part(Kind::Other(kind), [None; 2]),
        _ => part(Kind::Other(kind), [Some(span), None]),
    }
}

/// A call that is an item: tools of the provider's own design are named by the item's type.
fn item_call<'a>(body: &'a [u8], span: Span, kind: Text<'a>, id: Option<Span>) -> Part<'a> {
    let keys = ["name", "arguments", "input", "action", "operation"];
    let [name, arguments, input, action, operation] = json::pick(body, span, keys);
    let literal = |value: Option<Span>| Text::literal(body, value?);
    let end = kind.span.end.saturating_sub("_call".len());
    let built_in = Text::new(body, Span::new(kind.span.start, end.max(kind.span.start)));
    let call = ToolCall {
        id: literal(id),
        name: literal(name).or(Some(built_in)),
        arguments: [arguments, input, action, operation]
            .into_iter()
            .flatten()
            .next()
            .map(|span| Arguments::new(body, span)),
    };
    Part::new(body, span, Kind::Call(call), [None; 2])
}

/// The exit code of a `shell_call_output`: of the last command that it tells of.
fn exit_of(body: &[u8], output: Option<Span>) -> Option<i32> {
    let last = json::elements(body, output?).pop()?;
    let code = json::at_path(body, last, &["outcome", "exit_code"])?;
    std::str::from_utf8(code.of(body)).ok()?.parse().ok()
}

/// The parts of a content: a string, a list of blocks, or a single block.
fn blocks<'a>(body: &'a [u8], content: Span) -> Vec<Part<'a>> {
    let mut all = Vec::new();
    match body.get(content.start) {
        Some(b'"') => {
            let kind = Kind::Text(Text::new(body, content.inner()));
            all.push(Part::new(body, content, kind, [Some(content), None]));
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
struct Block {
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
    /// Its first member's name, where it has no type.
    first: Option<Span>,
}

fn block<'a>(body: &'a [u8], at: usize) -> Result<Part<'a>, Malformed> {
    if body.get(at) != Some(&b'{') {
        let span = Span::new(at, json::value_end(body, at)?);
        let named = Text::new(body, Span::default());
        return Ok(Part::new(body, span, Kind::Other(named), [Some(span), None]));
    }
    let mut found = Block::default();
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

impl Block {
    fn part<'a>(&self, body: &'a [u8], span: Span) -> Part<'a> {
        let part = |kind, said: Option<Span>| Part::new(body, span, kind, [said, None]);
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
                    call: self.answered.map(|id| Text::new(body, id)),
                    name: None,
                    error: Some(self.error),
                    exit: None,
                };
                part(Kind::Result(result), self.content)
            }
            b"thinking" | b"redacted_thinking" => part(Kind::Thinking, self.thinking),
            b"tool_addition" | b"tool_removal" => part(Kind::ToolChange, None),
            b"image" | b"image_url" | b"input_image" => part(Kind::Image, None),
            _ => self.untyped(body, span),
        }
    }

    /// Texts, and whatever has no type or one that is not known.
    fn untyped<'a>(&self, body: &'a [u8], span: Span) -> Part<'a> {
        let part = |kind, said| Part::new(body, span, kind, [said, None]);
        if self.thought {
            return part(Kind::Thinking, self.text);
        }
        if let Some(text) = self.text {
            return part(Kind::Text(Text::new(body, text.inner())), Some(text));
        }
        if let Some(data) = self.data {
            let is_image = ["mimeType", "mime_type"]
                .iter()
                .any(|key| json::get_string(body, data, key).is_some_and(|mime| mime.starts_with("image/")));
            if is_image {
                return part(Kind::Image, None);
            }
        }
        let name = self.kind.or(self.first).unwrap_or_default();
        let said = Some(span).filter(|_| self.data.is_none());
        part(Kind::Other(Text::new(body, name)), said)
    }
}

/// Gemini's result. An object with an `error` is how a tool says that it failed.
fn function_response<'a>(body: &'a [u8], span: Span, inside: Span) -> Part<'a> {
    let [name, id, response] = json::pick(body, inside, ["name", "id", "response"]);
    let literal = |value: Option<Span>| Text::literal(body, value?);
    let error = response.and_then(|response| json::get(body, response, "error"));
    let result = ToolResult {
        call: literal(id).filter(|id| !id.span.is_empty()),
        name: literal(name),
        error: Some(error.is_some_and(|error| is_there(body, error))),
        exit: None,
    };
    Part::new(body, span, Kind::Result(result), [response, None])
}
