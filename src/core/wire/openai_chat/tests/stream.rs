//! Calls in the streams of many servers, each at every split point.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::legs::*;
use crate::wire::{Ending, StopReason};

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
                (leg, AfterLeg::Say("S")),
                (
                    [
                        &delta(json!({"role":"assistant","content":"two"})),
                        &finish("stop"),
                        DONE,
                    ]
                    .concat(),
                    AfterLeg::Close(Ending::Own),
                ),
            ],
        );
        assert_eq!(report.stop, StopReason::Done);
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
        let first_frames = [role(), call(start.clone())].concat();
        merge.feed(first_frames.into(), &mut out);
        assert_eq!(message(&events(&out.concat()))["calls"], json!([]));
        let (shown, report) = alone(USAGE, leg.clone());
        assert_eq!(message(&shown), message(&events(leg.as_bytes())));
        assert_eq!((report.calls, report.parts), (vec![("c".into(), 0)], 2));
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
    let (shown, _) = run(
        USAGE,
        &[(one, AfterLeg::Say("S")), (two, AfterLeg::Close(Ending::Own))],
    );
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
    // Everything in the chunk that ends the leg.
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
