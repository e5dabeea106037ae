use super::*;
use crate::record::WireId;
use crate::text::cost;
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
