//! Frames that pass through a stream, and the ends of streams.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::legs::*;
use crate::wire::{Ending, StopReason};

#[test]
fn nothing_of_ours_goes_by_byte_for_byte() {
    let azure = r#"data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}"#;
    let late = r#"data: {"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{}}],"usage":null}"#;
    let filtered = [
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
    let legs = [(filtered.clone(), AfterLeg::Close(Ending::Own))];
    for cut in 0..filtered.len() {
        let (shown, report) = run_at(USAGE, None, &legs, cut);
        assert_eq!(String::from_utf8_lossy(&shown), filtered);
        let usage = report.usage;
        assert_eq!(
            (usage.input, usage.cache_read, usage.output, report.ended),
            (0, 7, 3, true)
        );
    }
    // The filter results of a later leg stay unchanged.
    let first = leg(&call(ours("{}")), "tool_calls");
    let (shown, _) = run(
        USAGE,
        &[
            (first, AfterLeg::Say("S")),
            (filtered, AfterLeg::Close(Ending::Own)),
        ],
    );
    assert_eq!(shown.iter().filter(|event| event["object"] == "").count(), 2);
}

#[test]
fn usage_that_was_not_requested_is_not_shown() {
    let last = billed_leg("", "stop", (2, 3));
    // A request that cannot have had the tool: baton does not touch the response.
    let untooled = r#"{"stream":true,"messages":[{"role":"user","content":"u"}]}"#;
    assert_eq!(alone(untooled, last.clone()).0.len(), 4);
    let (shown, report) = alone(NO_USAGE, last.clone());
    assert_eq!(shown.len(), 3);
    assert_eq!((report.usage.output, report.parts), (3, 0));
    let first = billed_leg(&call(ours("{}")), "tool_calls", (20, 5));
    let legs = [(first, AfterLeg::Say("S")), (last, AfterLeg::Close(Ending::Own))];
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
    let unchanged = |request: &str, leg: String| {
        let (shown, report) = run_at(request, None, &[(leg.clone(), AfterLeg::Close(Ending::Own))], 9);
        assert_eq!(shown, leg.as_bytes());
        report
    };
    let calls = billed_leg(&call(ours("{}")), "tool_calls", (1, 1));
    assert!(unchanged(many, calls).hidden.is_empty());
    let report = unchanged(USAGE, role() + "data: {\"error\":{\"message\":\"m\"}}\n\n");
    assert_eq!((report.stop, report.ended), (StopReason::Error, false));
}

#[test]
fn a_stream_is_ended_by_us_where_upstream_cannot() {
    let calls = billed_leg(&call(ours("{}")), "tool_calls", (20, 5));
    for ending in [
        Ending::Stopped { next_input: 11 },
        Ending::Lost { next_input: 11 },
    ] {
        let legs = [
            (calls.clone(), AfterLeg::Say("S")),
            (String::new(), AfterLeg::Close(ending)),
        ];
        let (shown, _) = run(USAGE, &legs);
        assert_eq!(message(&shown)["reason"], "stop");
        let usage = json!({"prompt_tokens":11,"completion_tokens":5,"total_tokens":16});
        assert_eq!(
            [&shown[3]["usage"], &shown[3]["id"], &shown[4]],
            [&usage, &json!("one"), &json!("[DONE]")]
        );
        assert_eq!(run(NO_USAGE, &legs).0.len(), 4);
    }
    let (shown, _) = run(USAGE, &[(calls, AfterLeg::Close(Ending::WithoutCall))]);
    assert_eq!(message(&shown)["reason"], "stop");
    let (shown, report) = alone(USAGE, leg(&call(ours("{\"pro")), "length"));
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
        let second = delta(json!({"role":"assistant","content":"!"}));
        let leg = [&first, &second, &finish("stop"), DONE].concat();
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
        let legs = [(leg(&pieces.concat(), "stop"), AfterLeg::Close(Ending::Own))];
        let (bytes, report) = run_at(USAGE, None, &legs, 50);
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
    let leg = billed_leg("", "stop", (1, 1));
    merge.feed(leg.clone().into(), &mut out);
    assert_eq!(out.concat(), role().as_bytes());
    merge.close(Ending::Own, &mut out);
    assert_eq!(out.concat(), leg.as_bytes());
    let mut out = Vec::new();
    merge.keepalive(&mut out);
    assert_eq!(out.concat(), b": keep-alive\n\n");
}
