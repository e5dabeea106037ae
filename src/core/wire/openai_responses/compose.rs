//! Synthetic response objects, complete or streamed; messages that ask the model again.
//!
//! Events: <https://platform.openai.com/docs/api-reference/responses-streaming>.

use super::answer::shaped_for;
use bytes::Bytes;

use super::item::SENTINEL_ITEM;
use super::own_message::InjectedMessage;
use super::pairs::result;
use super::response_object;
use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::openai::response_usage;
use crate::wire::{AnswerShape, Framing, LegOutput, StreamOpening, SyntheticResponse, View, sse, view};

/// Members of a response object that echo the request, with their defaults
/// (<https://platform.openai.com/docs/api-reference/responses/object>). `previous_response_id` is restored
/// elsewhere, with the rest of the agent's request.
const ECHOED: [(&str, &str); 19] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("prompt_cache_key", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("service_tier", r#""default""#),
    ("store", "true"),
    ("temperature", "1.0"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", r#""disabled""#),
    ("user", "null"),
];

pub(super) fn compose(view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    // An agent may refer to the sentinel by only this id.
    let id = match answer.handoff {
        Some(handoff) => format!("{SENTINEL_ITEM}{}", handoff.simple()),
        None => answer.id("msg_"),
    };
    let message = InjectedMessage::named(id, answer.text);
    let usage = response_usage(answer.input(), (answer.output(), 0));
    let done = object(view, answer, "completed", (&message.done(), &usage));
    match shape {
        AnswerShape::Whole => done.into(),
        AnswerShape::Stream(_) => {
            let mut all = first(view, answer);
            all.extend(message.events(0));
            all.push(("response.completed", format!(r#""response":{done}"#)));
            frames(&all)
        }
    }
}

pub(super) fn stream_opening(view: &View, answer: &SyntheticResponse<'_>, _: Framing) -> StreamOpening {
    StreamOpening::shown(frames(&first(view, answer)))
}

/// Events before any item, as pairs of event and members.
fn first(view: &View, answer: &SyntheticResponse<'_>) -> Vec<(&'static str, String)> {
    let begun = format!(
        r#""response":{}"#,
        object(view, answer, "in_progress", ("", "null"))
    );
    vec![
        ("response.created", begun.clone()),
        ("response.in_progress", begun),
    ]
}

/// Formats events as frames, numbered from zero.
fn frames(events: &[(&'static str, String)]) -> Bytes {
    let events = events.iter().enumerate();
    let frames = events.map(|(n, (name, members))| {
        let event = format!(r#"{{"type":"{name}","sequence_number":{n},{members}}}"#);
        sse::named(name, &event)
    });
    frames.collect::<Vec<_>>().concat().into()
}

/// The response object for the agent's request.
fn object(
    view: &View,
    answer: &SyntheticResponse<'_>,
    status: &str,
    (output, usage): (&str, &str),
) -> String {
    let seconds = answer.seconds();
    let completed = match status {
        "completed" => seconds.to_string(),
        _ => "null".to_owned(),
    };
    let object = format!(
        r#"{{"id":"{}","object":"response","created_at":{seconds},"status":"{status}","completed_at":{completed},"error":null,"incomplete_details":null,"model":{},"output":[{output}],"previous_response_id":null,{},"usage":{usage}}}"#,
        answer.id("resp_"),
        json::quote(answer.model),
        echoed(view)
    );
    String::from_utf8_lossy(&shaped_for(view, object.into())).into_owned()
}

/// Members that echo the request, with values as the agent spelled them.
fn echoed(view: &View) -> String {
    let members = ECHOED.iter().map(|(name, absent)| {
        let value = view.member(&[name]);
        let value = value.map_or((*absent).into(), |span| view.str(span));
        format!(r#""{name}":{value}"#)
    });
    members.collect::<Vec<_>>().join(",")
}

/// Builds the model's items, unchanged, followed by baton's calls and their results.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String> {
    let (items, stored) = match spoken {
        LegOutput::Reply(body) => {
            let response = json::whole(body).ok()?;
            let items = response_object::output(body, response);
            let items: Vec<String> = items.into_iter().map(|i| i.text(body)).collect();
            (items, stored(body, response))
        }
        LegOutput::Stream(frames) => streamed(frames),
    };
    // A call whose item never finished cannot be returned.
    if !pairs.iter().all(|p| items.iter().any(|i| answers(i, p))) {
        return None;
    }
    let known = stored || items.iter().all(|i| resendable(i));
    let ours = |item: &String| {
        let name = response_object::called(item.as_bytes(), json::root(item.as_bytes()));
        name.is_some_and(|name| ours.has(&name))
    };
    let last_thought = items.iter().rposition(|i| is_reasoning(i));
    // If one of baton's calls followed the last reasoning, another item follows it now, so the items after it
    // lose their ids. If agents resend items, later requests do not show whether a call followed. Items after
    // reasoning then always lose their ids, here as in those requests.
    let ours_followed = last_thought.is_some_and(|thought| items.get(thought + 1).is_some_and(ours));
    let items: Vec<String> = items.into_iter().filter(|i| !ours(i)).collect();
    let last_thought = items.iter().rposition(|i| is_reasoning(i));
    let last_thought = last_thought.filter(|_| ours_followed || !stored);
    let others = items.into_iter().enumerate();
    let others = others.filter(|(_, i)| known || resendable(i));
    let mut all: Vec<String> = others
        .map(|(at, item)| {
            // The API rejects an id without its reasoning, or one in a different position than before.
            // That applies if reasoning cannot be sent, or if one of baton's calls followed it.
            let bare = !known || last_thought.is_some_and(|thought| at > thought);
            if bare {
                view::without(&item, "id").into_owned()
            } else {
                item
            }
        })
        .collect();
    let calls = pairs.iter().map(|p| match known {
        true => p.call.clone(),
        false => view::without(&p.call, "id").into_owned(),
    });
    all.extend(calls);
    all.extend(pairs.iter().map(result));
    Some(all.join(","))
}

fn is_reasoning(item: &str) -> bool {
    json::get_string(item.as_bytes(), json::root(item.as_bytes()), "type").is_some_and(|t| t == "reasoning")
}

fn answers(item: &str, pair: &HiddenPair) -> bool {
    let text = item.as_bytes();
    json::get_string(text, json::root(text), "call_id").is_some_and(|id| id == pair.call_id)
}

/// Whether the provider stores the response's items, so that ids can refer to them.
fn stored(text: &[u8], response: Span) -> bool {
    json::get(text, response, "store").is_none_or(|s| s.of(text) != b"false")
}

/// Reasoning that the provider does not store can be returned only in encrypted form.
fn resendable(item: &str) -> bool {
    let text = item.as_bytes();
    let whole = json::root(text);
    !is_reasoning(item) || json::get_string(text, whole, "encrypted_content").is_some_and(|e| !e.is_empty())
}

/// Collects finished items from streamed frames, and whether the provider stores them.
fn streamed(frames: &[Bytes]) -> (Vec<String>, bool) {
    let (mut items, mut kept) = (Vec::new(), true);
    for frame in frames {
        let data = sse::data(frame);
        let whole = json::root(&data);
        if let Some(response) = json::get(&data, whole, "response") {
            // Response objects echo `store` of the request.
            kept = stored(&data, response);
        }
        let done = json::get_string(&data, whole, "type").is_some_and(|t| t == "response.output_item.done");
        if let Some(item) = json::get(&data, whole, "item").filter(|_| done) {
            items.push(item.text(&data));
        }
    }
    (items, kept)
}
