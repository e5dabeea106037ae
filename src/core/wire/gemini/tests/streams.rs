use super::*;
use crate::response::{StreamMerge, Verdict, VerdictInput, judge};
use crate::wire::View;
use crate::wire::{Ending, Framing, Leg, LegReport, StopReason};
use serde_json::{Value, json};

const OURS: &str =
    r#"{"functionCall":{"name":"session_handoff","args":{"prompt":"p"}},"thoughtSignature":"s"}"#;
const THEIRS: &str = r#"{"functionCall":{"name":"f","args":{}}}"#;

fn chunk(parts: &str, rest: &str) -> String {
    format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}}{rest},\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"totalTokenCount\":11}},\"modelVersion\":\"m\",\"responseId\":\"r\"}}\r\n\r\n"
    )
}

const STOP: &str = r#","finishReason":"STOP""#;

fn text(t: &str) -> String {
    format!(r#"{{"text":"{t}"}}"#)
}

fn merge() -> StreamMerge {
    let view = reading(r#"{"contents":[{"parts":[{"text":"go"}]}]}"#).view;
    StreamMerge::new(WIRE.machine(&view, WATCH), 1 << 20, true)
}

fn fed(stream: &str, cut: usize) -> (StreamMerge, Vec<Bytes>) {
    let mut merge = merge();
    let mut out = Vec::new();
    let bytes = Bytes::copy_from_slice(stream.as_bytes());
    merge.feed(bytes.slice(..cut), &mut out);
    merge.feed(bytes.slice(cut..), &mut out);
    merge.finish_leg(&mut out);
    (merge, out)
}

fn values(out: &[Bytes]) -> Vec<Value> {
    let all = out.concat();
    let text = String::from_utf8(all.to_vec()).unwrap();
    text.lines()
        .filter_map(|l| l.strip_prefix("data: "))
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// The contents of the request that asks the model again, with this pair.
fn asked_again(merge: &StreamMerge, pair: HiddenPair) -> String {
    let spoken = merge.spoken().unwrap();
    (WIRE.functions.ask_again)(&spoken, &[pair], crate::tools::ToolNames::HANDOFF).unwrap()
}

fn read_reply(body: &str) -> Option<LegReport> {
    WIRE.reply(
        &View::empty(WIRE.id()),
        &Bytes::copy_from_slice(body.as_bytes()),
        WATCH,
    )
}

fn parts(value: &Value) -> &Value {
    &value["candidates"][0]["content"]["parts"]
}

fn now() -> VerdictInput {
    VerdictInput {
        messages: 2,
        legs: 1,
        max_chain: 8,
        ..VerdictInput::default()
    }
}

#[test]
fn only_the_last_chunk_has_usage_and_the_rest_stays_as_it_came() {
    let stream = [chunk(&text("a"), ""), chunk(&text("b"), STOP)].concat();
    let (merge, out) = fed(&stream, 0);
    let usage = r#","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11}"#;
    assert_eq!(out.concat(), stream.replacen(usage, "", 1).into_bytes());
    assert_eq!(
        (merge.report().ended, merge.report().stop),
        (true, StopReason::Done)
    );
    assert_eq!(merge.report().usage.input, 9);
}

#[test]
fn no_chunk_without_parts_is_made() {
    let usage_only = "data: {\"usageMetadata\":{\"promptTokenCount\":9},\"responseId\":\"r\"}\r\n\r\n";
    let grounded = "data: {\"candidates\":[{\"groundingMetadata\":{\"x\":1}}]}\r\n\r\n";
    let (empty, ours, last) = (chunk("", ""), chunk(OURS, ""), chunk("", STOP));
    let stream = [usage_only, &empty, &ours, grounded, &last].concat();
    let (mut merge, mut out) = fed(&stream, 0);
    merge.close(Ending::WithoutCall, &mut out);
    let values = values(&out);
    assert_eq!(values.len(), 2);
    assert_eq!(values[0]["candidates"][0]["groundingMetadata"], json!({"x":1}));
    assert!(
        values.iter().all(|v| *parts(v) == json!([{"text":""}])),
        "{values:?}"
    );
    assert_eq!(values[1]["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn what_stands_beside_the_call_in_the_last_chunk_goes_in_front_of_the_sentinel() {
    let stream = chunk(&[&text("said"), OURS].join(","), STOP);
    for cut in 0..stream.len() {
        let (mut merge, mut out) = fed(&stream, cut);
        assert!(matches!(judge(merge.report(), &now()), Verdict::Fire { .. }));
        merge.say("[[mark]]", &mut out);
        merge.next_leg();
        merge.close(Ending::Lost { next_input: 40 }, &mut out);
        let values = values(&out);
        let texts: Vec<_> = values.iter().map(|v| parts(v)[0]["text"].clone()).collect();
        assert_eq!(texts, ["said", "[[mark]]", ""]);
        let last = &values[2];
        assert_eq!(last["candidates"][0]["finishReason"], "STOP");
        assert_eq!(
            last["usageMetadata"],
            json!({"promptTokenCount":40,"candidatesTokenCount":2,"totalTokenCount":42})
        );
        assert_eq!(
            (&last["responseId"], &last["modelVersion"]),
            (&json!("r"), &json!("m"))
        );
        assert!(values[..2].iter().all(|v| v.get("usageMetadata").is_none()));
    }
}

#[test]
fn reasons_to_finish_have_their_meaning() {
    for (reason, parts, stop) in [
        ("STOP", text("a"), StopReason::Done),
        ("STOP", THEIRS.to_owned(), StopReason::Calls),
        ("STOP", OURS.to_owned(), StopReason::Calls),
        ("MAX_TOKENS", OURS.to_owned(), StopReason::Truncated),
        ("SAFETY", text("a"), StopReason::Refused),
        ("MALFORMED_FUNCTION_CALL", text("a"), StopReason::Refused),
        ("CONTINUATION", text("a"), StopReason::Paused),
    ] {
        let stream = chunk(&parts, &format!(r#","finishReason":"{reason}""#));
        let (merge, _) = fed(&stream, 0);
        assert_eq!((merge.report().stop, merge.leg_ended()), (stop, true), "{reason}");
    }
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\r\n\r\n";
    let (merge, out) = fed(blocked, 0);
    assert_eq!(merge.report().stop, StopReason::Refused);
    assert_eq!(out.concat(), blocked.as_bytes());
    let error = "data: {\"error\":{\"code\":503}}\r\n\r\n";
    let (merge, out) = fed(error, 0);
    assert_eq!(
        (merge.report().stop, merge.leg_ended()),
        (StopReason::Error, false)
    );
    assert_eq!(out.concat(), error.as_bytes());
}

/// Vertex: a visible call and a hidden call, both with streamed arguments.
fn streamed_arguments() -> String {
    let part = |call: &str| chunk(&format!(r#"{{"functionCall":{call}}}"#), "");
    [
        part(r#"{"name":"f","id":"v","willContinue":true}"#),
        part(r#"{"partialArgs":[{"jsonPath":"$.path","stringValue":"x"}],"willContinue":true}"#),
        part("{}"),
        chunk(r#"{"functionCall":{"name":"session_handoff","id":"h","willContinue":true},"thoughtSignature":"s"}"#, ""),
        part(r#"{"partialArgs":[{"jsonPath":"$.prompt","stringValue":"Go \"on\" ","willContinue":true}],"willContinue":true}"#),
        part(r#"{"partialArgs":[{"jsonPath":"$['prompt']","stringValue":"now\n"},{"jsonPath":"$.reason","stringValue":"r"}],"willContinue":true}"#),
        part("{}"),
        chunk(&text(""), STOP),
    ]
    .concat()
}

#[test]
fn streamed_arguments_are_collected_at_every_split() {
    let stream = streamed_arguments();
    for cut in 0..=stream.len() {
        let (mut merge, mut out) = fed(&stream, cut);
        let report = merge.report().clone();
        assert_eq!((report.hidden.len(), report.calls.len(), report.parts), (1, 1, 1));
        let call = &report.hidden[0];
        assert!(call.complete && call.id == "h" && call.after == 1);
        assert_eq!(
            serde_json::from_str::<Value>(&call.arguments).unwrap(),
            json!({"prompt":"Go \"on\" now\n","reason":"r"})
        );
        let raw: Value = serde_json::from_str(&(WIRE.functions.hidden_call)(call)).unwrap();
        assert_eq!(raw["thoughtSignature"], "s");
        assert_eq!(raw["functionCall"]["args"]["reason"], "r");
        merge.close(Ending::Own, &mut out);
        assert_eq!(values(&out).len(), 4, "three of the visible call, and the end");
    }
}

/// Tools differ in their arguments: `session_recall` takes a number.
#[test]
fn streamed_arguments_of_every_type_are_collected() {
    let part = |call: &str| chunk(&format!(r#"{{"functionCall":{call}}}"#), "");
    let arguments = |all: &str| part(&format!(r#"{{"partialArgs":[{all}],"willContinue":true}}"#));
    let stream = [
        part(r#"{"name":"session_handoff","id":"r","willContinue":true}"#),
        arguments(r#"{"jsonPath":"$.query","stringValue":"the ","willContinue":true}"#),
        arguments(r#"{"jsonPath":"$.query","stringValue":"port"},{"jsonPath":"$.limit","numberValue":3}"#),
        arguments(
            r#"{"jsonPath":"$.exact","boolValue":true},{"jsonPath":"$.none","nullValue":"NULL_VALUE"}"#,
        ),
        part("{}"),
        chunk(&text(""), STOP),
    ];
    let (merge, _) = fed(&stream.concat(), 0);
    let call = &merge.report().hidden[0];
    assert!(call.complete);
    assert_eq!(call.arguments, r#"{"query":"the port","limit":3,"exact":true}"#);
}

#[test]
fn a_run_cut_off_is_no_whole_call() {
    let begun = r#"{"functionCall":{"name":"session_handoff","willContinue":true}}"#;
    let stream = chunk(begun, "") + &chunk(&text(""), r#","finishReason":"MAX_TOKENS""#);
    let (mut merge, mut out) = fed(&stream, 0);
    assert!(!merge.report().hidden[0].complete);
    assert_eq!(judge(merge.report(), &now()), Verdict::End(Ending::Own));
    merge.close(Ending::Own, &mut out);
    assert_eq!(values(&out)[0]["candidates"][0]["finishReason"], "MAX_TOKENS");
}

#[test]
fn a_models_sentinel_is_broken_up_in_text_and_left_alone_in_thought() {
    let form = "[[handoff-resume:0199";
    for at in 1..form.len() {
        let (a, b) = form.split_at(at);
        let stream = [
            chunk(&format!(r#"{{"text":"{form}","thought":true}}"#), ""),
            chunk(&text(a), ""),
            chunk(&text(b), STOP),
        ]
        .concat();
        let (merge, out) = fed(&stream, 0);
        let values = values(&out);
        assert_eq!(merge.report().escaped_sentinels, 1);
        assert_eq!(parts(&values[0])[0]["text"], form);
        let texts = [&values[1], &values[2]].map(|v| parts(v)[0]["text"].as_str().unwrap().to_owned());
        assert_eq!(texts.concat(), r"[[handoff-resume\:0199");
    }
}

#[test]
fn an_envelope_is_kept_and_imitated() {
    let wrapped = |c: String| {
        let json = c.strip_prefix("data: ").unwrap().trim_end().to_owned();
        format!("data: {{\"response\":{json},\"traceId\":\"t\"}}\n\n")
    };
    let stream = [wrapped(chunk(&text("a"), "")), wrapped(chunk(OURS, STOP))].concat();
    let (mut merge, mut out) = fed(&stream, 0);
    merge.say("mark", &mut out);
    merge.close(Ending::Stopped { next_input: 1 }, &mut out);
    let values = values(&out);
    assert_eq!(values.len(), 3);
    for value in &values {
        assert_eq!(value["traceId"], "t");
        assert_eq!(value["response"]["responseId"], "r");
    }
    assert_eq!(parts(&values[1]["response"])[0]["text"], "mark");
}

#[test]
fn a_response_may_open_with_a_sentinel_shown_before() {
    let mut merge = merge();
    merge.open_with("mark".into());
    let mut out = Vec::new();
    merge.keepalive(&mut out);
    merge.feed(Bytes::from(chunk(&text("a"), STOP)), &mut out);
    merge.close(Ending::Own, &mut out);
    assert_eq!(out[0], "\n");
    let texts: Vec<_> = values(&out).iter().map(|v| parts(v)[0]["text"].clone()).collect();
    assert_eq!(texts, ["mark", "a"]);
}

#[test]
fn an_array_of_one_element_or_none_stays_an_array() {
    let view = reading(r#"{"contents":[{"parts":[{"text":"go"}]}]}"#).view;
    for (stream, elements) in [
        ("[]", 0),
        (
            "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}]",
            1,
        ),
    ] {
        let mut machine = WIRE.machine(&view, WATCH);
        machine.frame_as(Framing::JsonArray);
        let mut merge = StreamMerge::new(machine, 1 << 20, true);
        let mut out = Vec::new();
        merge.feed(Bytes::copy_from_slice(stream.as_bytes()), &mut out);
        merge.finish_leg(&mut out);
        merge.close(Ending::Own, &mut out);
        let contents: Vec<Value> = serde_json::from_slice(&out.concat()).unwrap();
        assert_eq!(contents.len(), elements);
    }
}

#[test]
fn the_follow_up_repeats_the_models_output() {
    let stream = [chunk(&text("a"), ""), chunk(&text(""), ""), chunk(OURS, STOP)].concat();
    let (merge, _) = fed(&stream, 0);
    let refused = HiddenPair {
        call: (WIRE.functions.hidden_call)(&merge.report().hidden[0]),
        tool: "session_handoff".into(),
        call_id: String::new(),
        answer: HiddenResult::NOTHING_TO_HAND_OFF,
        place: InsertionPoint::Aside,
        ..pair("", 0)
    };
    let more = asked_again(&merge, refused);
    let contents: Value = serde_json::from_str(&format!("[{more}]")).unwrap();
    let ours: Value = serde_json::from_str(OURS).unwrap();
    assert_eq!(contents[0], json!({"role":"model","parts":[{"text":"a"}, ours]}));
    let result = &contents[1]["parts"][0]["functionResponse"];
    assert_eq!(result["name"], "session_handoff");
    let error = result["response"]["error"].as_str().unwrap();
    assert!(error.starts_with("Handoff refused"), "{error}");
}

#[test]
fn streamed_arguments_are_repeated_whole() {
    let (merge, _) = fed(&streamed_arguments(), 0);
    let call = (WIRE.functions.hidden_call)(&merge.report().hidden[0]);
    let known = HiddenPair {
        call: call.clone(),
        ..pair("", 0)
    };
    let more = asked_again(&merge, known);
    assert!(more.contains(&call), "{more}");
}

#[test]
fn replies_without_a_candidate_are_read_and_joined() {
    let body = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let report = read_reply(body).unwrap();
    assert_eq!(report.stop, StopReason::Refused);
    assert!(read_reply("{\"error\":{}}").is_none());
    let (body, then) = (body.into(), Vec::new());
    let leg = Leg { body, report, then };
    let joined: Value = serde_json::from_slice(&WIRE.join(&[leg], None, Ending::Own)).unwrap();
    assert_eq!(*parts(&joined), json!([{"text":""}]));
}

#[test]
fn grounding_of_the_last_leg_counts_parts_anew() {
    let leg = |body: &'static str| Leg {
        report: read_reply(body).unwrap(),
        body: body.into(),
        then: vec!["m".into()],
    };
    let one = leg(r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#);
    let two = leg(
        r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP","groundingMetadata":{"groundingSupports":[{"segment":{"endIndex":3}},{"segment":{"partIndex":1}},{"segment":{}}]}}]}"#,
    );
    let joined: Value = serde_json::from_slice(&WIRE.join(&[one, two], None, Ending::Own)).unwrap();
    let supports = &joined["candidates"][0]["groundingMetadata"]["groundingSupports"];
    let indices = [0, 1, 2].map(|i| supports[i]["segment"]["partIndex"].clone());
    assert_eq!(indices, [2, 3, 2]);
}

#[test]
fn a_stream_without_our_tool_stays_as_it_came() {
    let view = reading(r#"{"contents":[{"parts":[{"text":"go"}]}]}"#).view;
    let watch = ResponseWatch {
        hide: crate::tools::ToolNames::NONE,
        ..WATCH
    };
    let mut merge = StreamMerge::new(WIRE.machine(&view, watch), 1 << 20, false);
    let stream = [chunk("", ""), chunk(&text("a"), ""), chunk(OURS, STOP)].concat();
    let mut out = Vec::new();
    merge.feed(Bytes::from(stream.clone()), &mut out);
    merge.close(Ending::Own, &mut out);
    assert_eq!(out.concat(), stream.as_bytes());
    assert_eq!((merge.report().hidden.len(), merge.report().calls.len()), (0, 1));
}

#[test]
fn a_later_leg_that_fails_before_it_speaks_may_be_tried_again() {
    let error = "data: {\"error\":{\"code\":503}}\r\n\r\n";
    for (first, shown) in [(String::new(), false), (chunk(&text("a"), ""), true)] {
        let (mut merge, mut out) = fed(&chunk(OURS, STOP), 0);
        merge.say("mark", &mut out);
        merge.next_leg();
        merge.feed(Bytes::from(first + error), &mut out);
        assert_eq!(
            (merge.report().stop, merge.leg_ended()),
            (StopReason::Error, !shown)
        );
        assert_eq!(out.concat().ends_with(error.as_bytes()), shown);
    }
}
