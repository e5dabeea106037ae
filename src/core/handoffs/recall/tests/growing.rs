use proptest::prelude::*;

use super::*;

const SENTINEL: &str = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n*Handed over. From here on the model knows only what \
                        follows.*\n\nGoal: thing 3 on the engine.\n[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]";

fn message(kind: u8, n: usize) -> Vec<Value> {
    let id = format!("t{n}");
    match kind % 6 {
        0 => vec![user(&format!("Please do thing {n}. It must stay small."))],
        1 => vec![model(&format!("Decided to use engine {n} because it is small."))],
        2 => ran(
            &id,
            &format!("cargo test -p a{n}"),
            "Exit code 1\nerror: no engine",
            true,
        )
        .to_vec(),
        3 => ran("same", "cargo test", "ok", false).to_vec(),
        4 => called(
            &id,
            "Edit",
            json!({"file_path": format!("src/{n}.rs")}),
            "small",
            false,
        )
        .to_vec(),
        _ => vec![model(SENTINEL)],
    }
}

proptest! {
    /// Whatever an agent resends, cuts off or rewrites, and wherever the cut is: the index is the one that the last
    /// request alone would make, and answers the same.
    #[test]
    fn an_index_that_grew_is_equal_to_a_fresh_one(
        kinds in proptest::collection::vec(0_u8..6, 1..24),
        steps in proptest::collection::vec((1_usize..24, any::<bool>(), 0_usize..4000), 1..6),
    ) {
        let all: Vec<Value> = kinds.iter().enumerate().flat_map(|(n, kind)| message(*kind, n)).collect();
        let mut grown = RecallIndex::default();
        for (len, breakpoint, end) in steps {
            let mut messages = all[..len.min(all.len())].to_vec();
            if let Some(last) = messages.last_mut().filter(|_| breakpoint) {
                // As agents mark the end of what is to be cached.
                last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            let view = view(&messages);
            // Inside of a message, too: where a sentinel is.
            let text = view.str(view.list).into_owned();
            let at = text.match_indices("[[handoff-resume").map(|(at, _)| view.list.start + at);
            let ends: Vec<usize> = at.chain(view.turns.iter().map(|turn| turn.span.end)).collect();
            let cut = CutPart { end: ends[end % ends.len()], ..whole(&view) };
            grown.extend(&cut, &settings());
            let mut fresh = RecallIndex::default();
            fresh.extend(&cut, &settings());
            prop_assert_eq!(&grown.passages, &fresh.passages);
            prop_assert_eq!(grown.extent(), fresh.extent());
            for query in ["engine small", "failed test", "src/4.rs", "sentinel resume", "enginr"] {
                prop_assert_eq!(
                    grown.answer(&cut, &settings(), &question(query)),
                    fresh.answer(&cut, &settings(), &question(query))
                );
            }
        }
    }
}

#[test]
fn only_what_is_new_is_read() {
    let mut messages: Vec<Value> = (0..50).flat_map(|n| message(n % 5, usize::from(n))).collect();
    let mut index = RecallIndex::default();
    let mut extend = |messages: &[Value]| index.extend(&whole(&view(messages)), &settings());
    assert_eq!(extend(&messages), messages.len());
    messages.extend(message(4, 99));
    assert_eq!(extend(&messages), 2);
    assert_eq!(extend(&messages), 0);
    // A rewind.
    messages.truncate(10);
    assert_eq!(extend(&messages), 0);
    assert_eq!(index.passages.last().unwrap().turn, 9);
}
