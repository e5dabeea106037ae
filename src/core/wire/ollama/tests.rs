//! Unit tests of the whole wire, for cases that the golden files do not cover.

use bytes::Bytes;
use serde_json::{Value, json};

use super::WIRE;
use crate::marker::aside;
use crate::record::WireId;
use crate::record::{HiddenPair, HiddenResult, InsertionPoint};
use crate::response::{StreamMerge, Verdict, VerdictInput, judge};
use crate::rewrite::untooled;
use crate::rewrite::{Cut, RequestReading, Rewrite, rewrite};
use crate::text::splice;
use crate::wire::{Ending, Operation, ResponseWatch, StopReason};

const ID: uuid::Uuid = uuid::Uuid::from_u128(7);
const OURS: &str = r#"{"function":{"name":"session_handoff","arguments":{"prompt":"p"}}}"#;
const F: &str = r#"{"function":{"name":"f","arguments":{"a":1}}}"#;

fn reading(body: &str) -> RequestReading {
    RequestReading::new(
        &WIRE,
        &Bytes::copy_from_slice(body.as_bytes()),
        Operation::Generate,
    )
    .unwrap()
}

fn pair(place: InsertionPoint) -> HiddenPair {
    HiddenPair {
        id: ID,
        principal: "local".into(),
        conversation: "c".into(),
        wire: WireId::Ollama,
        tool: "session_handoff".into(),
        call_id: String::new(),
        call: OURS.into(),
        answer: HiddenResult::QUEUED,
        place,
        pending: None,
        created_ms: 0,
    }
}

fn rewritten(body: &str, pair: HiddenPair) -> Value {
    let what = Rewrite {
        pairs: &[pair],
        ..Rewrite::default()
    };
    let done = rewrite(&reading(body), &what);
    assert_eq!(done.placed.len(), 1);
    serde_json::from_slice(&splice::flat(done.rope)).unwrap()
}

fn line(message: &str) -> String {
    format!(
        "{{\"model\":\"m\",\"created_at\":\"t\",\"message\":{{\"role\":\"assistant\",{message}}},\"done\":false}}\n"
    )
}

fn done(message: &str, reason: &str) -> String {
    format!(
        "{{\"model\":\"m\",\"message\":{{\"role\":\"assistant\",{message}}},\"done\":true,\"done_reason\":\"{reason}\",\"prompt_eval_count\":9,\"eval_count\":2}}\n"
    )
}

fn fed(stream: &str, cut: usize) -> (StreamMerge, Vec<Bytes>) {
    let view = reading(r#"{"messages":[{"role":"user","content":"go"}]}"#).view;
    let watch = ResponseWatch {
        hide: crate::tools::ToolNames::HANDOFF,
        buffered_bytes: 1 << 20,
    };
    let mut merge = StreamMerge::new(WIRE.machine(&view, watch), 1 << 20, true);
    let mut out = Vec::new();
    let bytes = Bytes::copy_from_slice(stream.as_bytes());
    merge.feed(bytes.slice(..cut), &mut out);
    merge.feed(bytes.slice(cut..), &mut out);
    merge.finish_leg(&mut out);
    (merge, out)
}

fn values(out: &[Bytes]) -> Vec<Value> {
    let all = String::from_utf8(out.concat()).unwrap();
    assert!(all.ends_with('\n') && !all.contains("\n\n"));
    all.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn facts_come_from_the_body() {
    let facts = |rest: &str| {
        let read = reading(&format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"go"}}],"tools":[{{"type":"function","function":{{"name":"f"}}}}]{rest}}}"#
        ));
        (untooled::unfit(&read.view).is_none(), read.view.facts.stream)
    };
    assert_eq!(facts(""), (true, true));
    assert_eq!(
        facts(r#","stream":false,"format":"","options":{"num_predict":-1}"#),
        (true, false)
    );
    assert_eq!(facts(r#","format":"json""#), (false, true));
    assert_eq!(facts(r#","format":{"type":"object"}"#), (false, true));
    assert_eq!(facts(r#","options":{"num_predict":10}"#), (false, true));
}

#[test]
fn a_pair_without_ids_stands_beside_its_sibling() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":"","tool_calls":[{F},{F}]}},{{"role":"tool","content":"r"}}]}}"#
    );
    let keys = reading(&body).call_names();
    assert_eq!(keys.len(), 2);
    let upstream = rewritten(
        &body,
        pair(InsertionPoint::Beside {
            sibling: keys[1].clone(),
            offset: -1,
        }),
    );
    let [f, ours]: [Value; 2] = [F, OURS].map(|c| serde_json::from_str(c).unwrap());
    assert_eq!(upstream["messages"][1]["tool_calls"], json!([f, ours, f]));
    assert_eq!(
        upstream["messages"][2],
        json!({"role":"tool","content":HiddenResult::QUEUED.text(),"tool_name":"session_handoff"})
    );
    assert_eq!(upstream["messages"][3]["content"], "r");
}

#[test]
fn an_aside_splits_its_message() {
    let mark = aside::line(ID);
    let ours: Value = serde_json::from_str(OURS).unwrap();
    for (content, more, messages) in [
        (
            format!(r"a\n\n{mark}\n\nb"),
            "",
            json!([{"role":"assistant","content":"b"}]),
        ),
        (format!(r"a\n\n{mark}\n\n"), "", json!([])),
        (
            format!(r"a\n\n{mark}"),
            r#","tool_calls":[{"function":{"name":"f"}}]"#,
            json!([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]}]),
        ),
    ] {
        let body = format!(r#"{{"messages":[{{"role":"assistant","content":"{content}"{more}}}]}}"#);
        let upstream = rewritten(&body, pair(InsertionPoint::Aside));
        let all = upstream["messages"].as_array().unwrap();
        assert_eq!(
            all[0],
            json!({"role":"assistant","content":"a","tool_calls":[ours]})
        );
        assert_eq!(all[1]["role"], "tool");
        assert_eq!(Value::from(all[2..].to_vec()), messages);
    }
}

#[test]
fn what_the_last_line_says_beside_the_call_is_shown_before_the_sentinel() {
    let last = done(&format!(r#""content":"said","tool_calls":[{OURS}]"#), "stop");
    for stream in [last.clone(), last.trim_end().to_owned()] {
        for cut in 0..stream.len() {
            let (mut merge, mut out) = fed(&stream, cut);
            let now = VerdictInput {
                messages: 2,
                legs: 1,
                max_chain: 8,
                ..VerdictInput::default()
            };
            assert!(matches!(judge(merge.report(), &now), Verdict::Fire { .. }));
            merge.say("mark", &mut out);
            merge.next_leg();
            merge.keepalive(&mut out);
            merge.close(Ending::Lost { next_input: 40 }, &mut out);
            let values = values(&out);
            let texts: Vec<_> = values.iter().map(|v| v["message"]["content"].clone()).collect();
            assert_eq!(texts, ["said", "mark", "", ""]);
            assert!(values[0]["message"].get("tool_calls").is_none());
            assert_eq!(
                (
                    &values[3]["done"],
                    &values[3]["prompt_eval_count"],
                    &values[3]["eval_count"]
                ),
                (&json!(true), &json!(40), &json!(2))
            );
        }
    }
}

#[test]
fn a_line_of_our_call_alone_goes_and_others_stay_as_they_came() {
    let stream = [
        line(r#""content":"a""#),
        line(&format!(r#""content":"","tool_calls":[{OURS}]"#)),
        line(&format!(r#""content":"b","tool_calls":[{OURS}]"#)),
        done(r#""content":"""#, "length"),
    ];
    let (mut merge, mut out) = fed(&stream.concat(), 0);
    assert_eq!(
        (merge.report().hidden.len(), merge.report().stop),
        (2, StopReason::Truncated)
    );
    merge.close(Ending::Own, &mut out);
    let wanted = [stream[0].clone(), line(r#""content":"b""#), stream[3].clone()].concat();
    assert_eq!(out.concat(), wanted.into_bytes());
}

#[test]
fn half_a_line_after_a_hidden_call_is_dropped() {
    let shown = line(r#""content":"a""#);
    let stream = [
        &*shown,
        &line(&format!(r#""content":"","tool_calls":[{OURS}]"#)),
        "{\"mo",
    ]
    .concat();
    for cut in 0..stream.len() {
        assert_eq!(fed(&stream, cut).1.concat(), shown.as_bytes(), "cut at {cut}");
    }
}

#[test]
fn errors_go_by_and_a_models_sentinel_is_broken_up() {
    let error = "{\"error\":\"out of memory\"}\n";
    let (merge, out) = fed(error, 3);
    assert_eq!(
        (merge.report().stop, merge.leg_ended()),
        (StopReason::Error, false)
    );
    assert_eq!(out.concat(), error.as_bytes());
    let stream = [line(r#""content":"[[handoff-re""#), line(r#""content":"sume:x""#)].concat();
    let (merge, out) = fed(&stream, 0);
    assert_eq!(merge.report().escaped_sentinels, 1);
    assert_eq!(values(&out)[1]["message"]["content"], r"sume\:x");
}

#[test]
fn the_follow_up_repeats_the_models_output() {
    let stream = [
        line(r#""content":"","thinking":"hm""#),
        line(r#""content":"a""#),
        line(&format!(r#""content":"","tool_calls":[{OURS}]"#)),
        done(r#""content":"""#, "stop"),
    ];
    let (merge, _) = fed(&stream.concat(), 0);
    let more = (WIRE.functions.ask_again)(
        &merge.spoken().unwrap(),
        &[pair(InsertionPoint::Aside)],
        crate::tools::ToolNames::HANDOFF,
    )
    .unwrap();
    let follow_up: Value = serde_json::from_str(&format!("[{more}]")).unwrap();
    let ours: Value = serde_json::from_str(OURS).unwrap();
    assert_eq!(
        follow_up[0],
        json!({"role":"assistant","content":"a","thinking":"hm","tool_calls":[ours]})
    );
    assert_eq!(follow_up[1]["role"], "tool");
}

#[test]
fn a_tools_message_that_has_calls_too_goes_as_a_whole() {
    let sentinel = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\nGo on.\\n[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]";
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":"{sentinel}\n\nFresh."}},{{"role":"tool","content":"lost","tool_calls":[{F},{F}]}},{{"role":"user","content":"b"}}]}}"#
    );
    let reading = reading(&body);
    let candidates = reading.candidates();
    let head = (WIRE.functions.carry_over)(&[], "Go on.");
    let what = Rewrite {
        cut: Cut::At {
            candidate: &candidates[0],
            prompt: Some("Go on."),
            head: &head,
        },
        ..Rewrite::default()
    };
    let sent: Value = serde_json::from_slice(&splice::flat(rewrite(&reading, &what).rope)).unwrap();
    let roles: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{sent}");
}

#[test]
fn calls_in_front_of_a_text_count_from_within_the_text_on() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[{F}],"content":"before after"}},{{"role":"tool","content":"r"}}]}}"#
    );
    let reading = reading(&body);
    let view = &reading.view;
    let names = view.call_names(1, &mut crate::wire::CallMemo::default());
    let siblings = [names[0].as_str()];
    let inside = body.find("after").unwrap();
    assert_eq!(view.find_calls(&siblings, inside), view.find_calls(&siblings, 0));
    assert!(view.find_calls(&siblings, inside)[0].is_some());
    assert_eq!(view.settled(&siblings, inside), view.settled(&siblings, 0));
}
