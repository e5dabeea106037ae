use pretty_assertions::assert_eq;

use super::*;

fn put(items: Value, pairs: &[HiddenPair]) -> Value {
    let done = rewritten(
        &with_input(items),
        &Rewrite {
            pairs,
            ..Rewrite::default()
        },
    );
    value(done)["input"].clone()
}

#[test]
fn calls_return_to_their_places_and_results_follow_the_group() {
    let group = json!([
        user("hi"),
        thought("rs"),
        called("fc_a", "a"),
        called("fc_b", "b"),
        answered("a"),
        answered("b")
    ]);
    let (h, r) = (hidden("fc_h", "h"), result("h"));
    let [u, t, a, b, ra, rb] = group.as_array().unwrap().clone().try_into().unwrap();
    for (sibling, offset, wanted) in [
        ("a", -1, json!([u, t, h, a, b, r, ra, rb])),
        ("a", -2, json!([u, h, t, a, b, r, ra, rb])),
        ("a", -9, json!([u, h, t, a, b, r, ra, rb])),
        ("a", 0, json!([u, t, a, h, b, r, ra, rb])),
        ("b", 0, json!([u, t, a, b, h, r, ra, rb])),
        ("a", 9, json!([u, t, a, b, h, r, ra, rb])),
    ] {
        assert_eq!(
            put(group.clone(), &[beside("h", sibling, offset)]),
            wanted,
            "{sibling} {offset}"
        );
    }
}

/// Reasoning that is named by its item id: as a whole item, as a reference, and absent from the transcript.
#[test]
fn a_call_with_reasoning_returns_right_after_the_reasoning() {
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let pairs = [beside("h", "item:rs_1", 0), beside("gone", "item:rs_9", 0)];
    let (h, r) = (hidden("fc_h", "h"), result("h"));
    for (thought, texts) in [
        (thought("rs_1"), message("msg_1", "so it is")),
        (reference("rs_1"), reference("msg_1")),
    ] {
        let items = json!([user("hi"), thought, texts, user("more")]);
        assert_eq!(
            put(items, &pairs),
            json!([user("hi"), thought, h, texts, r, user("more")])
        );
    }
    let unmarked = json!([user("hi"), message("msg_1", "so it is"), user("more")]);
    assert_eq!(put(unmarked.clone(), &pairs), unmarked);
}

#[test]
fn two_pairs_of_one_group_keep_their_order() {
    let pairs = [beside("h1", "a", 0), beside("h2", "a", 0)];
    let (h1, h2) = (hidden("fc_h", "h1"), hidden("fc_h", "h2"));
    assert_eq!(
        put(json!([called("fc_a", "a"), answered("a")]), &pairs),
        json!([
            called("fc_a", "a"),
            h1,
            h2,
            result("h1"),
            result("h2"),
            answered("a")
        ])
    );
}

#[test]
fn an_agent_that_sends_no_ids_gets_none_of_ours() {
    let bare = json!({"type": "custom_tool_call", "call_id": "a", "name": "exec", "input": "x"});
    let items = json!([bare, {"type": "custom_tool_call_output", "call_id": "a", "output": ""}]);
    let done = put(items, &[beside("h", "a", 0)]);
    assert_eq!(done[1]["call_id"], "h");
    assert_eq!(done[1].get("id"), None);
    assert_eq!(done[2], result("h"));
}

#[test]
fn upstream_that_holds_the_call_lacks_the_result_alone() {
    let pairs = [beside("h", "a", 0)];
    let mut body = with_input(json!([answered("a")]));
    assert!(reading(&body).call_names().contains(&"a".to_owned()));
    body["previous_response_id"] = "resp".into();
    let done = rewritten(
        &body,
        &Rewrite {
            pairs: &pairs,
            ..Rewrite::default()
        },
    );
    assert_eq!(done.pending.as_ref().unwrap().0, "p");
    assert_eq!(value(done)["input"], json!([result("h"), answered("a")]));
}

#[test]
fn a_sibling_by_reference_gets_the_whole_pair() {
    let reference = json!({"type": "item_reference", "id": "fc_a"});
    assert_eq!(
        put(json!([reference, answered("a")]), &[beside("h", "a", 0)]),
        json!([reference, hidden("fc_h", "h"), result("h"), answered("a")])
    );
}

/// The reasoning may belong to the call.
#[test]
fn a_pair_in_front_of_calls_by_reference_stays_in_front_of_them() {
    let by_id = |id: &str| json!({"type": "item_reference", "id": id});
    let [rs, spoken, a, b] = ["rs_1", "msg_1", "fc_a", "fc_b"].map(by_id);
    let (h, r) = (hidden("fc_h", "h"), result("h"));
    let items = json!([user("hi"), rs, spoken, a, b, answered("a"), answered("b")]);
    let results = [r, answered("a"), answered("b")];
    for (offset, calls) in [
        (-1, json!([rs, spoken, h, a, b])),
        (-2, json!([rs, h, spoken, a, b])),
        (-9, json!([h, rs, spoken, a, b])),
        (0, json!([rs, spoken, a, b, h])),
    ] {
        let mut wanted = vec![user("hi")];
        wanted.extend(calls.as_array().unwrap().clone());
        wanted.extend(results.clone());
        assert_eq!(
            put(items.clone(), &[beside("h", "a", offset)]),
            Value::from(wanted),
            "{offset}"
        );
    }
}

#[test]
fn a_result_whose_call_was_cut_brings_no_pair_back() {
    let pairs = [beside("h", "a", 0)];
    let body = with_input(json!([
        called("fc_a", "a"),
        sentinel(),
        user("more"),
        answered("a"),
        user("on")
    ]));
    let done = cut_with(
        &body,
        &Rewrite {
            pairs: &pairs,
            ..Rewrite::default()
        },
    );
    assert_eq!((&done.pending, done.placed.len()), (&None, 0));
    assert_eq!(value(done)["input"].as_array().unwrap().len(), 3);
}

#[test]
fn an_asides_item_gives_way_to_the_pair() {
    let pairs = [pair("h", InsertionPoint::Aside)];
    let line = format!("[[handoff-aside:{ID}]]");
    let wanted = json!([
        message("msg_1", "one"),
        hidden("fc_h", "h"),
        result("h"),
        message("msg_2", "two")
    ]);
    for aside in [
        message(ASIDE, &line),
        json!({"type": "item_reference", "id": ASIDE}),
    ] {
        let items = json!([message("msg_1", "one"), aside, message("msg_2", "two")]);
        let body = with_input(items.clone());
        assert_eq!(reading(&body).asides().first(), Some(&ID));
        assert_eq!(put(items, &pairs), wanted, "{aside}");
    }
}

#[test]
fn text_glued_to_an_aside_stays_on_its_side() {
    let pairs = [pair("h", InsertionPoint::Aside)];
    let glued = format!("one\n\n[[handoff-aside:{ID}]]\n\ntwo");
    let bare = |text: &str| {
        let mut item = message("", text);
        item.as_object_mut().unwrap().remove("id");
        item
    };
    assert_eq!(
        put(json!([message("msg_1", &glued)]), &pairs),
        json!([bare("one"), hidden("fc_h", "h"), result("h"), bare("two")])
    );
    let string = |text: &str| json!({"role": "assistant", "content": text});
    let mut call = hidden("fc_h", "h");
    call.as_object_mut().unwrap().remove("id");
    assert_eq!(
        put(json!([string(&glued)]), &pairs),
        json!([string("one"), call, result("h"), string("two")])
    );
}
