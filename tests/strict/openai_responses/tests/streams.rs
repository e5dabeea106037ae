//! The events of replies.

use pretty_assertions::assert_eq;

use super::*;
use crate::reply::Part;

/// The events of a stream.
fn events(reply: &Reply) -> Vec<Value> {
    let mut body = request(json!([user("Fix it.")]));
    body["stream"] = json!(true);
    body["tools"] = json!([tool("read_file"), {"type": "custom", "name": "apply_patch"}]);
    let rendered = OpenAiResponses::API.render(&Talk::default().received(body), reply, &Usage::default());
    rendered.events.iter().map(|event| parsed(event)).collect()
}

fn parsed(event: &[u8]) -> Value {
    let text = std::str::from_utf8(event).unwrap();
    let (name, data) = text.strip_suffix("\n\n").unwrap().split_once('\n').unwrap();
    let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
    data
}

fn names(events: &[Value]) -> Vec<&str> {
    let names = events.iter().map(|event| event["type"].as_str().unwrap());
    names.map(|name| name.trim_start_matches("response.")).collect()
}

#[test]
fn a_stream_ends_as_its_reply_does() {
    let end = |stop: Stop| {
        let events = events(&Reply::text("Hm.").stop(stop));
        let last = events.last().unwrap();
        let name = last["type"].as_str().unwrap().to_owned();
        (name, last["response"].clone())
    };
    let (name, response) = end(Stop::Natural);
    assert_eq!(
        (name.as_str(), &response["status"]),
        ("response.completed", &json!("completed"))
    );
    assert_eq!(response["output"][0]["phase"], "final_answer");
    let (name, response) = end(Stop::MaxTokens);
    assert_eq!(name, "response.incomplete");
    assert_eq!(
        response["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
    let (name, response) = end(Stop::Word("failed".to_owned()));
    assert_eq!(
        (name.as_str(), &response["error"]["code"]),
        ("response.failed", &json!("server_error"))
    );
    let (_, response) = end(Stop::Refusal);
    assert_eq!(response["output"][0]["content"][0]["refusal"], "Hm.");
}

#[test]
fn events_are_numbered_in_sequence() {
    let reply = working().call("apply_patch", json!("*** Begin Patch"));
    let events = events(&reply);
    let numbers: Vec<u64> = events
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let names = names(&events);
    assert_eq!(&names[..3], ["created", "in_progress", "output_item.added"]);
    let custom: Vec<&&str> = names.iter().filter(|name| name.starts_with("custom")).collect();
    assert_eq!(
        custom,
        [&"custom_tool_call_input.delta", &"custom_tool_call_input.done"]
    );
    let done = events
        .iter()
        .find(|event| event["type"] == "response.custom_tool_call_input.done");
    assert_eq!(done.unwrap()["input"], "*** Begin Patch");
}

#[test]
fn refusals_and_blocks_have_events_of_their_own() {
    let refused = events(&Reply::text("No.").stop(Stop::Refusal));
    assert_eq!(
        names(&refused)[3..7],
        [
            "content_part.added",
            "refusal.delta",
            "refusal.done",
            "content_part.done"
        ]
    );
    assert!(refused[4].get("logprobs").is_none());
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed"});
    let block = events(&Reply::new().part(Part::Block(search.clone())));
    assert_eq!(names(&block)[2..4], ["output_item.added", "output_item.done"]);
    assert_eq!(block[3]["item"], search);
}

#[test]
fn a_failed_stream_keeps_its_response_id() {
    let received = Talk::default().received(request(json!("Hi.")));
    let failed = parsed(&OpenAiResponses::API.error_event(&received, 5, "rate_limit_exceeded", "slow down"));
    assert_eq!(failed["response"]["id"], response::id(&received).as_str());
    assert_eq!(failed["response"]["error"]["code"], "rate_limit_exceeded");
    assert_eq!(failed["sequence_number"], 5);
    let bare = parsed(&OpenAiResponses::API.error_event(&received, 5, "error", "slow down"));
    assert_eq!(bare["message"], "slow down");
}

#[test]
fn a_response_repeats_the_fields_of_its_request() {
    let mut body = request(json!("Hi."));
    body["prompt_cache_key"] = json!("conv-1");
    body["tools"] = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let response = Talk::default().answer(body, &Reply::text("Hi."));
    assert_eq!(response["prompt_cache_key"], "conv-1");
    assert_eq!(response["instructions"], "Be careful.");
    assert_eq!(response["store"], false);
    assert_eq!(response["tools"][0]["strict"], true);
    assert_eq!(response["usage"]["total_tokens"], 0);
}
