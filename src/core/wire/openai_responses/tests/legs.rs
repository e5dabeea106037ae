use pretty_assertions::assert_eq;

use super::sdk::*;
use super::*;
use crate::wire::{Ending, StopReason};

fn handed_over(request: &Value) -> SdkRun {
    let mut run = SdkRun::new(request);
    run.feed(&leg(
        "resp_1",
        &[text_item(0, "msg_1", &["a"]), call_item(1, hidden("fc_h", "h"))],
        completed(5),
    ));
    run.say(&shown_sentinel());
    run
}

#[test]
fn three_legs_are_one_response() {
    let mut run = handed_over(&hi());
    for (id, item) in [("resp_2", "msg_2"), ("resp_3", "msg_3")] {
        run.merge.next_leg();
        let items = [text_item(0, item, &["b"]), call_item(1, hidden("fc_h", "h"))];
        let report = run.feed(&leg(id, &items, completed(7)));
        assert_eq!((&*report.id, report.hidden.len(), report.parts), (id, 1, 1));
    }
    let seen = run.close(Ending::WithoutCall);
    let ids: Vec<_> = seen.items.iter().map(|i| i["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["msg_1", ITEM, "msg_2", "msg_3"]);
    assert_eq!(seen.end["output"], Value::from(seen.items));
    assert_eq!(seen.end["usage"]["output_tokens"], 19);
    assert_eq!(seen.end["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
    assert_eq!(seen.end["usage"]["total_tokens"], 119);
}

#[test]
fn a_later_leg_that_fails_says_so_under_the_first_ones_name() {
    let mut run = handed_over(&hi());
    run.merge.next_leg();
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": "m"}});
    let report = run.feed(&leg("resp_2", &[text_item(0, "msg_2", &["b"])], failed));
    assert_eq!((report.stop, report.ended), (StopReason::Error, true));
    let seen = run.close(Ending::Own);
    assert_eq!(seen.end["error"]["message"], "m");
    assert_eq!(seen.end["output"].as_array().unwrap().len(), 3);
}

#[test]
fn an_error_before_a_later_leg_shows_anything_is_kept_back() {
    let mut run = handed_over(&hi());
    run.merge.next_leg();
    let sent = run.out.len();
    let report = run.feed(&frames(vec![
        json!({"type": "error", "code": "x", "message": "y"}),
    ]));
    assert_eq!(
        (report.stop, report.ended, run.out.len()),
        (StopReason::Error, true, sent)
    );
    run.merge.next_leg();
    run.feed(&leg("resp_3", &[text_item(0, "msg_3", &["c"])], completed(1)));
    assert_eq!(run.close(Ending::Own).items.len(), 3);
}

#[test]
fn a_response_that_ends_with_its_sentinel_is_completed() {
    for ending in [Ending::Stopped { next_input: 9 }, Ending::Lost { next_input: 9 }] {
        let mut run = handed_over(&hi());
        if matches!(ending, Ending::Lost { .. }) {
            run.merge.next_leg();
        }
        let seen = run.close(ending);
        assert_eq!(seen.kinds.last().unwrap(), "response.completed");
        assert_eq!(
            (&seen.end["status"], &seen.end["error"]),
            (&json!("completed"), &Value::Null)
        );
        assert_eq!(seen.end["output"], Value::from(seen.items));
        assert_eq!(seen.end["usage"]["input_tokens"], 9);
        assert_eq!(seen.end["usage"]["output_tokens"], 5);
        assert_eq!(seen.end["usage"]["total_tokens"], 14);
    }
}

#[test]
fn a_repeated_request_opens_with_its_sentinel() {
    let mut run = SdkRun::new(&hi());
    run.merge.open_with(shown_sentinel());
    run.feed(&leg("resp_2", &[text_item(0, "msg_2", &["b"])], completed(5)));
    let seen = run.close(Ending::Own);
    assert_eq!(
        seen.kinds[..3],
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added"
        ]
    );
    assert_eq!(seen.items[0], sentinel_item("completed"));
    assert_eq!(seen.end["output"], Value::from(seen.items));

    let mut run = SdkRun::new(&hi());
    run.merge.open_with(shown_sentinel());
    let seen = run.close(Ending::Lost { next_input: 9 });
    assert_eq!(seen.items, [sentinel_item("completed")]);
    assert_eq!(seen.end["created_at"], json!(0x0199_a3c2_7d1e_u64 / 1000));
}

fn sentinel_item(status: &str) -> Value {
    json!({"id": ITEM, "type": "message", "status": status, "role": "assistant", "content": [
        {"type": "output_text", "annotations": [], "logprobs": [], "text": shown_sentinel()}]})
}

#[test]
fn an_aside_is_an_item_and_the_follow_up_continues_the_same_response() {
    let mut run = SdkRun::new(&hi());
    let mut stream = leg(
        "resp_1",
        &[plain_item(0, thought("rs_1")), call_item(1, hidden("fc_h", "h"))],
        completed(5),
    );
    stream += "data: [DONE]\n\n";
    run.feed(&stream);
    let pairs = [pair("h", InsertionPoint::Aside)];
    let more = (WIRE.functions.ask_again)(
        &run.merge.spoken().unwrap(),
        &pairs,
        crate::tools::ToolNames::HANDOFF,
    )
    .unwrap();
    let more: Value = serde_json::from_str(&format!("[{more}]")).unwrap();
    assert_eq!(more, json!([thought("rs_1"), hidden("fc_h", "h"), result("h")]));
    run.say(&format!("[[handoff-aside:{ID}]]"));
    run.merge.next_leg();
    run.feed(&(leg("resp_2", &[text_item(0, "msg_2", &["b"])], completed(5)) + "data: [DONE]\n\n"));
    assert_eq!(run.out.concat().windows(6).filter(|w| w == b"[DONE]").count(), 0);
    let mut out = Vec::new();
    run.merge.close(Ending::Own, &mut out);
    run.out.extend(out);
    let all = run.out.concat();
    assert!(all.ends_with(b"data: [DONE]\n\n"));
    let seen = check(&all);
    assert_eq!(seen.items[1]["id"], ASIDE);
    assert_eq!(seen.end["output"], Value::from(seen.items));
}

#[test]
fn the_agent_sees_the_response_it_went_on_from() {
    let mut request = hi();
    request["previous_response_id"] = "resp_agents".into();
    let mut stream = leg("resp_1", &[text_item(0, "msg_1", &["a"])], completed(5));
    stream = stream.replace(
        "\"previous_response_id\":null",
        "\"previous_response_id\":\"resp_upstreams\"",
    );
    let mut run = SdkRun::new(&request);
    run.feed(&stream);
    let all = String::from_utf8(run.out.concat()).unwrap();
    assert_eq!(all.matches("resp_agents").count(), 3);
    assert_eq!(all.matches("resp_upstreams").count(), 0);
    let run = {
        let mut run = handed_over(&request);
        run.merge.next_leg();
        run.feed(&leg(
            "resp_2",
            &[],
            json!({"status": "completed", "output": [message("msg_2", "b")]}),
        ));
        run
    };
    assert_eq!(run.close(Ending::Own).end["previous_response_id"], "resp_agents");
}
