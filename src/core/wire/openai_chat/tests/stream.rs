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
        let first = billed_leg(&deltas, "tool_calls", (9, 1));
        let two = delta(json!({"role":"assistant","content":"two"}));
        let second = [&two, &finish("stop"), DONE].concat();
        let legs = [
            (first, AfterLeg::Say("S")),
            (second, AfterLeg::Close(Ending::Own)),
        ];
        let (events, report) = run(USAGE, &legs);
        assert_eq!(report.stop, StopReason::Done);
        let whole = json!({"role":"assistant","content":"Stwo","calls":[],"reason":"stop"});
        assert_eq!(message(&events), whole);
        let (_, report) = alone(USAGE, leg(&deltas, "tool_calls"));
        let call = &report.hidden[0];
        assert_eq!((call.id.as_str(), call.complete, call.after), ("h", true, 0));
        assert_eq!(call.arguments, r#"{"prompt":"p"}"#);
    }
}

#[test]
fn a_call_whose_name_could_be_ours_waits_no_longer_than_that() {
    let start = json!({"index":0,"id":"c","type":"function","function":{"name":"session"}});
    for rest in [
        call(json!({"index":0,"function":{"name":"_list"}})),
        call(json!({"index":0,"function":{"arguments":"{}"}})),
        String::new(),
    ] {
        let text = delta(json!({"content":"text flows"}));
        let leg = leg(&[call(start.clone()), text, rest].concat(), "tool_calls");
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
    let again = json!({"index":2,"id":"i","function":{"name":"session_handoff","arguments":"{}"}});
    let both = delta(json!({"tool_calls":[again, read_file(3, "b")]}));
    let calls = [call(ours("{}")), call(read_file(1, "a")), both].concat();
    let one = billed_leg(&calls, "tool_calls", (5, 5));
    let (shown, report) = alone(USAGE, one.clone());
    assert_eq!(
        message(&shown)["calls"],
        json!([["a", "read", "{}"], ["b", "read", "{}"]])
    );
    assert_eq!(report.calls, [("a".into(), 0), ("b".into(), 1)]);
    assert_eq!(report.hidden.iter().map(|h| h.after).collect::<Vec<_>>(), [0, 1]);
    let two = leg(&call(read_file(0, "c")), "tool_calls");
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
        let calls = [ours("{}"), a, b].map(call).concat();
        let (shown, report) = alone(USAGE, leg(&calls, "tool_calls"));
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
