use pretty_assertions::assert_eq;

use super::*;

fn put(items: Value, pairs: &[HiddenPair]) -> Value {
    let what = Rewrite {
        pairs,
        ..Rewrite::default()
    };
    sent(&with_input(items), &what)["input"].take()
}

/// Items by words, where `h` is the hidden call and `r` its result.
fn with_pair(words: &str) -> Value {
    let mut all = items(words);
    for (item, word) in all.as_array_mut().unwrap().iter_mut().zip(words.split(", ")) {
        match word {
            "h" => *item = hidden("fc_h", "h"),
            "r" => *item = result("h"),
            _ => {}
        }
    }
    all
}

#[test]
fn calls_return_to_their_places_and_results_follow_the_group() {
    let group = items("hi, thought 1, call 1, call 2, result 1, result 2");
    for (sibling, offset, wanted) in [
        (
            "c1",
            -1,
            "hi, thought 1, h, call 1, call 2, r, result 1, result 2",
        ),
        (
            "c1",
            -2,
            "hi, h, thought 1, call 1, call 2, r, result 1, result 2",
        ),
        (
            "c1",
            -9,
            "hi, h, thought 1, call 1, call 2, r, result 1, result 2",
        ),
        ("c1", 0, "hi, thought 1, call 1, h, call 2, r, result 1, result 2"),
        ("c2", 0, "hi, thought 1, call 1, call 2, h, r, result 1, result 2"),
        ("c1", 9, "hi, thought 1, call 1, call 2, h, r, result 1, result 2"),
    ] {
        let put = put(group.clone(), &[beside("h", sibling, offset)]);
        assert_eq!(put, with_pair(wanted), "{sibling} {offset}");
    }
}

/// Reasoning that is named by its item id: as a whole item, as a reference, and absent from the transcript.
#[test]
fn a_call_with_reasoning_returns_right_after_the_reasoning() {
    let pairs = [beside("h", "item:rs_1", 0), beside("gone", "item:rs_9", 0)];
    for (given, wanted) in [
        ("hi, thought 1, text 1, more", "hi, thought 1, h, text 1, r, more"),
        (
            "hi, reference rs_1, reference msg_1, more",
            "hi, reference rs_1, h, reference msg_1, r, more",
        ),
        ("hi, text 1, more", "hi, text 1, more"),
    ] {
        assert_eq!(put(items(given), &pairs), with_pair(wanted), "{given}");
    }
}

#[test]
fn two_pairs_of_one_group_keep_their_order() {
    let pairs = [beside("h1", "c1", 0), beside("h2", "c1", 0)];
    let mut wanted = items("call 1, h1, h2, r1, r2, result 1");
    for (n, id) in [(1, "h1"), (2, "h2")] {
        wanted[n] = hidden("fc_h", id);
        wanted[n + 2] = result(id);
    }
    assert_eq!(put(items("call 1, result 1"), &pairs), wanted);
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
    let pairs = [beside("h", "c1", 0)];
    let mut body = with_input(items("result 1"));
    assert!(reading(&body).call_names().contains(&"c1".to_owned()));
    body["previous_response_id"] = "resp".into();
    let what = Rewrite {
        pairs: &pairs,
        ..Rewrite::default()
    };
    let done = rewritten(&body, &what);
    assert_eq!(done.pending.as_ref().unwrap().0, "p");
    assert_eq!(value(done)["input"], with_pair("r, result 1"));
}

/// The reasoning in front of calls by reference may belong to the call.
#[test]
fn siblings_by_reference_get_the_whole_pair() {
    let all = "hi, reference rs_1, reference msg_1, reference fc_1, reference fc_2, result 1, result 2";
    for (given, offset, wanted) in [
        ("reference fc_1, result 1", 0, "reference fc_1, h, r, result 1"),
        (all, -1, &*all.replace("reference fc_1", "h, reference fc_1")),
        (all, -2, &all.replace("reference msg_1", "h, reference msg_1")),
        (all, -9, &all.replace("reference rs_1", "h, reference rs_1")),
        (all, 0, &all.replace("reference fc_2", "reference fc_2, h")),
    ] {
        let wanted = wanted.replace("result 1, result 2", "r, result 1, result 2");
        let put = put(items(given), &[beside("h", "c1", offset)]);
        assert_eq!(put, with_pair(&wanted), "{given}: {offset}");
    }
}

#[test]
fn a_result_whose_call_was_cut_brings_no_pair_back() {
    let body = with_input(items("call 1, sentinel, more, result 1, on"));
    let what = Rewrite {
        pairs: &[beside("h", "c1", 0)],
        ..Rewrite::default()
    };
    let done = cut_with(&body, &what);
    assert_eq!((&done.pending, done.placed.len()), (&None, 0));
    assert_eq!(value(done)["input"].as_array().unwrap().len(), 3);
}

#[test]
fn an_asides_item_gives_way_to_the_pair() {
    let pairs = [pair("h", InsertionPoint::Aside)];
    let line = format!("[[handoff-aside:{ID}]]");
    for aside in [message(ASIDE, &line), reference(ASIDE)] {
        let mut all = items("text 1, aside, text 2");
        all[1] = aside;
        assert_eq!(reading(&with_input(all.clone())).asides().first(), Some(&ID));
        assert_eq!(
            put(all.clone(), &pairs),
            with_pair("text 1, h, r, text 2"),
            "{all}"
        );
    }
}

#[test]
fn text_glued_to_an_aside_stays_on_its_side() {
    let pairs = [pair("h", InsertionPoint::Aside)];
    let glued = format!("one\n\n[[handoff-aside:{ID}]]\n\ntwo");
    let item = |text: &str| message("msg_1", text);
    let string = |text: &str| json!({"role": "assistant", "content": text});
    let bare = |text: &str| without_id(item(text));
    assert_eq!(
        put(json!([item(&glued)]), &pairs),
        json!([bare("one"), hidden("fc_h", "h"), result("h"), bare("two")])
    );
    let call = without_id(hidden("fc_h", "h"));
    assert_eq!(
        put(json!([string(&glued)]), &pairs),
        json!([string("one"), call, result("h"), string("two")])
    );
}
