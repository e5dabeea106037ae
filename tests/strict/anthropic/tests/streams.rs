//! The events of replies.

use pretty_assertions::assert_eq;

use super::*;
use crate::reply::Stop;

/// Events of a stream: names, and data without the parts that vary between runs.
fn events(body: Value, reply: &Reply) -> Vec<(String, Value)> {
    let usage = Usage {
        input: 3,
        cache_write: 0,
        cache_read: 9,
        output: 7,
    };
    let rendered = Anthropic.render(&received(body), reply, &usage);
    let whole: Vec<u8> = rendered.events.concat();
    let whole = String::from_utf8(whole).unwrap();
    let mut out = Vec::new();
    for event in whole.split_terminator("\n\n") {
        let (name, data) = event
            .strip_prefix("event: ")
            .unwrap()
            .split_once("\ndata: ")
            .unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        out.push((name.to_owned(), data));
    }
    out
}

#[test]
fn a_stream_has_the_events_of_the_api_in_order() {
    let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
    body["stream"] = json!(true);
    let reply = Reply::new()
        .thinking("Hm.")
        .say("Grüße 🦀!")
        .raw_call("read_file", "{\"p\":")
        .deltas(4);
    let events = events(body, &reply);
    let delta = |at: usize| events[at].1["delta"].clone();
    let names: Vec<&str> = events
        .iter()
        .map(|(name, _)| name.trim_start_matches("content_block_"))
        .collect();
    let thinking = ["start", "delta", "delta", "stop"];
    let text = ["start", "delta", "delta", "stop"];
    let tool = ["start", "delta", "delta", "delta", "stop"];
    let expected = [
        &["message_start", "ping"][..],
        &thinking,
        &text,
        &tool,
        &["message_delta", "message_stop"],
    ]
    .concat();
    assert_eq!(names, expected);
    assert_eq!(events[0].1["message"]["content"], json!([]));
    assert_eq!(events[0].1["message"]["stop_reason"], Value::Null);
    assert_eq!(
        events[2].1["content_block"],
        json!({"type": "thinking", "thinking": "", "signature": ""})
    );
    assert_eq!(delta(4)["type"], "signature_delta");
    assert_eq!(delta(7)["text"], "Grüß");
    assert_eq!(delta(8)["text"], "e 🦀!");
    assert_eq!(events[10].1["content_block"]["input"], json!({}));
    assert_eq!(delta(11), json!({"type": "input_json_delta", "partial_json": ""}));
    assert_eq!(delta(12)["partial_json"], "{\"p\"");
    let indexes: Vec<u64> = events
        .iter()
        .filter_map(|(_, data)| data["index"].as_u64())
        .collect();
    assert_eq!(indexes, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    let end = &events[15].1;
    assert_eq!(
        end["delta"],
        json!({"stop_reason": "tool_use", "stop_sequence": null, "stop_details": null})
    );
    assert_eq!(end["usage"]["cache_read_input_tokens"], 9);
    assert_eq!(end["usage"]["output_tokens"], 7);
}

#[test]
fn streamed_thinking_is_signed() {
    let mut body = request(json!([{"role": "user", "content": "Fix it."}]));
    let reply = Reply::new().thinking("Hm.").say("Done.");
    let content = answer(&body, &reply);
    let signature = content[0]["signature"].clone();
    body["stream"] = json!(true);
    let streamed = events(body, &reply);
    assert!(
        streamed
            .iter()
            .any(|(_, data)| data["delta"]["signature"] == signature)
    );
}

#[test]
fn stop_reasons_have_the_words_of_the_api() {
    let word = |stop: Stop| {
        let body = request(json!([{"role": "user", "content": "Fix it."}]));
        let rendered = Anthropic.render(&received(body), &Reply::text("x").stop(stop), &Usage::default());
        serde_json::from_slice::<Value>(&rendered.events[0]).unwrap()["stop_reason"].clone()
    };
    assert_eq!(word(Stop::Natural), "end_turn");
    assert_eq!(word(Stop::MaxTokens), "max_tokens");
    assert_eq!(word(Stop::Refusal), "refusal");
    assert_eq!(word(Stop::PauseTurn), "pause_turn");
    assert_eq!(word(Stop::Word("compaction".to_owned())), "compaction");
}
