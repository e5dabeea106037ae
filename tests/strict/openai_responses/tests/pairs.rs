//! The rules that tie items to each other: calls and outputs, reasoning and the next item, stored responses.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn calls_and_outputs_belong_together() {
    assert_eq!(changed(|input| drop(input.pop())), [Rule::Unanswered]);
    assert_eq!(
        changed(|input| input.push(output("call_1"))),
        [Rule::RepeatedResult]
    );
    assert_eq!(
        changed(|input| input.push(output("call_9"))),
        [Rule::OrphanResult]
    );
    assert_eq!(
        changed(|input| input[4]["type"] = json!("custom_tool_call_output")),
        [Rule::OrphanResult, Rule::Unanswered]
    );
    assert_eq!(
        changed(|input| input[3]["name"] = json!("other")),
        [Rule::UnknownTool]
    );
    let again = changed(|input| {
        let mut call = input[3].clone();
        call["id"] = json!("fc_other");
        input.extend([call, output("call_1")]);
    });
    assert_eq!(again, [Rule::RepeatedCall]);
}

#[test]
fn reasoning_and_the_item_after_it_need_each_other() {
    assert_eq!(
        changed(|input| drop(input.remove(1))),
        [Rule::MissingReasoning, Rule::MissingReasoning]
    );
    assert_eq!(changed(|input| drop(input.drain(2..))), [Rule::LoneReasoning]);
    assert_eq!(changed(|input| drop(input.remove(2))), [Rule::LoneReasoning]);
    let without_ids = changed(|input| {
        input.remove(1);
        for item in &mut input[1..3] {
            item.as_object_mut().unwrap().remove("id");
        }
    });
    assert_eq!(without_ids, []);
}

#[test]
fn encrypted_reasoning_after_another_prefix_is_recorded_but_not_refused() {
    let mut talk = Talk::default();
    let body = conversation(&mut talk);
    for (key, value) in [
        ("instructions", json!("Be quick.")),
        ("tools", json!([tool("read_file"), tool("session_handoff")])),
    ] {
        let mut other = body.clone();
        other[key] = value;
        assert_eq!(talk.rules(other.clone()), [Rule::ReasoningPrefix]);
        let response = talk.answer(other, &Reply::text("Hm."));
        let removed = &response["input_transformations"][0];
        assert_eq!(
            (&removed["reason"], &removed["id"]),
            (&json!("prefix_mismatch"), &body["input"][1]["id"])
        );
    }
    assert!(!Rule::ReasoningPrefix.refuses());
    assert_eq!(
        changed(|input| input[0] = user("Fix that.")),
        [Rule::ReasoningPrefix]
    );
    assert_eq!(
        changed(|input| input[1]["encrypted_content"] = json!("ZW5jLTE=")),
        [Rule::ForeignThinking]
    );
    // Without its content it is found only where it is stored.
    assert_eq!(
        changed(|input| drop(input[1].as_object_mut().unwrap().remove("encrypted_content"))),
        [Rule::UnknownItem]
    );
}

#[test]
fn a_stored_response_can_be_continued() {
    let mut talk = Talk::default();
    let mut body = request(json!([user("Fix it.")]));
    body.as_object_mut()
        .unwrap()
        .retain(|key, _| !matches!(key.as_str(), "store" | "include"));
    let first = talk.answer(body.clone(), &working());
    assert_eq!(first["store"], true);
    assert!(first["output"][0].get("encrypted_content").is_none());
    body["previous_response_id"] = first["id"].clone();
    body["input"] = json!([user("And now?")]);
    assert_eq!(talk.rules(body.clone()), [Rule::Unanswered]);
    body["input"] = json!([output("call_1")]);
    assert_eq!(talk.rules(body.clone()), []);
    let turns = talk.received(body.clone()).turns();
    assert_eq!((turns.len(), turns[0].texts[0].as_str()), (4, "Fix it."));
    let second = talk.answer(body.clone(), &Reply::new().thinking("So.").say("Done."));
    // The same by item reference, without `previous_response_id`.
    let ids = first["output"].as_array().unwrap().iter().map(|item| &item["id"]);
    let mut input = vec![user("Fix it.")];
    input.extend(ids.map(|id| json!({"type": "item_reference", "id": id})));
    input.push(output("call_1"));
    let ids = second["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["id"]);
    input.extend(ids.map(|id| json!({"type": "item_reference", "id": id})));
    body.as_object_mut().unwrap().remove("previous_response_id");
    body["input"] = json!(input);
    assert_eq!(talk.rules(body.clone()), []);
    body["input"].as_array_mut().unwrap().remove(1);
    assert_eq!(talk.rules(body), [Rule::MissingReasoning, Rule::MissingReasoning]);
}

#[test]
fn a_conversation_grows_by_each_response() {
    let mut talk = Talk::default();
    talk.memory.append_to_conversation("conv_1", vec![user("First.")]);
    let mut body = request(json!([user("Hello.")]));
    body["conversation"] = json!({"id": "conv_1"});
    let response = talk.answer(body.clone(), &Reply::text("Hi."));
    assert_eq!(response["conversation"]["id"], "conv_1");
    assert_eq!(talk.received(body.clone()).turns().len(), 4);
    body["previous_response_id"] = json!("resp_x");
    assert_eq!(talk.rules(body), [Rule::Conflict, Rule::UnknownResponse]);
}
