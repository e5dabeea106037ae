//! Response objects: their visible part, and their merge over several legs.

use crate::tools::ToolNames;
use crate::wire::{HiddenCall, view};
use bytes::Bytes;
use std::borrow::Cow;

use super::item::BY_ITEM;
use crate::marker::escape::Escaper;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::StopReason;
use crate::wire::leg_state::LegState;

/// Type of the items without `call_id` that wait for the agent.
const APPROVAL: &str = "mcp_approval_request";

/// Name of the tool that an output item calls. Tools inside a namespace do not count.
pub(super) fn called(text: &[u8], item: Span) -> Option<Cow<'_, str>> {
    json::get_string(text, item, "type").filter(|t| t == "function_call")?;
    let bare = json::get(text, item, "namespace").is_none_or(|n| n.of(text) == b"null");
    json::get_string(text, item, "name").filter(|_| bare)
}

/// Baton's tool that an output item calls.
pub(super) fn ours(text: &[u8], item: Span, state: &LegState) -> Option<&'static str> {
    called(text, item).and_then(|name| state.ours(&name))
}

/// Id in the agent's result for an item, if the item is a call for the agent.
pub(super) fn call_id(text: &[u8], item: Span) -> Option<String> {
    let kind = json::get_string(text, item, "type")?;
    if kind == APPROVAL {
        return json::get_string(text, item, "id").map(|id| id.into_owned());
    }
    // The provider executes such a call, so the agent does not answer it.
    let by_server = json::get_string(text, item, "execution").is_some_and(|e| e == "server");
    let id = json::get_string(text, item, "call_id").filter(|id| !id.is_empty())?;
    (kind.ends_with("_call") && !by_server).then(|| id.into_owned())
}

/// Reads a finished call of baton's tool. The item is kept whole, so that it can be restored unchanged.
pub(super) fn hidden(text: &[u8], item: Span, tool: &'static str, after: usize, limit: usize) -> HiddenCall {
    let arguments = json::get_string(text, item, "arguments").unwrap_or_default();
    let status = json::get_string(text, item, "status");
    let id = json::get_owned(text, item, "call_id");
    let mut call = HiddenCall::whole(id, tool, after, &arguments, limit);
    call.complete = status.is_none_or(|s| s == "completed");
    call.raw = (!call.oversize).then(|| item.text(text));
    call
}

/// Sibling name of this item if it is reasoning, which binds a hidden call after it.
pub(super) fn binds(text: &[u8], item: Span) -> Option<String> {
    json::get_string(text, item, "type").filter(|t| t == "reasoning")?;
    let id = json::get_string(text, item, "id").filter(|id| !id.is_empty())?;
    Some(format!("{BY_ITEM}{id}"))
}

/// Finds the complete form of a partially streamed call in the response object.
pub(super) fn finished(text: &[u8], response: Span, begun: &HiddenCall, limit: usize) -> Option<HiddenCall> {
    output(text, response)
        .into_iter()
        .filter(|item| called(text, *item).is_some_and(|name| name == begun.tool))
        .map(|item| HiddenCall {
            bound_to: begun.bound_to.clone(),
            ..hidden(text, item, begun.tool, begun.after, limit)
        })
        .find(|call| call.id == begun.id)
}

/// Text parts of a message item: index and literal.
pub(super) fn texts(text: &[u8], item: Span) -> Vec<(u64, Span)> {
    if json::get_string(text, item, "type").is_none_or(|t| t != "message") {
        return Vec::new();
    }
    let content = json::get(text, item, "content").unwrap_or_default();
    let parts = (0..).zip(json::elements(text, content));
    let texts = parts.filter_map(|(n, part)| Some((n, part_text(text, part)?)));
    texts.collect()
}

/// Returns the edits that escape the text of an output item.
pub(super) fn breaks(text: &[u8], item: Span, escaper: &mut Escaper) -> Vec<Edit> {
    let texts_of_item = texts(text, item).into_iter();
    let breaks = texts_of_item.flat_map(|(_, literal)| escaper.breaks(text, literal.inner()));
    breaks.collect()
}

/// Text literal of a content part, if it is the model's text.
pub(super) fn part_text(text: &[u8], part: Span) -> Option<Span> {
    json::get_string(text, part, "type").filter(|t| t == "output_text")?;
    json::get(text, part, "text").filter(|t| t.len() >= 2)
}

/// Applies edits to an output item and returns the agent's version.
pub(super) fn shown(text: &[u8], item: Span, edits: Vec<Edit>) -> String {
    if edits.is_empty() {
        return item.text(text);
    }
    let text = Bytes::copy_from_slice(&text[..item.end]);
    let flat = splice::edited(&text, edits);
    String::from_utf8_lossy(&flat[item.start..]).into_owned()
}

/// Items under `output`.
pub(super) fn output(text: &[u8], response: Span) -> Vec<Span> {
    json::get(text, response, "output").map_or(Vec::new(), |list| json::elements(text, list))
}

/// Reason for a leg's end, from its response object. `calls` tells whether the agent has calls to execute.
pub(super) fn stop(text: &[u8], response: Span, calls: bool) -> StopReason {
    let status = json::get_string(text, response, "status").unwrap_or_default();
    match &*status {
        "completed" if calls => StopReason::Calls,
        "completed" => StopReason::Done,
        "incomplete" => {
            let reason = json::at_path(text, response, &["incomplete_details", "reason"]);
            match reason.and_then(|r| json::string(text, r)).as_deref() {
                Some("content_filter") => StopReason::Refused,
                Some("steered") => StopReason::Paused,
                _ => StopReason::Truncated,
            }
        }
        "failed" | "cancelled" => StopReason::Error,
        _ => StopReason::Open,
    }
}

/// Identity that every response object of a response repeats, taken from the first leg.
#[derive(Debug, Clone, Default)]
pub(super) struct ResponseIdentity(Vec<(String, String)>);

impl ResponseIdentity {
    /// Members that identify a response.
    const KEYS: [&str; 5] = [
        "id",
        "created_at",
        "completed_at",
        "model",
        "previous_response_id",
    ];

    /// Records the members of a response object of the first leg. A null keeps the earlier value.
    pub(super) fn take(&mut self, text: &[u8], response: Span) {
        for (key, value) in json::members(text, response) {
            let name = key.text(text);
            let given = value.of(text) != b"null" || name == "previous_response_id";
            if given && Self::KEYS.contains(&&*name) {
                self.0.retain(|(n, _)| *n != name);
                self.0.push((name, value.text(text)));
            }
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == key).map(|(_, v)| &**v)
    }
}

/// Values that replace those of a response object.
#[derive(Debug, Default)]
pub(super) struct ObjectOverrides<'a> {
    /// Identity of the response.
    pub(super) identity: Option<&'a ResponseIdentity>,
    /// The agent's `previous_response_id`, as a literal.
    pub(super) previous: Option<&'a str>,
    /// All items shown to the agent.
    pub(super) output: Option<String>,
    /// Usage of all legs.
    pub(super) usage: Option<String>,
    /// Tools that baton offered, to be removed from the echo of the request.
    pub(super) offered: ToolNames,
    /// Whether to report success, whatever the end of the last leg.
    pub(super) completed: bool,
}

/// Returns the edits that apply `now` and remove baton's tools from the echo of the request.
pub(super) fn edits(text: &[u8], response: Span, now: &ObjectOverrides<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut missing = vec![("output", &now.output), ("usage", &now.usage)];
    let members = json::members(text, response);
    for (key, value) in &members {
        let name = std::str::from_utf8(key.of(text)).unwrap_or_default();
        missing.retain(|(n, _)| *n != name);
        let own = now.identity.and_then(|i| i.get(name)).map(str::to_owned);
        let with = match name {
            "tools" if now.offered.any() => {
                edits.extend(without_ours(text, *value, now.offered));
                None
            }
            "previous_response_id" => now.previous.map(str::to_owned).or(own),
            // A leg without an end has no completion time.
            "completed_at" if !now.completed && value.of(text) == b"null" => None,
            "output" => now.output.clone(),
            "usage" => now.usage.clone(),
            "status" => now.completed.then(|| r#""completed""#.to_owned()),
            "error" | "incomplete_details" => now.completed.then(|| "null".to_owned()),
            _ => own,
        };
        let with = with.filter(|w| w.as_bytes() != value.of(text));
        edits.extend(with.map(|w| Edit::replace(*value, w)));
    }
    // Some servers omit `output` or `usage` in their last event.
    if let Some((_, last)) = members.last() {
        let present = missing.into_iter().filter_map(|(n, v)| Some((n, v.as_ref()?)));
        edits.extend(present.map(|(n, v)| Edit::insert(last.end, format!(r#","{n}":{v}"#))));
    }
    edits
}

/// Applies the overrides to a response object.
pub(super) fn edited(response: &str, now: &ObjectOverrides<'_>) -> String {
    let text = Bytes::copy_from_slice(response.as_bytes());
    let edits = edits(&text, json::root(&text), now);
    String::from_utf8_lossy(&splice::edited(&text, edits)).into_owned()
}

/// Returns the edits that remove baton's tools from an echoed list.
fn without_ours(text: &[u8], list: Span, ours: ToolNames) -> Vec<Edit> {
    let all = json::elements(text, list);
    let is_ours = |tool: &Span| json::get_string(text, *tool, "name").is_some_and(|n| ours.has(&n));
    let lost: Vec<bool> = all.iter().map(is_ours).collect();
    match (view::kept(&all, &lost), all.first(), all.last()) {
        (Some(edits), ..) => edits,
        (None, Some(first), Some(last)) => vec![Edit::delete(Span::new(first.start, last.end))],
        _ => Vec::new(),
    }
}
