use super::*;
use crate::record::{InsertionPoint, WireId};
use crate::text::cost;
use crate::wire::view::TurnPartKind;
use crate::wire::{Operation, wire};
use serde_json::json;

fn calls_of(view: &View) -> FingerprintedCalls<'_> {
    FingerprintedCalls { view }
}

/// A transcript with the same call in each model turn.
fn view(roles: impl Iterator<Item = Role>) -> View {
    let turns = roles.map(|role| match role {
        Role::Assistant => json!({"role": "model", "parts": [{"functionCall": {"name": "g"}}]}),
        Role::Tool => json!({"role": "user", "parts": [{"functionResponse": {"name": "g"}}]}),
        _ => json!({"role": "user", "parts": []}),
    });
    let body = json!({"contents": turns.collect::<Vec<_>>()}).to_string();
    wire(WireId::Gemini)
        .read(&body.into(), Operation::Generate)
        .unwrap()
}

/// Counts the turns that `work` parses, in units of one model turn.
fn looks<T>(view: &View, work: impl FnOnce() -> T) -> (u64, T) {
    let last = view
        .turns
        .iter()
        .rposition(|turn| turn.role == Role::Assistant)
        .unwrap();
    let (each, _) = cost::of(|| view.content(last));
    let (steps, done) = cost::of(work);
    (steps.div_ceil(each), done)
}

fn keys(view: &View, back: usize) -> Vec<String> {
    let mut memo = CallMemo::default();
    let models = |t: &usize| view.turns[*t].role == Role::Assistant;
    let turns = (0..view.turns.len()).rev().filter(models);
    let keys = turns.flat_map(|turn| calls_of(view).names(turn, &mut memo));
    keys.take(back).collect()
}

#[test]
fn a_walk_looks_at_each_turn_once() {
    for turns in [100, 10_000] {
        let apart = |n: usize| {
            if n.is_multiple_of(2) {
                Role::User
            } else {
                Role::Assistant
            }
        };
        let together = |n: usize| if n == 0 { Role::User } else { Role::Assistant };
        for view in [view((0..turns).map(apart)), view((0..turns).map(together))] {
            let (looks, mut all) = looks(&view, || keys(&view, usize::MAX));
            let calls = all.len();
            // Ten percent more, because the parts found are inspected as well.
            assert!(
                looks <= calls as u64 * 11 / 10 + 2,
                "{looks} looks at {calls} turns of the model's"
            );
            all.sort();
            all.dedup();
            assert_eq!(all.len(), calls, "all are told apart");
        }
        // From the end, only as many turns as requested: a message and the one before it.
        let view = view((0..turns).map(apart));
        let (looks, _) = looks(&view, || keys(&view, 1));
        assert!(looks <= 3, "{looks}");
    }
}

#[test]
fn the_answer_stands_where_the_next_request_has_it() {
    use Role::{Assistant, Tool, User};
    let user_turns = [User, Assistant, Tool, Tool];
    let answered = [&user_turns[..], &[Assistant, Assistant, Tool]].concat();
    let answer = calls_of(&view(user_turns.into_iter())).place_of_answer();
    let mut memo = CallMemo::default();
    let names = calls_of(&view(answered.into_iter())).names(4, &mut memo);
    let key = crate::record::sibling_key(&names[0]);
    assert!(key.ends_with(&format!("{answer:016x}")), "{key}");
    // After a message that the response continues.
    let begun = [&user_turns[..], &[Assistant]].concat();
    assert_eq!(calls_of(&view(begun.into_iter())).place_of_answer(), answer);
}

#[test]
fn a_call_keeps_its_distance_from_the_end() {
    use Role::{Assistant, User};
    let before = view([User, Assistant, User, Assistant, User].into_iter());
    let key = keys(&before, usize::MAX).remove(1);
    let settled = calls_of(&before).settled(&[&key, "x"], 0);
    let cut = view([User, Assistant, User, Assistant, User].into_iter().skip(1));
    let found = |view: &View, key: &str| calls_of(view).find(&[key], 0)[0].map(|at| at.turn);
    assert_eq!(found(&before, &key), Some(1));
    assert_eq!(found(&before, &settled[0]), Some(1));
    assert_eq!(found(&cut, &settled[0]), Some(0));
    assert_eq!(found(&before, &settled[1]), None);
}

/// Calls of baton in the transcript are not counted on the way back from its end.
#[test]
fn a_distance_from_the_end_counts_the_agents_calls_alone() {
    let gemini =
        |name: &str| json!({"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]});
    let ollama = |name: &str| json!({"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {}}}]});
    let bodies = [
        (
            WireId::Gemini,
            json!({"contents": [gemini("read_file"), gemini(TOOL_NAME)]}),
        ),
        (
            WireId::Ollama,
            json!({"model": "m", "messages": [ollama("read_file"), ollama(TOOL_NAME)]}),
        ),
    ];
    for (id, body) in bodies {
        let wire = wire(id);
        let view = wire.read(&body.to_string().into(), Operation::Generate).unwrap();
        let found = view.find_calls(&[&format!("{FROM_END}1"), &format!("{FROM_END}2")], 0);
        let turns: Vec<_> = found.into_iter().map(|at| at.map(|at| at.turn)).collect();
        assert_eq!(turns, [Some(0), None], "{id:?}");
    }
}

/// A chat transcript with these calls in each message of the model, all of them with results.
fn chat(ids: &[&[&str]]) -> View {
    let mut messages = vec![json!({"role": "user", "content": "Go."})];
    for (turn, ids) in ids.iter().enumerate() {
        let call = |(n, id): (usize, &&str)| {
            let arguments = format!("{turn}.{n}");
            json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
        };
        let calls: Vec<_> = ids.iter().enumerate().map(call).collect();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
        messages.extend(
            ids.iter()
                .map(|id| json!({"role": "tool", "tool_call_id": id, "content": "ok"})),
        );
    }
    let body = json!({"model": "m", "messages": messages}).to_string();
    wire(WireId::OpenaiChat)
        .read(&body.into(), Operation::Generate)
        .unwrap()
}

/// Finds the call with this number in the response to `before`.
fn found_again(before: &View, id: &str, number: usize, later: &View) -> Option<(usize, usize)> {
    let place = InsertionPoint::Beside {
        sibling: crate::wire::in_answer(id, number),
        offset: 0,
    };
    let place = before.placed(place);
    let names: Vec<String> = (0..later.turns.len())
        .filter(|turn| later.turns[*turn].role == Role::Assistant)
        .flat_map(|turn| later.call_names(turn, &mut CallMemo::default()))
        .collect();
    let found = later.find_calls(&[place.sibling()], 0)[0];
    // The name by which the store finds the pair belongs to a call of the transcript.
    let is_named = names.iter().any(|name| name == place.sibling());
    assert!(found.is_none() || is_named, "{place:?} {names:?}");
    let call = found.map(|at| (at.turn, at.part))?;
    let first = later
        .content(call.0)
        .parts
        .iter()
        .position(|part| part.kind == TurnPartKind::Call);
    Some((call.0, call.1 - first.unwrap_or_default()))
}

#[test]
fn ids_that_begin_anew_in_each_response_are_told_apart() {
    for id in ["", "0", "call_0"] {
        let before = chat(&[&[id], &[id]]);
        let later = chat(&[&[id], &[id], &[id, id], &[id]]);
        for number in [0, 1] {
            assert_eq!(
                found_again(&before, id, number, &later),
                Some((5, number)),
                "{id:?}"
            );
        }
    }
    // An id that does not repeat is found wherever its call is.
    let before = chat(&[&["f:0"], &["f:1"]]);
    assert_eq!(
        found_again(&before, "f:2", 0, &chat(&[&["f:0"], &["f:1"], &["f:2"]])),
        Some((5, 0))
    );
    let random = "call_a1b2c3d4";
    assert_eq!(found_again(&before, random, 0, &chat(&[&[random]])), Some((1, 0)));
    // An ambiguous one is not placed at all.
    let before = chat(&[&["call_0"], &["call_0"]]);
    let pruned = chat(&[&["call_0"], &["call_0"]]);
    assert_eq!(found_again(&before, "call_0", 0, &pruned), None);
}
