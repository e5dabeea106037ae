//! Parses Gemini requests into spans, and builds the carry-over message.

use bytes::Bytes;

use super::part;
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::view::{RequestFacts, Role, ToolChoice, ToolList, Turn, TurnContent, View};
use crate::wire::walk::{self, is_cramped};
use crate::wire::{Operation, UnreadReason, own_text};

/// Members that a rewrite reads or edits. A body that repeats one, in either spelling, is relayed unchanged.
const KEYS: [&str; 7] = [
    "contents",
    "tools",
    "toolConfig",
    "generationConfig",
    "cachedContent",
    "sessionId",
    "systemInstruction",
];

/// Envelopes of a request: of countTokens and of Code Assist.
const ENVELOPES: [&str; 2] = ["generateContentRequest", "request"];

pub(super) fn read(body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
    let text: &[u8] = body;
    let mut whole = Vec::new();
    walk::body(text, &[], |key, at| {
        let end = json::value_end(text, at)?;
        whole.push((key, Span::new(at, end)));
        Ok(end)
    })?;
    // Code Assist has the model next to the request; other clients have it in the path, if anywhere.
    let model = whole.iter().find(|(key, _)| key.of(text) == b"model");
    let model = model.and_then(|(_, v)| json::string(text, *v));
    let around = request(text, whole)?;
    if repeated(text, &around) {
        return Err(UnreadReason::RepeatedKey);
    }
    let facts = RequestFacts {
        model: model.map(|m| m.into_owned()),
        ..RequestFacts::for_operation(operation)
    };
    let mut view = View::unread(WireId::Gemini, body, facts);
    for (key, value) in &around {
        member(text, key.of(text), *value, &mut view);
    }
    view.around = around;
    if view.turns.is_empty() {
        return Err(UnreadReason::OtherShape);
    }
    Ok(view)
}

pub(super) fn carry_over(blocks: &[String], prompt: &str) -> String {
    let mut parts = blocks.to_vec();
    parts.push(text_part(prompt));
    format!(r#"{{"role":"user","parts":[{}]}}"#, parts.join(","))
}

/// Appends the last part of the content, even after function responses: the API checks their number, not
/// the number of parts.
pub(super) fn text_inside(content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
    let part = text_part(text);
    own_text::among_blocks(content, &part)
        .or_else(|| own_text::after_lone(content, ["", ""], &part))
        .or_else(|| Some(Vec::new()))
}

/// Members of the object with the contents: the body, or the request in its envelope.
fn request(text: &[u8], whole: Vec<(Span, Span)>) -> Result<Vec<(Span, Span)>, UnreadReason> {
    let named = |name: &str| {
        let found = whole.iter().find(|(key, _)| part::is(key.of(text), name));
        found.map(|(_, value)| *value)
    };
    if named("contents").is_some() {
        return Ok(whole);
    }
    let inside = ENVELOPES.into_iter().find_map(named);
    Ok(json::members(text, inside.ok_or(UnreadReason::OtherShape)?))
}

fn repeated(text: &[u8], members: &[(Span, Span)]) -> bool {
    let count = |name: &str| {
        let named = members.iter().filter(|(key, _)| part::is(key.of(text), name));
        named.count()
    };
    KEYS.iter().any(|name| count(name) > 1)
}

fn member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let facts = &mut view.facts;
    match key {
        b"contents" => {
            view.list = value;
            view.turns = turns(text, value);
            // Nothing can be appended to a single object, so the request is left unchanged.
            facts.server_side |= text.get(value.start) == Some(&b'{');
        }
        b"tools" => view.tools = tools(text, value),
        _ if part::is(key, "systemInstruction") => facts.system = value.of(text) != b"null",
        _ if part::is(key, "toolConfig") => facts.choice = choice(text, value),
        _ if part::is(key, "generationConfig") => generation(text, value, facts),
        // System prompt, tools and tool config are then part of the cache and must not be sent.
        _ if part::is(key, "cachedContent") => {
            facts.server_side |= json::string(text, value).is_some_and(|c| !c.is_empty())
        }
        _ if part::is(key, "sessionId") => {
            facts.session = json::string(text, value).map(|s| s.into_owned());
        }
        _ => {}
    }
}

fn turns(text: &[u8], contents: Span) -> Vec<Turn> {
    let items = part::list(text, contents).into_iter();
    let objects = items.filter(|s| text.get(s.start) == Some(&b'{'));
    let turn = |span| {
        let role = json::get(text, span, "role").map(|r| r.of(text));
        let role = match role {
            // A content without a role is the user's.
            None | Some(b"\"user\"" | b"\"\"" | b"null") => Role::User,
            Some(b"\"model\"") => Role::Assistant,
            Some(b"\"function\"" | b"\"tool\"") => Role::Tool,
            Some(b"\"system\"") => Role::System,
            Some(_) => Role::Other,
        };
        Turn::new(span, role)
    };
    objects.map(turn).collect()
}

fn choice(text: &[u8], config: Span) -> ToolChoice {
    let Some(calling) = part::get(text, config, "functionCallingConfig") else {
        return ToolChoice::Auto;
    };
    // A list of allowed names excludes baton's tool.
    let bound = part::get(text, calling, "allowedFunctionNames")
        .is_some_and(|names| !json::elements(text, names).is_empty());
    match json::get_string(text, calling, "mode").as_deref() {
        Some("NONE" | "none") => ToolChoice::None,
        Some("ANY" | "any") => ToolChoice::Forced,
        _ if bound => ToolChoice::Forced,
        _ => ToolChoice::Auto,
    }
}

fn generation(text: &[u8], config: Span, facts: &mut RequestFacts) {
    for (key, value) in json::members(text, config) {
        let (key, raw) = (key.of(text), value.of(text));
        if raw == b"null" {
            continue;
        }
        if part::is(key, "candidateCount") {
            // Candidates interleave, and a later leg could not continue just one of them.
            facts.many = json::number(raw).is_some_and(|n| n > 1);
        } else if part::is(key, "maxOutputTokens") {
            facts.cramped = is_cramped(raw);
        } else if part::is(key, "responseMimeType") {
            facts.structured |= !matches!(raw, b"\"text/plain\"" | b"\"\"");
        } else if ["responseSchema", "responseJsonSchema", "_responseJsonSchema"]
            .iter()
            .any(|name| part::is(key, name))
        {
            facts.structured = true;
        } else if part::is(key, "responseModalities") {
            // Speech and images leave no place for a sentinel.
            facts.structured |= json::elements(text, value)
                .into_iter()
                .any(|m| !m.of(text).eq_ignore_ascii_case(b"\"text\""));
        }
    }
}

/// The tool is added to the last list of declarations.
fn tools(text: &[u8], value: Span) -> Option<ToolList> {
    let lists = part::list(text, value).into_iter();
    let lists = lists.filter_map(|t| part::get(text, t, "functionDeclarations"));
    let lists: Vec<Span> = lists.filter(|l| text.get(l.start) == Some(&b'[')).collect();
    let mut tools = ToolList {
        end: lists.last()?.end - 1,
        ..ToolList::default()
    };
    let mut newer = false;
    for declaration in lists.iter().flat_map(|l| json::elements(text, *l)) {
        tools.count += 1;
        tools.client = true;
        tools.taken |= json::get_string(text, declaration, "name").is_some_and(|n| n == TOOL_NAME);
        tools.old_style |= json::get(text, declaration, "parameters").is_some();
        newer |= part::get(text, declaration, "parametersJsonSchema").is_some();
    }
    // If both styles occur, the newer one is valid for the whole list.
    tools.old_style &= !newer;
    Some(tools)
}

/// Whether the request is in Code Assist's envelope. Its responses have an envelope as well.
pub(super) fn in_envelope(view: &View) -> bool {
    let text: &[u8] = &view.body;
    let whole = json::root(text);
    json::get(text, whole, ENVELOPES[1]).is_some_and(|inside| inside.holds(view.list.start))
}

/// Serializes a part of text.
pub(super) fn text_part(text: &str) -> String {
    format!(r#"{{"text":{}}}"#, json::quote(text))
}
