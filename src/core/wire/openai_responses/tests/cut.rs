use pretty_assertions::assert_eq;

use super::*;
use crate::rewrite::ChangeReason;

/// What stays of these items behind the cut.
fn kept(items: Value) -> Value {
    let mut input = cut(&with_input(items))["input"].take();
    let head = input.as_array_mut().unwrap().remove(0);
    assert_eq!(head, serde_json::from_str::<Value>(HEAD).unwrap());
    input
}

#[test]
fn a_sentinel_is_known_by_its_items_id_alone() {
    let bare = json!({"id": ITEM});
    for item in [sentinel(), message(ITEM, "another text"), reference(ITEM), bare] {
        let mut all = items("hi, text 1, sentinel, text 2, more");
        all[2] = item;
        assert_eq!(kept(all.clone()), items("text 2, more"), "{all}");
    }
    for item in [reference("msg_handoff_7"), user(ITEM)] {
        let body = with_input(json!([user("hi"), item]));
        assert_eq!(reading(&body).candidates(), vec![]);
    }
}

#[test]
fn one_sentinel_is_found_once_and_the_last_one_first() {
    let other = Uuid::from_u128(7);
    let all = format!("sentinel, hi, reference msg_handoff_{}, more", other.simple());
    let found = reading(&with_input(items(&all))).candidates();
    let found: Vec<_> = found.iter().map(|c| c.sentinel.id).collect();
    assert_eq!(found, [other, ID]);
}

#[test]
fn what_an_agent_glued_to_the_sentinel_stays() {
    let mut all = items("hi, text 1, call 2, result 2");
    all[1] = message("msg_1", &format!("one\n\n[[handoff-resume:{ID}]]\n\n1"));
    assert_eq!(kept(all), items("text 1, call 2, result 2"));
}

#[test]
fn references_to_our_items_never_reach_upstream() {
    let body = with_input(json!([user("hi"), reference(ITEM), reference("msg_2")]));
    let done = sent(&body, &Rewrite::default());
    assert_eq!(done["input"], items("hi, reference msg_2"));
}

/// The first reference is the placeholder for an empty turn. If agents send it as a whole item, it is an
/// ordinary message.
#[test]
fn references_to_other_items_of_ours_are_resolved_or_removed() {
    let ours = "reference msg_baton_0199a3c27d1e7c3a9b1f2f6f0c9d8e11";
    let body = with_input(items(&format!(
        "hi, reference msg_note_7, more, {ours}, and more"
    )));
    let mut filler = message("msg_note_7", crate::wire::EMPTY_TURN);
    filler["content"][0]["logprobs"] = json!([]);
    let mut wanted = items("hi, filler, more, and more");
    wanted[1] = filler;
    assert_eq!(sent(&body, &Rewrite::default())["input"], wanted);
    let whole = with_input(wanted);
    assert_eq!(sent(&whole, &Rewrite::default()), whole);
}

#[test]
fn results_whose_calls_were_cut_go_wherever_they_stand() {
    let mut all = items("hi, call 1, sentinel, thought 2, call 2, result 2, result 1, more, result 0");
    all[8]["type"] = "custom_tool_call_output".into();
    assert_eq!(kept(all), items("thought 2, call 2, result 2, more"));
}

#[test]
fn a_result_right_after_the_cut_is_removed_and_not_counted() {
    let body = with_input(items("hi, call 1, sentinel, result 1, more"));
    let done = cut_with(&body, &Rewrite::default());
    assert_eq!(done.messages, 1);
    assert_eq!(value(done)["input"].as_array().unwrap().len(), 2);
}

#[test]
fn results_of_calls_by_reference_stay_unless_the_call_was_cut() {
    let all = items("hi, call 1, sentinel, reference fc_2, result 2, result 1, reference fc_1, more");
    assert_eq!(kept(all), items("reference fc_2, result 2, more"));
}

#[test]
fn reasoning_that_lost_its_item_goes() {
    let all = items("hi, sentinel, call 2, thought 2, result 2, more");
    assert_eq!(kept(all), items("call 2, result 2, more"));
    let all = items("hi, sentinel, thought 2, thought 3, text 2");
    assert_eq!(kept(all), items("thought 2, thought 3, text 2"));
}

#[test]
fn items_whose_reasoning_was_moved_in_front_go_on_without_ids() {
    let all = items("hi, thought 1, thought 2, text 1, sentinel, text 2, call 2, result 2, text 3");
    let mut wanted = items("text 2, call 2, result 2, text 3");
    for n in [0, 1] {
        wanted[n] = without_id(wanted[n].take());
    }
    assert_eq!(kept(all), wanted);
}

#[test]
fn broken_up_text_is_given_back() {
    let ours = |mark: &str| message("msg_1", &format!("log: [[handoff-resume{mark}{ID}]]"));
    let users = user("[[handoff-resume\\:x");
    let body = with_input(json!([ours("\\:"), users]));
    let done = rewritten(&body, &Rewrite::default());
    let why: Vec<_> = done.changes.iter().map(|c| (c.why, c.removed)).collect();
    assert_eq!(why, [(ChangeReason::Unescaped, 2)]);
    assert_eq!(value(done)["input"], json!([ours(":"), users]));
}

/// Codex 0.169 states the goal of its session like this, at the start of each turn.
#[test]
fn a_result_without_a_call_is_kept_after_a_cut() {
    let goal = json!({"type": "function_call_output", "id": "fco_1", "name": "goal_objective",
        "namespace": "agent", "output": "Make the parser tests pass."});
    let mut all = items("a, sentinel, goal, b, goal, call 2, result 2");
    (all[2], all[4]) = (goal.clone(), goal.clone());
    let sent = cut(&with_input(all));
    let sent = sent["input"].as_array().unwrap().iter();
    assert_eq!(sent.filter(|item| **item == goal).count(), 2);
}
