use pretty_assertions::assert_eq;

use super::*;
use crate::wire::View;
use crate::wire::{
    AnswerShape, Ending, Framing, Leg, LegOutput, ResponseWatch, StopReason, SyntheticResponse,
};

const WATCH: ResponseWatch = ResponseWatch {
    hide: crate::tools::ToolNames::HANDOFF,
    buffered_bytes: 1000,
};

fn reply(id: &str, output: Value) -> Bytes {
    let tools = json!([{"type": "function", "name": "session_handoff"}]);
    let whole = json!({"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "m",
        "output": output, "previous_response_id": "resp_up", "store": false, "tools": tools, "usage": {
            "input_tokens": 10, "output_tokens": 5, "total_tokens": 15}});
    Bytes::from(whole.to_string())
}

fn leg(body: Bytes, then: Option<String>) -> Leg {
    let report = WIRE.reply(&View::empty(WIRE.id()), &body, WATCH).unwrap();
    let then = then.into_iter().collect();
    Leg { body, report, then }
}

fn joined(legs: &[Leg], opening: Option<&str>, ending: Ending) -> Value {
    serde_json::from_slice(&WIRE.join(legs, opening, ending)).unwrap()
}

#[test]
fn a_reply_is_read() {
    let output = json!([thought("rs"), hidden("fc_h", "h"), called("fc_1", "c"), {"type": "mcp_approval_request", "id": "ap"}]);
    let read = |body: &Bytes| WIRE.reply(&View::empty(WIRE.id()), body, WATCH);
    let report = read(&reply("resp_1", output)).unwrap();
    assert_eq!(report.calls, [("c".to_owned(), 1), ("ap".to_owned(), 2)]);
    assert_eq!(
        (report.hidden[0].after, report.parts, report.stop),
        (1, 3, StopReason::Calls)
    );
    assert_eq!(report.hidden[0].bound_to.as_deref(), Some("item:rs"));
    assert_eq!((report.usage.input, report.usage.output), (10, 5));
    assert!(read(&Bytes::from_static(b"{\"error\":{}}")).is_none());
}

/// Some servers parse the arguments in the history.
#[test]
fn a_call_that_does_not_parse_is_sent_back_without_arguments() {
    let mut called = hidden("fc_h", "h");
    called["arguments"] = "{\"prompt\": \"Goal".into();
    let report = WIRE.reply(&View::empty(WIRE.id()), &reply("resp_1", json!([called])), WATCH);
    let sent = (WIRE.functions.hidden_call)(&report.unwrap().hidden[0]);
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(
        (&sent["call_id"], &sent["arguments"]),
        (&"h".into(), &"{}".into())
    );
}

#[test]
fn one_leg_ends_with_its_sentinel_or_without_its_call() {
    let mark = format!("[[handoff-resume:{ID}]]");
    let body = reply("resp_1", json!([message("msg_1", "a"), hidden("fc_h", "h")]));
    let ending = Ending::Stopped { next_input: 7 };
    let stopped = joined(&[leg(body.clone(), Some(mark.clone()))], None, ending);
    assert_eq!(stopped["output"][1]["id"], ITEM);
    assert_eq!(stopped["usage"]["total_tokens"], 12);
    let without = joined(&[leg(body, None)], None, Ending::WithoutCall);
    assert_eq!(without["output"], json!([message("msg_1", "a")]));
    assert_eq!(without["tools"], json!([]));
    let later = leg(reply("resp_2", json!([message("msg_2", "b")])), None);
    let opened = joined(&[later], Some(&mark), Ending::Own);
    assert_eq!(opened["output"][0]["id"], ITEM);
    assert_eq!(opened["output"][1], message("msg_2", "b"));
}

#[test]
fn a_reply_echoes_the_agents_request() {
    let mut request = with_input(json!([user("hi")]));
    request["previous_response_id"] = "resp_agents".into();
    let echoed = |request: &Value| {
        let echoed = reading(request).view.shaped_for(reply("resp_1", json!([])));
        serde_json::from_slice::<Value>(&echoed).unwrap()
    };
    assert_eq!(echoed(&request)["previous_response_id"], "resp_agents");
    assert_eq!(echoed(&request)["tools"], json!([]));
    request["tools"] = json!([{"type": "function", "name": "session_handoff"}]);
    assert_eq!(
        echoed(&request)["tools"][0]["name"],
        "session_handoff",
        "the agent's own"
    );
}

#[test]
fn reasoning_that_cannot_be_sent_back_is_left_out() {
    let bare = json!({"id": "rs", "type": "reasoning", "summary": []});
    let (ours, other) = (hidden("fc_h", "h"), hidden("fc_2", "other"));
    let body = reply("resp_1", json!([bare, message("msg_1", "a"), ours, other]));
    let pairs = [pair("h", InsertionPoint::Aside)];
    let ask_again = |leg| (WIRE.functions.ask_again)(&leg, &pairs, crate::tools::ToolNames::HANDOFF);
    let more = ask_again(LegOutput::Reply(body)).unwrap();
    let more: Value = serde_json::from_str(&format!("[{more}]")).unwrap();
    let more = more.as_array().unwrap();
    let kinds: Vec<_> = more.iter().map(|i| i["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "function_call", "function_call_output"]);
    assert!(more.iter().all(|i| i.get("id").is_none()));
    assert_eq!(ask_again(LegOutput::Stream(vec![])), None);
}

/// The synthetic response to a request, as a reply and as the events of a stream.
fn composed(body: &Value) -> Vec<Value> {
    let reading = reading(body);
    let local = SyntheticResponse {
        id: ID,
        model: "m",
        text: "baton: nothing is pinned.",
        handoff: None,
        view_bytes: 400,
    };
    let answer = |shape| (WIRE.functions.compose)(&reading.view, &local, shape);
    let whole: Value = serde_json::from_slice(&answer(AnswerShape::Whole)).unwrap();
    let stream = answer(AnswerShape::Stream(Framing::Sse));
    let stream = String::from_utf8(stream.to_vec()).unwrap();
    let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.map(|event| serde_json::from_str::<Value>(event).unwrap());
    let objects = events.filter_map(|event| event.get("response").cloned());
    objects.chain([whole]).collect()
}

#[test]
fn an_answer_of_ours_repeats_the_request_as_the_api_does() {
    let given = json!({
        "background": false, "instructions": "Be careful.", "max_output_tokens": 4096, "max_tool_calls": 3,
        "metadata": {"run": "7"}, "parallel_tool_calls": false, "prompt_cache_key": "k",
        "reasoning": {"effort": "medium", "summary": "auto"}, "safety_identifier": "s", "service_tier": "flex",
        "store": false, "temperature": 0.5, "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": "auto", "tools": [{"type": "function", "name": "shell", "parameters": {}, "strict": false}],
        "top_logprobs": 2, "top_p": 0.9, "truncation": "auto", "user": "u", "previous_response_id": "resp_0",
    });
    let mut body = given.clone();
    body["model"] = "m".into();
    body["input"] = "x".into();
    for response in composed(&body) {
        for (name, value) in given.as_object().unwrap() {
            assert_eq!(&response[name], value, "{name}");
        }
    }
    let bare = composed(&json!({"model": "m", "input": "x"}));
    assert_eq!(bare.len(), 4, "created, in_progress, completed, and the reply");
    for response in bare {
        let members = ["tools", "tool_choice", "store", "instructions"].map(|name| response[name].clone());
        assert_eq!(members, [json!([]), json!("auto"), json!(true), Value::Null]);
        let ended = response["status"] == "completed";
        assert_eq!(response["completed_at"].is_number(), ended, "{response}");
    }
}
