//! Streams of many servers, each at every split point.

use super::WATCH;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::merge::StreamMerge;
use crate::wire::sse::{self, Framer};
use crate::wire::{Ending, LegReport, Stop};

/// What an agent asked for.
const USAGE: &str =
    r#"{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"u"}]}"#;
const NO_USAGE: &str = r#"{"stream":true,"messages":[{"role":"user","content":"u"}]}"#;

fn chunk_of(leg: &str, choices: Value, usage: Value) -> String {
    let chunk = json!({"id":leg,"object":"chat.completion.chunk","created":leg.len(),"model":leg,"choices":choices,"usage":usage});
    format!("data: {chunk}\n\n")
}

fn delta(delta: Value) -> String {
    chunk_of(
        "one",
        json!([{"index":0,"delta":delta,"logprobs":null,"finish_reason":null}]),
        Value::Null,
    )
}

fn call(element: Value) -> String {
    delta(json!({"tool_calls":[element]}))
}

fn finish(reason: &str) -> String {
    chunk_of(
        "one",
        json!([{"index":0,"delta":{},"logprobs":null,"finish_reason":reason}]),
        Value::Null,
    )
}

fn usage(prompt: u64, completion: u64) -> String {
    let total = prompt + completion;
    let counts = json!({"prompt_tokens":prompt,"completion_tokens":completion,"total_tokens":total,
        "prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":3}});
    chunk_of("one", json!([]), counts)
}

const DONE: &str = "data: [DONE]\n\n";
const ROLE: &str = r#"{"role":"assistant","content":""}"#;

fn role() -> String {
    delta(serde_json::from_str(ROLE).unwrap())
}

fn ours(arguments: &str) -> Value {
    json!({"index":0,"id":"h","type":"function","function":{"name":"session_handoff","arguments":arguments}})
}

/// What happens behind a leg.
#[derive(Clone)]
enum Then {
    Say(&'static str),
    Close(Ending),
}

/// The machine with one request.
fn machine(request: &str) -> StreamMerge {
    let view = OpenaiChat
        .read(&Bytes::copy_from_slice(request.as_bytes()), Call::Generate)
        .unwrap();
    StreamMerge::new(OpenaiChat.dialect(&view, WATCH), 1 << 20, true)
}

/// Runs legs at one split; what the agent gets, and the last leg's report.
fn run_at(request: &str, opening: Option<&str>, legs: &[(String, Then)], cut: usize) -> (Vec<u8>, LegReport) {
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
            Then::Say(text) => {
                merge.say(text, &mut out);
                merge.next_leg();
            }
            Then::Close(ending) => merge.close(*ending, &mut out),
        }
    }
    (out.concat(), report)
}

/// Runs legs at every split and returns the one result that all have.
fn run(request: &str, legs: &[(String, Then)]) -> (Vec<Value>, LegReport) {
    let longest = legs.iter().map(|(l, _)| l.len()).max().unwrap_or_default();
    let (whole, report) = run_at(request, None, legs, longest);
    for cut in 0..longest {
        let (bytes, again) = run_at(request, None, legs, cut);
        assert_eq!(bytes, whole, "cut at {cut}");
        assert_eq!(again.hidden, report.hidden, "cut at {cut}");
    }
    (events(&whole), report)
}

fn alone(request: &str, leg: String) -> (Vec<Value>, LegReport) {
    run(request, &[(leg, Then::Close(Ending::Own))])
}

fn events(stream: &[u8]) -> Vec<Value> {
    let batch = Framer::new(1 << 20).push(Bytes::copy_from_slice(stream)).unwrap();
    let frames = batch.frames.iter().map(|r| &batch.buf[r.clone()]);
    frames
        .map(|f| serde_json::from_slice(&sse::data(f)).unwrap_or_else(|_| json!("[DONE]")))
        .collect()
}

/// The message as an SDK puts it together: strings glued, calls by their index.
fn message(events: &[Value]) -> Value {
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

fn read_file(index: u64, id: &str) -> Value {
    json!({"index":index,"id":id,"type":"function","function":{"name":"read","arguments":"{}"}})
}

#[test]
fn a_call_of_ours_is_hidden_however_it_is_spelled() {
    let arguments = |text: &str| json!({"index":0,"function":{"arguments":text}});
    let name = |text: &str| json!({"index":0,"function":{"name":text}});
    let ways: Vec<Vec<Value>> = vec![
        vec![ours(r#"{"prompt":"p"}"#)],
        vec![ours(""), arguments(r#"{"prompt""#), arguments(r#":"p"}"#)],
        vec![
            json!({"index":0,"id":"h","type":"function"}),
            name("session_handoff"),
            arguments(r#"{"prompt":"p"}"#),
        ],
        vec![
            json!({"index":0,"id":"h","function":{"name":"session","arguments":""}}),
            name("_hand"),
            name("off"),
            arguments(r#"{"prompt":"p"}"#),
        ],
        vec![
            json!({"id":"h","function":{"name":"session_handoff"}}),
            json!({"function":{"arguments":"{\"prompt\":\"p\"}"}}),
        ],
        vec![
            json!({"index":0,"id":"h","function":{"name":"session_handoff","arguments":"{\"prompt\""}}),
            json!({"index":0,"id":"h","function":{"name":"session_handoff","arguments":":\"p\"}"}}),
        ],
        vec![json!({"index":0,"id":"h","function":{"name":"session_handoff","arguments":{"prompt":"p"}}})],
        vec![
            json!({"index":0,"id":"","function":{"name":"session_handoff"}}),
            json!({"index":0,"id":"h","function":{"arguments":"{\"prompt\":\"p\"}"}}),
        ],
    ];
    for way in ways {
        let deltas: String = way.into_iter().map(call).collect();
        let leg = [&role(), &deltas, &finish("tool_calls"), &usage(9, 1), DONE].concat();
        let (events, report) = run(
            USAGE,
            &[
                (leg, Then::Say("S")),
                (
                    [
                        &delta(json!({"role":"assistant","content":"two"})),
                        &finish("stop"),
                        DONE,
                    ]
                    .concat(),
                    Then::Close(Ending::Own),
                ),
            ],
        );
        assert_eq!(report.stop, Stop::Done);
        assert_eq!(
            message(&events),
            json!({"role":"assistant","content":"Stwo","calls":[],"reason":"stop"})
        );
        let (_, report) = alone(USAGE, [&role(), &deltas, &finish("tool_calls"), DONE].concat());
        let call = &report.hidden[0];
        assert_eq!((call.id.as_str(), call.complete, call.after), ("h", true, 0));
        assert_eq!(call.arguments, r#"{"prompt":"p"}"#);
    }
}

#[test]
fn a_call_whose_name_could_be_ours_waits_no_longer_than_that() {
    let start = json!({"index":0,"id":"c","type":"function","function":{"name":"session"}});
    for rest in [
        vec![call(json!({"index":0,"function":{"name":"_list"}}))],
        vec![call(json!({"index":0,"function":{"arguments":"{}"}}))],
        vec![],
    ] {
        let leg = [
            &role(),
            &call(start.clone()),
            &delta(json!({"content":"text flows"})),
            &rest.concat(),
            &finish("tool_calls"),
            DONE,
        ]
        .concat();
        let mut merge = machine(USAGE);
        let mut out = Vec::new();
        let held = [role(), call(start.clone())].concat();
        merge.feed(held.into(), &mut out);
        assert_eq!(message(&events(&out.concat()))["calls"], json!([]));
        let (shown, report) = alone(USAGE, leg.clone());
        assert_eq!(message(&shown), message(&events(leg.as_bytes())));
        assert_eq!((report.calls, report.parts), (vec![("c".into(), 0)], 1));
        assert!(report.hidden.is_empty());
    }
}

#[test]
fn visible_calls_are_numbered_over_all_legs() {
    let one = [
        &role(),
        &call(ours("{}")),
        &call(read_file(1, "a")),
        &delta(json!({"tool_calls":[{"index":2,"id":"i","function":{"name":"session_handoff","arguments":"{}"}},read_file(3, "b")]})),
        &finish("tool_calls"),
        &usage(5, 5),
        DONE,
    ]
    .concat();
    let (shown, report) = alone(USAGE, one.clone());
    assert_eq!(
        message(&shown)["calls"],
        json!([["a", "read", "{}"], ["b", "read", "{}"]])
    );
    assert_eq!(report.calls, [("a".into(), 0), ("b".into(), 1)]);
    assert_eq!(report.hidden.iter().map(|h| h.after).collect::<Vec<_>>(), [0, 1]);
    let two = [&role(), &call(read_file(0, "c")), &finish("tool_calls"), DONE].concat();
    let (shown, _) = run(USAGE, &[(one, Then::Say("S")), (two, Then::Close(Ending::Own))]);
    assert_eq!(message(&shown)["calls"][2], json!(["c", "read", "{}"]));
}

#[test]
fn servers_that_number_every_call_0_or_none() {
    let unnumbered = |id: &str| json!({"id":id,"function":{"name":"read","arguments":"{}"}});
    for (a, b) in [
        (read_file(0, "a"), read_file(0, "b")),
        (unnumbered("a"), unnumbered("b")),
    ] {
        let leg = [
            &role(),
            &call(ours("{}")),
            &call(a),
            &call(b),
            &finish("tool_calls"),
            DONE,
        ]
        .concat();
        let (shown, report) = alone(USAGE, leg);
        assert_eq!(
            message(&shown)["calls"],
            json!([["a", "read", "{}"], ["b", "read", "{}"]])
        );
        assert_eq!(report.hidden.len(), 1);
    }
}

#[test]
fn what_stands_beside_a_hidden_delta_is_shown() {
    let both = delta(json!({"role":"assistant","content":"hi","tool_calls":[ours("{}")],"refusal":null}));
    let (shown, _) = alone(USAGE, [&both, &finish("tool_calls"), DONE].concat());
    assert_eq!(
        shown[0]["choices"][0]["delta"],
        json!({"role":"assistant","content":"hi","refusal":null})
    );
    // All of it in the chunk that ends it.
    let all = chunk_of(
        "one",
        json!([{"index":0,"delta":{"role":"assistant","content":"hi","tool_calls":[ours("{}"), read_file(1, "a")]},"finish_reason":"tool_calls"}]),
        json!({"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}),
    );
    let (shown, report) = alone(USAGE, [&all, DONE].concat());
    assert_eq!(
        message(&shown),
        json!({"role":"assistant","content":"hi","calls":[["a","read","{}"]],"reason":"tool_calls"})
    );
    assert_eq!(shown.len(), 3);
    assert_eq!(
        (&shown[0]["usage"], &shown[1]["usage"]["total_tokens"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(report.hidden.len(), 1);
}

#[test]
fn nothing_of_ours_goes_by_byte_for_byte() {
    let azure = r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}"#;
    let late = r#"data: {"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{}}],"usage":null}"#;
    let leg = [
        ": hello\n\n",
        azure,
        "\n\n",
        &role(),
        &delta(json!({"role":"assistant","content":"a [[handoff-resumed","reasoning_content":"r"})),
        &call(json!({"id":"x","type":"function","function":{"name":"read","arguments":"{}"}})),
        late,
        "\r\n\r\n",
        "data: not json\n\n",
        &finish("tool_calls"),
        &usage(2, 3),
        DONE,
    ]
    .concat();
    for cut in 0..leg.len() {
        let (shown, report) = run_at(USAGE, None, &[(leg.clone(), Then::Close(Ending::Own))], cut);
        assert_eq!(String::from_utf8_lossy(&shown), leg);
        assert!(report.ended);
        assert_eq!(
            (report.usage.input, report.usage.cache_read, report.usage.output),
            (0, 7, 3)
        );
    }
    // A later leg's filter results stay its own.
    let first = [&role(), &call(ours("{}")), &finish("tool_calls"), DONE].concat();
    let (shown, _) = run(USAGE, &[(first, Then::Say("S")), (leg, Then::Close(Ending::Own))]);
    let named: Vec<_> = shown
        .iter()
        .filter(|e| e.is_object())
        .map(|e| &e["object"])
        .collect();
    assert_eq!(named.iter().filter(|o| **o == "").count(), 2);
}

#[test]
fn usage_that_nobody_asked_for_is_not_shown() {
    let leg = [&role(), &finish("stop"), &usage(2, 3), DONE].concat();
    let (shown, report) = alone(NO_USAGE, leg);
    assert_eq!(shown.len(), 3);
    assert_eq!(report.usage.output, 3);
    let first = [
        &role(),
        &call(ours("{}")),
        &finish("tool_calls"),
        &usage(20, 5),
        DONE,
    ]
    .concat();
    let second = [&role(), &finish("stop"), &usage(2, 3), DONE].concat();
    let legs = [(first, Then::Say("S")), (second, Then::Close(Ending::Own))];
    let (shown, _) = run(NO_USAGE, &legs);
    assert_eq!(shown.len(), 4);
    assert!(shown[1].get("usage").is_none());
    let (shown, _) = run(USAGE, &legs);
    assert_eq!(
        shown[3]["usage"],
        json!({"prompt_tokens":2,"completion_tokens":8,"total_tokens":10,
               "prompt_tokens_details":{"cached_tokens":7},"completion_tokens_details":{"reasoning_tokens":6}})
    );
}

#[test]
fn many_choices_and_errors_go_by() {
    let many = r#"{"stream":true,"n":2,"messages":[{"role":"user","content":"u"}]}"#;
    let leg = [
        &role(),
        &call(ours("{}")),
        &finish("tool_calls"),
        &usage(1, 1),
        DONE,
    ]
    .concat();
    let (shown, report) = run_at(many, None, &[(leg.clone(), Then::Close(Ending::Own))], 9);
    assert_eq!(shown, leg.as_bytes());
    assert!(report.hidden.is_empty());
    let leg = [&role(), "data: {\"error\":{\"message\":\"m\"}}\n\n"].concat();
    let (shown, report) = run_at(USAGE, None, &[(leg.clone(), Then::Close(Ending::Own))], 9);
    assert_eq!(shown, leg.as_bytes());
    assert_eq!((report.stop, report.ended), (Stop::Error, false));
}

#[test]
fn a_stream_is_ended_by_us_where_upstream_cannot() {
    let leg = [
        &role(),
        &call(ours("{}")),
        &finish("tool_calls"),
        &usage(20, 5),
        DONE,
    ]
    .concat();
    for ending in [
        Ending::Stopped { next_input: 11 },
        Ending::Lost { next_input: 11 },
    ] {
        let legs = [
            (leg.clone(), Then::Say("S")),
            (String::new(), Then::Close(ending)),
        ];
        let (shown, _) = run(USAGE, &legs);
        assert_eq!(message(&shown)["reason"], "stop");
        assert_eq!(
            shown[3]["usage"],
            json!({"prompt_tokens":11,"completion_tokens":5,"total_tokens":16})
        );
        assert_eq!(
            (shown[3]["id"].clone(), &shown[4]),
            (json!("one"), &json!("[DONE]"))
        );
        assert_eq!(run(NO_USAGE, &legs).0.len(), 4);
    }
    let (shown, _) = run(USAGE, &[(leg, Then::Close(Ending::WithoutCall))]);
    assert_eq!(message(&shown)["reason"], "stop");
    let cut = [&role(), &call(ours("{\"pro")), &finish("length"), DONE].concat();
    let (shown, report) = alone(USAGE, cut);
    assert_eq!(message(&shown)["reason"], "length");
    assert!(!report.hidden[0].complete);
}

#[test]
fn a_response_that_goes_on_says_its_sentinel_first() {
    for first in [
        role(),
        delta(json!({"role":"assistant","content":"hi"})),
        delta(json!({"content":"hi"})),
    ] {
        let leg = [
            &first,
            &delta(json!({"role":"assistant","content":"!"})),
            &finish("stop"),
            DONE,
        ]
        .concat();
        let legs = [(leg.clone(), Then::Close(Ending::Own))];
        let (whole, _) = run_at(USAGE, Some("S"), &legs, leg.len());
        let events = events(&whole);
        let said = message(&events)["content"].as_str().unwrap().to_owned();
        assert!(said.starts_with('S') && said.ends_with('!'), "{said}");
        assert_eq!(message(&events)["role"], "assistant");
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    }
}

#[test]
fn model_text_like_ours_is_broken_up_across_deltas() {
    let text = "see [[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]] there";
    for cut in 0..text.len() {
        let pieces = [&text[..cut], &text[cut..]].map(|t| delta(json!({"content":t})));
        let leg = [&role(), &pieces.concat(), &finish("stop"), DONE].concat();
        let (bytes, report) = run_at(USAGE, None, &[(leg, Then::Close(Ending::Own))], 50);
        let wanted = text.replace("resume:", "resume\\:");
        assert_eq!(message(&events(&bytes))["content"], wanted.as_str());
        assert_eq!(report.broken_up, 1);
    }
}

#[test]
fn pending_ends_wait_and_keepalives_are_comments() {
    let mut merge = machine(USAGE);
    merge.hold_ends();
    let mut out = Vec::new();
    let leg = [&role(), &finish("stop"), &usage(1, 1), DONE].concat();
    merge.feed(leg.clone().into(), &mut out);
    assert_eq!(out.concat(), role().as_bytes());
    merge.close(Ending::Own, &mut out);
    assert_eq!(out.concat(), leg.as_bytes());
    let mut out = Vec::new();
    merge.keepalive(&mut out);
    assert_eq!(out.concat(), b": keep-alive\n\n");
}
