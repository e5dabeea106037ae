//! Runs the legs of a stream through the machine, at every split.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::response::StreamMerge;
use crate::rewrite::untooled;
use crate::wire::framer::Framer;
use crate::wire::sse;
use crate::wire::{Ending, Framing, LegReport};

/// Requests of the agent.
pub(super) const USAGE: &str =
    r#"{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}]}"#;
pub(super) const NO_USAGE: &str = r#"{"stream":true,"tools":[{"type":"function","function":{"name":"read"}}],"messages":[{"role":"user","content":"u"}]}"#;

pub(super) fn chunk_of(leg: &str, choices: Value, usage: Value) -> String {
    let chunk = json!({"id":leg,"object":"chat.completion.chunk","created":leg.len(),"model":leg,"choices":choices,"usage":usage});
    format!("data: {chunk}\n\n")
}

fn choice(delta: Value, reason: Option<&str>) -> String {
    let choice = json!({"index":0,"delta":delta,"logprobs":null,"finish_reason":reason});
    chunk_of("one", json!([choice]), Value::Null)
}

pub(super) fn delta(delta: Value) -> String {
    choice(delta, None)
}

pub(super) fn call(element: Value) -> String {
    delta(json!({"tool_calls":[element]}))
}

pub(super) fn finish(reason: &str) -> String {
    choice(json!({}), Some(reason))
}

pub(super) fn usage(prompt: u64, completion: u64) -> String {
    let total = prompt + completion;
    let counts = json!({"prompt_tokens":prompt,"completion_tokens":completion,"total_tokens":total,
        "prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":3}});
    chunk_of("one", json!([]), counts)
}

pub(super) const DONE: &str = "data: [DONE]\n\n";
pub(super) const ROLE: &str = r#"{"role":"assistant","content":""}"#;

pub(super) fn role() -> String {
    delta(serde_json::from_str(ROLE).unwrap())
}

/// A leg of these frames, from the role to the end.
pub(super) fn leg(frames: &str, reason: &str) -> String {
    [&role(), frames, &finish(reason), DONE].concat()
}

/// The same with this usage at its end.
pub(super) fn billed_leg(frames: &str, reason: &str, (prompt, completion): (u64, u64)) -> String {
    [&role(), frames, &finish(reason), &usage(prompt, completion), DONE].concat()
}

pub(super) fn ours(arguments: &str) -> Value {
    json!({"index":0,"id":"h","type":"function","function":{"name":"session_handoff","arguments":arguments}})
}

/// Action after a leg.
#[derive(Clone)]
pub(super) enum AfterLeg {
    Say(&'static str),
    Close(Ending),
}

/// Creates the machine for a request.
pub(super) fn machine(request: &str) -> StreamMerge {
    let view = WIRE
        .read(&Bytes::copy_from_slice(request.as_bytes()), Operation::Generate)
        .unwrap();
    let watch = ResponseWatch {
        hide: match untooled::no_room(&view).is_none() || view.facts.wants_usage {
            true => crate::tools::ToolNames::HANDOFF,
            false => crate::tools::ToolNames::NONE,
        },
        ..WATCH
    };
    StreamMerge::new(WIRE.machine(&view, watch), 1 << 20, true)
}

/// Runs legs at one split. Returns the agent's events and the last leg's report.
pub(super) fn run_at(
    request: &str,
    opening: Option<&str>,
    legs: &[(String, AfterLeg)],
    cut: usize,
) -> (Vec<u8>, LegReport) {
    let mut merge = machine(request);
    if let Some(text) = opening {
        merge.open_with(text.to_owned());
    }
    let mut out = Vec::new();
    let mut report = LegReport::default();
    for (leg, then) in legs {
        let bytes = Bytes::copy_from_slice(leg.as_bytes());
        let cut = cut.min(bytes.len());
        merge.feed(bytes.slice(..cut), &mut out);
        merge.feed(bytes.slice(cut..), &mut out);
        merge.finish_leg(&mut out);
        report = merge.report().clone();
        match then {
            AfterLeg::Say(text) => {
                merge.say(text, &mut out);
                merge.next_leg();
            }
            AfterLeg::Close(ending) => merge.close(*ending, &mut out),
        }
    }
    (out.concat(), report)
}

/// Runs legs at every split and returns their common result.
pub(super) fn run(request: &str, legs: &[(String, AfterLeg)]) -> (Vec<Value>, LegReport) {
    let longest = legs.iter().map(|(l, _)| l.len()).max().unwrap_or_default();
    let (whole, report) = run_at(request, None, legs, longest);
    for cut in 0..longest {
        let (bytes, again) = run_at(request, None, legs, cut);
        assert_eq!(bytes, whole, "cut at {cut}");
        assert_eq!(again.hidden, report.hidden, "cut at {cut}");
    }
    (events(&whole), report)
}

pub(super) fn alone(request: &str, leg: String) -> (Vec<Value>, LegReport) {
    run(request, &[(leg, AfterLeg::Close(Ending::Own))])
}

pub(super) fn events(stream: &[u8]) -> Vec<Value> {
    let batch = Framer::new(Framing::Sse, 1 << 20)
        .push(Bytes::copy_from_slice(stream))
        .unwrap();
    let frames = batch.frames.iter().map(|r| &batch.buf[r.clone()]);
    frames
        .map(|f| serde_json::from_slice(&sse::data(f)).unwrap_or_else(|_| json!("[DONE]")))
        .collect()
}

/// Builds the message like an SDK: strings are concatenated, calls grouped by index.
pub(super) fn message(events: &[Value]) -> Value {
    let mut content = String::new();
    let mut role = String::new();
    let mut calls: Vec<[String; 3]> = Vec::new();
    let mut reason = Value::Null;
    for choice in events.iter().filter_map(|e| e["choices"].get(0)) {
        let delta = &choice["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        role += delta["role"].as_str().unwrap_or_default();
        for element in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = element["index"].as_u64().unwrap() as usize;
            assert!(at <= calls.len(), "a gap before {at}");
            if at == calls.len() {
                calls.push(Default::default());
            }
            let function = &element["function"];
            for (i, piece) in [&element["id"], &function["name"], &function["arguments"]]
                .into_iter()
                .enumerate()
            {
                calls[at][i] += piece.as_str().unwrap_or_default();
            }
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    json!({"role":role,"content":content,"calls":calls,"reason":reason})
}

pub(super) fn read_file(index: u64, id: &str) -> Value {
    json!({"index":index,"id":id,"type":"function","function":{"name":"read","arguments":"{}"}})
}
