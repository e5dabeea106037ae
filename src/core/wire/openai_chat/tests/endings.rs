//! Frames that pass through a stream, and the ends of streams.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::legs::*;
use crate::wire::{Ending, StopReason};

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
        let (shown, report) = run_at(USAGE, None, &[(leg.clone(), AfterLeg::Close(Ending::Own))], cut);
        assert_eq!(String::from_utf8_lossy(&shown), leg);
        assert!(report.ended);
        assert_eq!(
            (report.usage.input, report.usage.cache_read, report.usage.output),
            (0, 7, 3)
        );
    }
    // The filter results of a later leg stay unchanged.
    let first = [&role(), &call(ours("{}")), &finish("tool_calls"), DONE].concat();
    let (shown, _) = run(
        USAGE,
        &[(first, AfterLeg::Say("S")), (leg, AfterLeg::Close(Ending::Own))],
    );
    let named: Vec<_> = shown
        .iter()
        .filter(|e| e.is_object())
        .map(|e| &e["object"])
        .collect();
    assert_eq!(named.iter().filter(|o| **o == "").count(), 2);
}

#[test]
fn usage_that_was_not_requested_is_not_shown() {
    let leg = [&role(), &finish("stop"), &usage(2, 3), DONE].concat();
    // A request that cannot have had the tool: baton does not touch the response.
    let (shown, _) = alone(
        r#"{"stream":true,"messages":[{"role":"user","content":"u"}]}"#,
        leg.clone(),
    );
    assert_eq!(shown.len(), 4);
    let (shown, report) = alone(NO_USAGE, leg);
    assert_eq!(shown.len(), 3);
    assert_eq!((report.usage.output, report.parts), (3, 0));
    let first = [
        &role(),
        &call(ours("{}")),
        &finish("tool_calls"),
        &usage(20, 5),
        DONE,
    ]
    .concat();
    let second = [&role(), &finish("stop"), &usage(2, 3), DONE].concat();
    let legs = [
        (first, AfterLeg::Say("S")),
        (second, AfterLeg::Close(Ending::Own)),
    ];
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
    let (shown, report) = run_at(many, None, &[(leg.clone(), AfterLeg::Close(Ending::Own))], 9);
    assert_eq!(shown, leg.as_bytes());
    assert!(report.hidden.is_empty());
    let leg = [&role(), "data: {\"error\":{\"message\":\"m\"}}\n\n"].concat();
    let (shown, report) = run_at(USAGE, None, &[(leg.clone(), AfterLeg::Close(Ending::Own))], 9);
    assert_eq!(shown, leg.as_bytes());
    assert_eq!((report.stop, report.ended), (StopReason::Error, false));
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
            (leg.clone(), AfterLeg::Say("S")),
            (String::new(), AfterLeg::Close(ending)),
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
    let (shown, _) = run(USAGE, &[(leg, AfterLeg::Close(Ending::WithoutCall))]);
    assert_eq!(message(&shown)["reason"], "stop");
    let cut = [&role(), &call(ours("{\"pro")), &finish("length"), DONE].concat();
    let (shown, report) = alone(USAGE, cut);
    assert_eq!(message(&shown)["reason"], "length");
    assert!(!report.hidden[0].complete);
}

#[test]
fn a_choice_without_a_delta_says_nothing() {
    let bare = r#"{"id":"one","object":"chat.completion.chunk","choices":[{"index":0,"finish_reason":"tool_calls"}]}"#;
    let begun = [role(), call(ours("{}"))].concat();
    let of = |end: &str| alone(NO_USAGE, [&begun, end, DONE].concat());
    let (shown, report) = of(&format!("data: {bare}\n\n"));
    let (expected, _) = of(&finish("tool_calls"));
    assert_eq!((shown.len(), report.hidden.len()), (expected.len(), 1));
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
        let legs = [(leg.clone(), AfterLeg::Close(Ending::Own))];
        let (whole, _) = run_at(USAGE, Some("S"), &legs, leg.len());
        let events = events(&whole);
        let content = message(&events)["content"].as_str().unwrap().to_owned();
        assert!(content.starts_with('S') && content.ends_with('!'), "{content}");
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
        let (bytes, report) = run_at(USAGE, None, &[(leg, AfterLeg::Close(Ending::Own))], 50);
        let wanted = text.replace("resume:", "resume\\:");
        assert_eq!(message(&events(&bytes))["content"], wanted.as_str());
        assert_eq!(report.escaped_sentinels, 1);
    }
}

#[test]
fn pending_ends_wait_and_keepalives_are_comments() {
    let mut merge = machine(USAGE);
    merge.machine.hold_ends();
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
