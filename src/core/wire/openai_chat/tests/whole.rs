//! Complete replies, and requests that ask the model again.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::marker::{aside, gap};
use crate::wire::View;
use crate::wire::{Ending, Leg, LegOutput, LegReport, StopReason};

fn body(message: Value, reason: &str) -> Bytes {
    let reply = json!({"id":"r","object":"chat.completion","created":1,"model":"m",
        "choices":[{"index":0,"message":message,"finish_reason":reason}],
        "usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":null}});
    Bytes::from(reply.to_string())
}

fn leg(body: &Bytes, then: Option<&str>) -> Leg {
    Leg {
        body: body.clone(),
        report: reply(body).unwrap(),
        then: then.map(str::to_owned).into_iter().collect(),
    }
}

fn reply(body: &Bytes) -> Option<LegReport> {
    WIRE.reply(&View::empty(WIRE.id()), body, WATCH)
}

/// The messages of the request that asks the model again after this.
fn asked_again(spoken: &LegOutput) -> Value {
    let more = (WIRE.functions.ask_again)(spoken, &[aside()], crate::tools::ToolNames::HANDOFF);
    serde_json::from_str(&format!("[{}]", more.unwrap())).unwrap()
}

/// A stream of these deltas.
fn streamed<const N: usize>(deltas: [Value; N]) -> LegOutput {
    let frame = |delta| format!("data: {}\n\n", json!({"choices":[{"index":0,"delta":delta}]}));
    LegOutput::Stream(deltas.map(|delta| Bytes::from(frame(delta))).to_vec())
}

fn joined(legs: &[Leg], ending: Ending) -> Value {
    serde_json::from_slice(&WIRE.join(legs, None, ending)).unwrap()
}

fn ours() -> Value {
    json!({"id":"h","type":"function","function":{"name":"session_handoff","arguments":"{\"prompt\":\"\"}"}})
}

fn theirs() -> Value {
    json!({"id":"c","type":"function","function":{"name":"read","arguments":"{}"}})
}

#[test]
fn a_reply_is_read() {
    let message = json!({"role":"assistant","content":null,"tool_calls":[ours(), theirs()]});
    let report = reply(&body(message, "tool_calls")).unwrap();
    assert_eq!(
        (report.stop, report.parts, report.ended),
        (StopReason::Calls, 1, true)
    );
    assert_eq!(report.calls, [("c".to_owned(), 0)]);
    assert_eq!((report.hidden[0].after, report.hidden[0].complete), (0, true));
    assert_eq!((report.usage.input, report.usage.output), (10, 4));
    for other in ["{\"error\":{}}", "oops"] {
        assert!(reply(&Bytes::from_static(other.as_bytes())).is_none(), "{other}");
    }
}

#[test]
fn our_call_goes_and_the_rest_stays() {
    let calling = |calls: &[Value]| json!({"role":"assistant","content":null,"tool_calls":calls});
    let mixed = body(calling(&[ours(), theirs()]), "tool_calls");
    let out = joined(&[leg(&mixed, None)], Ending::Own);
    assert_eq!(out["choices"][0]["message"], calling(&[theirs()]));
    for content in [json!({"content":null}), json!({})] {
        let mut message = content;
        message["tool_calls"] = json!([ours()]);
        let out = joined(&[leg(&body(message, "tool_calls"), None)], Ending::WithoutCall);
        assert_eq!(out["choices"][0]["message"], json!({"content":""}));
        assert_eq!(out["choices"][0]["finish_reason"], "stop");
    }
    let plain = body(json!({"role":"assistant","content":"é\u{1}"}), "stop");
    assert_eq!(WIRE.join(&[leg(&plain, None)], None, Ending::Own), plain);
}

#[test]
fn a_reply_ends_with_its_sentinel() {
    let said = |text: &str| json!({"role":"assistant","content":text});
    let mut first = said("a");
    first["tool_calls"] = json!([ours()]);
    let legs = [leg(&body(first, "tool_calls"), Some("\n\nS\n\n"))];
    let out = joined(&legs, Ending::Lost { next_input: 5 });
    assert_eq!(out["choices"][0]["message"], said("a\n\nS\n\n"));
    assert_eq!(out["choices"][0]["finish_reason"], "stop");
    assert_eq!(
        out["usage"],
        json!({"prompt_tokens":5,"completion_tokens":4,"total_tokens":9})
    );
    let second = leg(&body(json!({"role":"assistant","content":null}), "stop"), None);
    let out: Value = serde_json::from_slice(&WIRE.join(&[second], Some("S"), Ending::Own)).unwrap();
    assert_eq!(out["choices"][0]["message"], said("S"));
}

#[test]
fn lists_and_lookalikes_join() {
    let first = body(
        json!({"role":"assistant","content":[{"type":"text","text":"[[handoff-aside:x"}],"tool_calls":[ours()]}),
        "tool_calls",
    );
    let second = body(json!({"role":"assistant","content":"two"}), "stop");
    let out = joined(&[leg(&first, Some("S")), leg(&second, None)], Ending::Own);
    let text = |t: &str| json!({"type":"text","text":t});
    assert_eq!(
        out["choices"][0]["message"]["content"],
        json!([text("[[handoff-aside\\:x"), text("S"), text("two")])
    );
    assert_eq!(out["usage"]["completion_tokens"], 8);
    assert_eq!(reply(&first).unwrap().escaped_sentinels, 1);
}

/// The follow-up within a request and the restored pair on the next request give the model the same prefix.
#[test]
fn asking_again_and_putting_back_agree() {
    for words in ["", "text \n\n[[handoff-resume:x", " "] {
        let stream = streamed([
            json!({"role":"assistant","content":""}),
            json!({"content":words}),
            json!({"tool_calls":[ours()]}),
        ]);
        let message =
            json!({"role":"assistant","content":words,"refusal":null,"annotations":[],"tool_calls":[ours()]});
        let more = asked_again(&stream);
        assert_eq!(more, asked_again(&LegOutput::Reply(body(message, "tool_calls"))));
        let shown = words.replace("resume:", "resume\\:");
        let shown = format!("{shown}{}then", gap::spaced(&aside::line(ID)));
        let sent = upstream(&json!([{"role":"assistant","content":shown}]), &[aside()]);
        assert_eq!(sent.as_array().unwrap()[..2], more.as_array().unwrap()[..]);
    }
}

#[test]
fn reasoning_is_repeated() {
    let more = asked_again(&streamed([
        json!({"role":"assistant","content":null,"reasoning_content":"th"}),
        json!({"reasoning_content":"ink","reasoning_details":[{"data":"a"}]}),
        json!({"reasoning_details":[{"data":"b"}],"refusal":null}),
        json!({"tool_calls":[ours()]}),
    ]));
    assert_eq!(
        more[0],
        json!({"role":"assistant","content":null,"reasoning_content":"think",
               "reasoning_details":[{"data":"a"},{"data":"b"}],"tool_calls":[ours()]})
    );
}

#[test]
fn a_text_that_ends_between_two_surrogates_goes_back_to_the_model() {
    let of = |spoken: &LegOutput| asked_again(spoken)[0]["content"].take();
    let reply = r#"{"choices":[{"message":{"role":"assistant","content":"Hi \ud83d"}}]}"#;
    assert_eq!(
        of(&LegOutput::Reply(Bytes::from_static(reply.as_bytes()))),
        "Hi \u{fffd}"
    );
    let frames = ["Hi \\ud83d", " there"].map(|text| {
        let chunk =
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        Bytes::from(chunk)
    });
    assert_eq!(of(&LegOutput::Stream(frames.to_vec())), "Hi \u{fffd} there");
}
