use pretty_assertions::assert_eq;

use super::sdk::*;
use super::*;
use crate::wire::{Ending, ResponseWatch, StopReason};

fn search() -> Vec<Value> {
    let item = json!({"id": "ws_1", "type": "web_search_call", "status": "completed"});
    let mut all = plain_item(0, item);
    all.insert(
        1,
        json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}),
    );
    all
}

fn custom(index: u64) -> Vec<Value> {
    let item = json!({"id": "ctc_1", "type": "custom_tool_call", "status": "completed", "call_id": "cc",
        "name": "exec", "input": "ls"});
    let mut all = plain_item(index, item);
    let input = json!({"type": "response.custom_tool_call_input.delta", "output_index": index, "item_id": "ctc_1",
        "delta": "ls"});
    all.insert(1, input);
    all
}

#[test]
fn items_of_every_kind_go_by_and_two_hidden_calls_do_not() {
    let items = [
        search(),
        call_item(1, hidden("fc_h1", "h1")),
        plain_item(2, thought("rs_1")),
        custom(3),
        call_item(4, hidden("fc_h2", "h2")),
        text_item(5, "msg_1", &["a", "b"]),
    ];
    let mut run = SdkRun::new(&hi());
    let report = run.feed(&leg("resp_1", &items, completed(5)));
    assert_eq!(report.calls, [("cc".to_owned(), 2)]);
    assert_eq!(
        (report.parts, report.stop, report.ended),
        (4, StopReason::Calls, true)
    );
    let of = |n: usize| {
        (
            report.hidden[n].id.clone(),
            report.hidden[n].after,
            report.hidden[n].complete,
        )
    };
    assert_eq!((of(0), of(1)), (("h1".into(), 1, true), ("h2".into(), 3, true)));
    assert_eq!(report.hidden[0].arguments, "{\"prompt\":\"p\"}");
    let back: Value = serde_json::from_str(&(WIRE.functions.hidden_call)(&report.hidden[0])).unwrap();
    assert_eq!(back, hidden("fc_h1", "h1"));
    let seen = run.close(Ending::Own);
    let ids: Vec<_> = seen.items.iter().map(|i| i["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["ws_1", "rs_1", "ctc_1", "msg_1"]);
    assert_eq!(seen.end["output"], Value::from(seen.items));
    assert_eq!(seen.end["usage"]["output_tokens"], 5);

    let (stream, whole) = (leg("resp_1", &items, completed(5)), all_of(&items, usize::MAX));
    for cut in (0..stream.len()).step_by(5) {
        assert_eq!(all_of(&items, cut), whole, "cut at {cut}");
    }
}

/// Returns the agent's bytes for a leg of these items, with the stream split once.
fn all_of(items: &[Vec<Value>], cut: usize) -> Vec<u8> {
    let stream = leg("resp_1", items, completed(5));
    let (first, second) = stream.split_at(cut.min(stream.len()));
    let mut run = SdkRun::new(&hi());
    run.merge
        .feed(Bytes::copy_from_slice(first.as_bytes()), &mut run.out);
    run.feed(second);
    run.merge.close(Ending::Own, &mut run.out);
    run.out.concat()
}

#[test]
fn items_that_stream_side_by_side_keep_their_places() {
    let (a, b) = (text_item(0, "msg_1", &["a"]), call_item(1, hidden("fc_h", "h")));
    let c = call_item(
        2,
        called("fc_1", "c")
            .to_string()
            .replace("\"{}\"", "\"{ }\"")
            .parse()
            .unwrap(),
    );
    let mixed: Vec<Value> = (0..6)
        .flat_map(|i| [&a, &b, &c].into_iter().filter_map(move |e| e.get(i).cloned()))
        .collect();
    let done = json!({"status": "completed", "output": [a.last().unwrap()["item"], b.last().unwrap()["item"], c.last().unwrap()["item"]]});
    let mut run = SdkRun::new(&hi());
    let report = run.feed(&leg("resp_1", &[mixed], done));
    assert_eq!(report.calls, [("c".to_owned(), 1)]);
    let seen = run.close(Ending::Own);
    assert_eq!(seen.items.len(), 2);
    assert_eq!(seen.end["output"], Value::from(seen.items));
}

#[test]
fn model_text_like_ours_is_broken_up_alike_everywhere() {
    let line = shown_sentinel();
    let wanted = line.replace("resume:", "resume\\:");
    for cut in 0..=line.len() {
        let (first, second) = line.split_at(cut);
        let items = [
            text_item(0, "msg_1", &[first, second]),
            text_item(1, "msg_2", &["[[handoff-resume", "x:"]),
        ];
        let mut run = SdkRun::new(&hi());
        assert_eq!(
            run.feed(&leg("resp_1", &items, completed(5))).escaped_sentinels,
            1,
            "cut at {cut}"
        );
        let seen = run.close(Ending::Own);
        assert_eq!(seen.texts, [wanted.clone(), "[[handoff-resumex:".to_owned()]);
        assert_eq!(seen.end["output"], Value::from(seen.items));
    }
}

#[test]
fn nothing_to_hide_is_nothing_changed() {
    let agents_own = ResponseWatch {
        hide: crate::tools::ToolNames::NONE,
        ..WATCH
    };
    let items = [text_item(0, "msg_1", &["a"]), call_item(1, hidden("fc_h", "h"))];
    let stream = leg("resp_1", &items, completed(5));
    let mut run = SdkRun::watching(&hi(), agents_own);
    let report = run.feed(&stream);
    assert_eq!(report.calls, [("h".to_owned(), 1)]);
    assert_eq!(run.out.concat(), stream.as_bytes());
    assert_eq!(run.out.len(), 1, "one slice of what came in");
}

#[test]
fn ends_are_distinguished() {
    let stop = |end: Value| {
        SdkRun::new(&hi())
            .feed(&leg("resp_1", &[text_item(0, "msg_1", &["a"])], end))
            .stop
    };
    assert_eq!(stop(completed(1)), StopReason::Done);
    let incomplete = |reason: &str| json!({"status": "incomplete", "incomplete_details": {"reason": reason}});
    assert_eq!(stop(incomplete("max_output_tokens")), StopReason::Truncated);
    assert_eq!(stop(incomplete("content_filter")), StopReason::Refused);
    assert_eq!(stop(incomplete("steered")), StopReason::Paused);
    assert_eq!(
        stop(json!({"status": "failed", "error": {"code": "server_error", "message": ""}})),
        StopReason::Error
    );

    let error = frames(vec![json!({"type": "error", "code": "x", "message": "y"})]);
    let mut run = SdkRun::new(&hi());
    let report = run.feed(&error);
    assert_eq!((report.stop, report.ended), (StopReason::Error, false));
    assert_eq!(run.out.concat(), error.as_bytes());
}

#[test]
fn a_call_that_was_cut_off_is_hidden_and_not_complete() {
    let mut half = call_item(0, hidden("fc_h", "h"));
    half.truncate(2);
    let end = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [{"type": "reasoning"}]});
    let mut run = SdkRun::new(&hi());
    let report = run.feed(&leg("resp_1", &[half], end));
    assert_eq!(
        (report.hidden[0].complete, report.stop),
        (false, StopReason::Truncated)
    );
    let seen = run.close(Ending::Own);
    assert_eq!((seen.items.len(), &seen.end["output"]), (0, &json!([])));
    assert_eq!(seen.end["status"], "incomplete");
}

/// An item follows the call in both cases. Only a call right after reasoning is bound to it.
#[test]
fn a_call_right_after_reasoning_is_bound_to_it() {
    for (before, bound) in [
        (plain_item(0, thought("rs_1")), Some("item:rs_1")),
        (text_item(0, "msg_1", &["a"]), None),
    ] {
        let items = [
            before,
            call_item(1, hidden("fc_h", "h")),
            text_item(2, "msg_2", &["b"]),
        ];
        let report = SdkRun::new(&hi()).feed(&leg("resp_1", &items, completed(1)));
        assert_eq!(report.hidden[0].bound_to.as_deref(), bound);
        assert_eq!((report.hidden[0].after, report.parts), (1, 2));
    }
}

#[test]
fn arguments_over_the_limit_are_not_kept() {
    let mut long = hidden("fc_h", "h");
    long["arguments"] = json!({"prompt": "x".repeat(1000)}).to_string().into();
    let report = SdkRun::new(&hi()).feed(&leg("resp_1", &[call_item(0, long)], completed(1)));
    assert!(report.hidden[0].oversize);
    assert_eq!(report.hidden[0].raw, None);
}

#[test]
fn a_server_that_streams_no_items_is_read_at_its_end() {
    let end = json!({"status": "completed", "output": [message("msg_1", "a"), hidden("fc_h", "h")]});
    let mut run = SdkRun::new(&hi());
    let report = run.feed(&leg("resp_1", &[], end));
    assert_eq!((report.hidden.len(), report.parts), (1, 1));
    assert_eq!(
        run.close(Ending::Own).end["output"],
        json!([message("msg_1", "a")])
    );
}

#[test]
fn a_keepalive_is_an_event_once_the_response_has_begun() {
    let mut run = SdkRun::new(&hi());
    run.merge.keepalive(&mut run.out);
    assert_eq!(run.out.concat(), b": keepalive\n\n");
    let stream = leg("resp_1", &[text_item(0, "msg_1", &["a"])], completed(5));
    let (first, second) = stream.split_at(stream.find("event: response.output_item.added").unwrap());
    run.merge
        .feed(Bytes::copy_from_slice(first.as_bytes()), &mut run.out);
    run.merge.keepalive(&mut run.out);
    run.feed(second);
    let seen = run.close(Ending::Own);
    assert_eq!(seen.kinds[2], "keepalive");
    assert_eq!(seen.end["output"], Value::from(seen.items));
}

#[test]
fn buffered_ends_wait_and_are_unchanged() {
    let stream = leg("resp_1", &[text_item(0, "msg_1", &["a"])], completed(5))
        .replace("{\"name\":\"session_handoff\",\"type\":\"function\"},", "")
        .replace("{\"type\":\"function\",\"name\":\"session_handoff\"},", "");
    let mut run = SdkRun::new(&hi());
    run.merge.machine.hold_ends();
    run.feed(&stream);
    assert_lacks(
        &String::from_utf8(run.out.concat()).unwrap(),
        "response.completed",
    );
    run.merge.close(Ending::Own, &mut run.out);
    assert_eq!(run.out.concat(), stream.as_bytes());
}
