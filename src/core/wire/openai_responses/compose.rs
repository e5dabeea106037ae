//! Synthetic response objects, complete or streamed.
//!
//! Events: <https://platform.openai.com/docs/api-reference/responses-streaming>.

use super::answer::shaped_for;
use bytes::Bytes;

use super::item::SENTINEL_ITEM;
use super::own_message::InjectedMessage;
use crate::text::json;
use crate::wire::openai::response_usage;
use crate::wire::{AnswerShape, Framing, StreamOpening, SyntheticResponse, View, sse};

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

pub(super) fn stream_opening(
    view: &View,
    answer: &SyntheticResponse<'_>,
    _framing: Framing,
) -> StreamOpening {
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
        sse::named(
            name,
            &format!(r#"{{"type":"{name}","sequence_number":{n},{members}}}"#),
        )
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
        let value = view
            .member(&[name])
            .map_or((*absent).into(), |span| view.str(span));
        format!(r#""{name}":{value}"#)
    });
    members.collect::<Vec<_>>().join(",")
}
