//! Parses Responses requests into spans, and edits them.

use bytes::Bytes;

use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{PreviousResponse, RequestFacts, Role, ToolChoice, ToolList, Turn, View};
use crate::wire::walk::{self, is_cramped};
use crate::wire::{Operation, UnreadReason};

/// Tools that the agent runs. All others run at the provider.
const CLIENT_TOOLS: [&str; 8] = [
    "function",
    "custom",
    "namespace",
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
    "computer_use_preview",
];

/// Members of `client_metadata` that identify a session, in order of preference.
const SESSION_KEYS: [&str; 3] = ["session_id", "thread_id", "conversation_id"];

/// Top-level keys that a rewrite reads or edits. A body that repeats one is relayed unchanged.
const KEYS: [&str; 13] = [
    "input",
    "tools",
    "tool_choice",
    "model",
    "stream",
    "max_output_tokens",
    "text",
    "previous_response_id",
    "conversation",
    "background",
    "store",
    "prompt_cache_key",
    "client_metadata",
];

/// Findings of a walk over the body.
struct BodyWalk {
    view: View,
    /// Codex: the list in the first leading `additional_tools` item.
    additional: Option<ToolList>,
    /// Whether the leading system messages and tool lists have ended.
    led: bool,
    /// Whether any other tool list contains the name of baton's tool.
    taken: bool,
    metadata_session: Option<String>,
}

pub(super) fn read(body: &Bytes, operation: Operation) -> Result<View, UnreadReason> {
    let text: &[u8] = body;
    let facts = RequestFacts::for_operation(operation);
    let mut found = BodyWalk {
        view: View::unread(WireId::OpenaiResponses, body, facts),
        additional: None,
        led: false,
        taken: false,
        metadata_session: None,
    };
    let mut has_list = false;
    walk::body(text, &KEYS, |key, at| {
        if key.of(text) == b"input" {
            found.view.list = Span::new(at, read_input(text, at, &mut found)?);
            found.view.around.push((key, found.view.list));
            has_list = matches!(text[at], b'"' | b'[');
            return Ok(found.view.list.end);
        }
        let value = Span::new(at, json::value_end(text, at)?);
        found.view.around.push((key, value));
        read_member(text, key.of(text), value, &mut found);
        Ok(value.end)
    })?;
    if !has_list {
        return Err(UnreadReason::OtherShape);
    }
    let mut view = found.view;
    view.facts.session = view.facts.session.or(found.metadata_session);
    // A compaction accepts no tools, whatever it lists.
    view.tools =
        tools_of(view.tools, found.additional, found.taken).filter(|_| operation != Operation::Compact);
    Ok(view)
}

pub(super) fn carry_over(blocks: &[String], prompt: &str) -> String {
    let mut all = blocks.to_vec();
    let prompt = json::quote(prompt);
    all.push(format!(r#"{{"type":"input_text","text":{prompt}}}"#));
    let all = all.join(",");
    format!(r#"{{"type":"message","role":"user","content":[{all}]}}"#)
}

/// Replaces or removes `previous_response_id`.
pub(super) fn previous(view: &View, id: Option<&str>) -> Vec<Edit> {
    let Some(now) = &view.facts.previous else {
        return Vec::new();
    };
    if let Some(id) = id {
        return vec![Edit::replace(now.value, json::quote(id))];
    }
    view.without(&["previous_response_id"])
}

/// The list that receives the tool: the top-level one, or Codex' list if that is missing or empty.
fn tools_of(top: Option<ToolList>, additional: Option<ToolList>, taken: bool) -> Option<ToolList> {
    let mut tools = match (top, additional) {
        (Some(top), Some(item)) if top.count == 0 => item,
        (Some(top), _) => top,
        (None, item) => item?,
    };
    tools.taken |= taken;
    Some(tools)
}

fn read_input(text: &[u8], at: usize, found: &mut BodyWalk) -> json::WalkResult {
    match text.get(at) {
        Some(b'"') => {
            let end = json::value_end(text, at)?;
            let span = Span::new(at, end);
            found.view.turns.push(Turn::new(span, Role::User));
            Ok(end)
        }
        Some(b'[') => json::array(text, at, |at| read_item(text, at, found)),
        _ => json::value_end(text, at),
    }
}

fn read_item(text: &[u8], at: usize, found: &mut BodyWalk) -> json::WalkResult {
    if text.get(at) != Some(&b'{') {
        return json::value_end(text, at);
    }
    let (mut kind, mut role, mut tools) = (&b"message"[..], &b""[..], None);
    let end = json::object(text, at, |key, at| {
        let end = json::value_end(text, at)?;
        let value = Span::new(at, end);
        match key.of(text) {
            b"type" => kind = value.inner().of(text),
            b"role" => role = value.inner().of(text),
            b"tools" => tools = Some(value),
            _ => {}
        }
        Ok(end)
    })?;
    let role = role_of(kind, role);
    found.view.facts.summary |= kind == b"compaction_trigger";
    if let Some(tools) = tools.and_then(|t| read_tools(text, t)) {
        found.taken |= tools.taken;
        if kind == b"additional_tools" && !found.led && found.additional.is_none() {
            found.additional = Some(tools);
        }
    }
    // Codex' list of tools comes before the conversation itself.
    found.led |= role.is_spoken();
    found.view.turns.push(Turn::new(Span::new(at, end), role));
    Ok(end)
}

fn role_of(kind: &[u8], role: &[u8]) -> Role {
    match kind {
        b"message" => match role {
            b"user" => Role::User,
            b"assistant" => Role::Assistant,
            b"system" | b"developer" => Role::System,
            _ => Role::Other,
        },
        b"additional_tools" | b"configuration_update" => Role::Tools,
        b"reasoning" | b"program" | b"mcp_list_tools" | b"mcp_approval_request" => Role::Assistant,
        b"mcp_approval_response" => Role::Tool,
        // Includes calls of types that the API may add later.
        kind if kind.ends_with(b"_call") => Role::Assistant,
        kind if kind.ends_with(b"_output") => Role::Tool,
        _ => Role::Other,
    }
}

fn read_member(text: &[u8], key: &[u8], value: Span, found: &mut BodyWalk) {
    let facts = &mut found.view.facts;
    let given = value.of(text) != b"null";
    match key {
        b"model" => facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => facts.stream = json::is_true(value.of(text)),
        b"max_output_tokens" => facts.cramped = is_cramped(value.of(text)),
        b"tool_choice" => facts.choice = choice(text, value),
        b"text" => {
            let format = json::get(text, value, "format");
            let kind = format.and_then(|f| json::get_string(text, f, "type"));
            // `json_schema` and `json_object`.
            facts.structured = kind.is_some_and(|k| k.starts_with("json"));
        }
        b"previous_response_id" => {
            facts.previous = json::string(text, value).map(|id| PreviousResponse {
                value,
                id: id.into_owned(),
            });
            // Whatever a server takes another type for, its owner cannot be checked.
            facts.names_conversation |= given && facts.previous.is_none();
        }
        b"instructions" => facts.system = given && value.of(text) != b"\"\"",
        b"conversation" => {
            facts.server_side |= given;
            // The provider adds the stored items itself, so a cut could not remove them.
            facts.names_conversation |= given;
        }
        b"store" => facts.unstored = value.of(text) == b"false",
        // The agent polls for the result by id, so no later leg could follow.
        b"background" => facts.server_side |= json::is_true(value.of(text)),
        b"prompt_cache_key" => facts.session = json::string(text, value).map(|s| s.into_owned()),
        b"client_metadata" => {
            let named = SESSION_KEYS.iter().find_map(|k| json::get_string(text, value, k));
            found.metadata_session = named.map(|s| s.into_owned());
        }
        b"tools" => found.view.tools = read_tools(text, value),
        _ => {}
    }
}

fn choice(text: &[u8], value: Span) -> ToolChoice {
    match json::string(text, value).as_deref() {
        Some("auto") => ToolChoice::Auto,
        Some("none") => ToolChoice::None,
        None if value.of(text) == b"null" => ToolChoice::Auto,
        // A named tool or a list of allowed tools, which excludes baton's.
        _ => ToolChoice::Forced,
    }
}

fn read_tools(text: &[u8], value: Span) -> Option<ToolList> {
    walk::typed_tools(text, value, |kind| CLIENT_TOOLS.contains(&kind))
}
