use pretty_assertions::assert_eq;

use super::*;
use crate::rewrite::ChangeReason;

fn kept(items: Value) -> Vec<Value> {
    let mut input = cut(&with_input(items))["input"].as_array().unwrap().clone();
    assert_eq!(input.remove(0), serde_json::from_str::<Value>(HEAD).unwrap());
    input
}

#[test]
fn a_sentinel_is_known_by_its_items_id_alone() {
    let reference = json!({"type": "item_reference", "id": ITEM});
    let bare = json!({"id": ITEM});
    for item in [sentinel(), message(ITEM, "another text"), reference, bare] {
        let items = json!([
            user("hi"),
            message("msg_1", "one"),
            item,
            message("msg_2", "two"),
            user("more")
        ]);
        assert_eq!(kept(items), [message("msg_2", "two"), user("more")], "{item}");
    }
    for item in [
        json!({"type": "item_reference", "id": "msg_handoff_7"}),
        user(ITEM),
    ] {
        let body = with_input(json!([user("hi"), item]));
        assert_eq!(reading(&body).candidates(), vec![]);
    }
}

#[test]
fn one_sentinel_is_found_once_and_the_last_one_first() {
    let other = Uuid::from_u128(7);
    let reference = json!({"type": "item_reference", "id": format!("msg_handoff_{}", other.simple())});
    let body = with_input(json!([sentinel(), user("hi"), reference, user("more")]));
    let found = reading(&body).candidates();
    assert_eq!(
        found.iter().map(|c| c.sentinel.id).collect::<Vec<_>>(),
        [other, ID]
    );
}

#[test]
fn what_an_agent_glued_to_the_sentinel_stays() {
    let glued = message("msg_1", &format!("one\n\n[[handoff-resume:{ID}]]\n\ntwo"));
    let items = json!([user("hi"), glued, called("fc_2", "c"), answered("c")]);
    assert_eq!(
        kept(items),
        [message("msg_1", "two"), called("fc_2", "c"), answered("c")]
    );
}

#[test]
fn references_to_our_items_never_reach_upstream() {
    let ours = json!({"type": "item_reference", "id": ITEM});
    let theirs = json!({"type": "item_reference", "id": "msg_2"});
    let body = with_input(json!([user("hi"), ours, theirs]));
    let done = value(rewritten(&body, &Rewrite::default()));
    assert_eq!(done["input"], json!([user("hi"), theirs]));
}

/// The first reference is the placeholder for an empty turn. If agents send it as a whole item, it is an
/// ordinary message.
#[test]
fn references_to_other_items_of_ours_are_resolved_or_removed() {
    let reference = |id: &str| json!({"type": "item_reference", "id": id});
    let body = with_input(json!([
        user("hi"),
        reference("msg_note_7"),
        user("more"),
        reference("msg_baton_0199a3c27d1e7c3a9b1f2f6f0c9d8e11"),
        user("and more")
    ]));
    let done = value(rewritten(&body, &Rewrite::default()));
    let mut filler = message("msg_note_7", crate::wire::EMPTY_TURN);
    filler["content"][0]["logprobs"] = json!([]);
    assert_eq!(
        done["input"],
        json!([user("hi"), filler, user("more"), user("and more")])
    );
    let whole = with_input(json!([user("hi"), filler, user("more")]));
    assert_eq!(value(rewritten(&whole, &Rewrite::default())), whole);
}

#[test]
fn results_whose_calls_were_cut_go_wherever_they_stand() {
    let items = json!([
        user("hi"), called("fc_1", "c1"), sentinel(), thought("rs_2"), called("fc_2", "c2"), answered("c2"),
        answered("c1"), user("more"), {"type": "custom_tool_call_output", "call_id": "c0", "output": ""}
    ]);
    assert_eq!(
        kept(items),
        [
            thought("rs_2"),
            called("fc_2", "c2"),
            answered("c2"),
            user("more")
        ]
    );
}

#[test]
fn a_result_right_after_the_cut_is_removed_and_not_counted() {
    let body = with_input(json!([
        user("hi"),
        called("fc_1", "c1"),
        sentinel(),
        answered("c1"),
        user("more")
    ]));
    let done = cut_with(&body, &Rewrite::default());
    assert_eq!(done.messages, 1);
    assert_eq!(value(done)["input"].as_array().unwrap().len(), 2);
}

#[test]
fn results_of_calls_by_reference_stay_unless_the_call_was_cut() {
    let call = json!({"type": "item_reference", "id": "fc_2"});
    let items = json!([
        user("hi"), called("fc_1", "c1"), sentinel(), call, answered("c2"), answered("c1"),
        {"type": "item_reference", "id": "fc_1"}, user("more")
    ]);
    assert_eq!(kept(items), [call, answered("c2"), user("more")]);
}

#[test]
fn reasoning_that_lost_its_item_goes() {
    let items = json!([
        user("hi"),
        sentinel(),
        called("fc_2", "c"),
        thought("rs_2"),
        answered("c"),
        user("more")
    ]);
    assert_eq!(kept(items), [called("fc_2", "c"), answered("c"), user("more")]);
    let items = json!([
        user("hi"),
        sentinel(),
        thought("rs_2"),
        thought("rs_3"),
        message("msg_2", "two")
    ]);
    assert_eq!(kept(items.clone()), items.as_array().unwrap()[2..]);
}

#[test]
fn items_whose_reasoning_was_moved_in_front_go_on_without_ids() {
    let items = json!([
        user("hi"),
        thought("rs_1"),
        thought("rs_2"),
        message("msg_1", "one"),
        sentinel(),
        message("msg_2", "two"),
        called("fc_2", "c"),
        answered("c"),
        message("msg_3", "three")
    ]);
    let bare = |mut item: Value| {
        item.as_object_mut().unwrap().remove("id");
        item
    };
    assert_eq!(
        kept(items),
        [
            bare(message("msg_2", "two")),
            bare(called("fc_2", "c")),
            answered("c"),
            message("msg_3", "three")
        ]
    );
}

#[test]
fn broken_up_text_is_given_back() {
    let body = with_input(json!([
        message("msg_1", &format!("log: [[handoff-resume\\:{ID}]]")),
        user("[[handoff-resume\\:x")
    ]));
    let done = rewritten(&body, &Rewrite::default());
    let why: Vec<_> = done.changes.iter().map(|c| (c.why, c.removed)).collect();
    assert_eq!(why, [(ChangeReason::Unescaped, 2)]);
    let whole = message("msg_1", &format!("log: [[handoff-resume:{ID}]]"));
    assert_eq!(value(done)["input"], json!([whole, user("[[handoff-resume\\:x")]));
}

/// Codex 0.169 states the goal of its session like this, at the start of each turn.
#[test]
fn a_result_without_a_call_is_kept_after_a_cut() {
    let goal = json!({"type": "function_call_output", "id": "fco_1", "name": "goal_objective",
        "namespace": "agent", "output": "Make the parser tests pass."});
    let items = json!([
        user("a"),
        sentinel(),
        goal,
        user("b"),
        goal,
        called("fc_2", "c"),
        answered("c")
    ]);
    let sent = cut(&with_input(items));
    let goals = sent["input"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| **item == goal);
    assert_eq!(goals.count(), 2, "{sent}");
}
