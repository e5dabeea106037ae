//! Plans do not depend on the order of reads, over random transcripts.

use proptest::prelude::*;

use super::*;

/// A turn of a random transcript.
#[derive(Debug, Clone)]
enum Step {
    Say,
    Call(u8),
    /// A sentinel of this handoff. The last ones are unknown to the store.
    HandOver(u8),
    Sealed(bool),
    Command,
    /// The response is missing.
    Interrupt,
    Undo(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Say),
        2 => (0..4u8).prop_map(Step::Call),
        3 => (0..5u8).prop_map(Step::HandOver),
        1 => proptest::bool::ANY.prop_map(Step::Sealed),
        1 => Just(Step::Command),
        2 => Just(Step::Interrupt),
        2 => (0..5u8).prop_map(Step::Undo),
    ];
    proptest::collection::vec(step, 0..12)
}

fn transcript(steps: &[Step], ids: &[HandoffId]) -> Vec<Value> {
    let mut messages = vec![user(BEFORE)];
    for step in steps {
        match step {
            Step::Say => messages.extend([model("Yes."), user("Go on.")]),
            Step::Call(n) => {
                let id = format!("toolu_{n}");
                let call = json!({"type": "tool_use", "id": id, "name": "run", "input": {}});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
                messages.push(json!({"role": "assistant", "content": [call]}));
                messages.push(json!({"role": "user", "content": [result]}));
            }
            Step::HandOver(n) => messages.extend([model(&short(ids[usize::from(*n)])), user("Go on.")]),
            Step::Sealed(is_ours) => {
                let (id, key) = (Uuid::from_u128(9 << 76), if *is_ours { "local" } else { "alice" });
                let shown = sentinel::full(id, None, PROMPT, &keys().seal(key, id, PROMPT));
                messages.extend([model(&shown), user("Go on.")]);
            }
            Step::Command => {
                messages.extend([user("::pins"), model(&note::answer("none.", Uuid::from_u128(8)))])
            }
            Step::Interrupt => messages.push(user("No, stop.")),
            Step::Undo(n) => {
                let id = ids[usize::from(*n)];
                let answer = note::answer(&format!("the handoff {id} was undone."), id);
                messages.extend([user("::handoff undo"), model(&answer), user("Go on.")]);
            }
        }
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whether records are read ahead or together does not change the plan, and a few reads are enough.
    #[test]
    fn what_is_read_first_changes_no_plan(
        steps in steps(),
        is_copy in proptest::bool::ANY,
        recall in proptest::bool::ANY,
        point in 0..20usize,
    ) {
        let mut script = Script::new();
        let known = [script.handoff(None), script.handoff(None), script.handoff(None)];
        let ids: Vec<HandoffId> = known.into_iter().chain([Uuid::now_v7(), Uuid::now_v7()]).collect();
        let messages = transcript(&steps, &ids);
        script.recall = recall;
        script.live().may_be_copy = is_copy;
        script.live().tooled = (!is_copy).then_some(true);
        script.left_out_elsewhere = ids.clone();
        script.pairs = (0..4).map(|n| pair("c", &format!("toolu_{n}"))).collect();
        script.cut_points = vec![CutPoint {
            handoff: ids[0],
            principal: "local".to_owned(),
            conversation: "origin".to_owned(),
            position: positions::of(&view(&messages[..(point + 1).min(messages.len())])),
            texts: Vec::new(),
            before_command: false,
            created_ms: 1,
        }];
        let mut ahead = script.plan(&messages);
        let mut singly = script.plan_with(request(&messages), Operation::Generate, false);
        for planned in [&mut ahead, &mut singly] {
            let undone = std::mem::take(&mut planned.plan.pin.undone);
            prop_assert!(planned.active().is_none_or(|id| !undone.is_undone(id)));
        }
        prop_assert_eq!(format!("{:?}", ahead.plan), format!("{:?}", singly.plan));
        prop_assert_eq!(&ahead.call.reading.view.body, &singly.call.reading.view.body);
        // The bound does not depend on the transcript's length.
        prop_assert!(ahead.reads.len() <= 12, "{:?}", ahead.reads);
        if let Some(id) = ahead.active() {
            prop_assert!(known.contains(&id) || id == Uuid::from_u128(9 << 76));
        }
    }
}
