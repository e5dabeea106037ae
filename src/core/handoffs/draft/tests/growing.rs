use proptest::prelude::*;

use super::*;

fn message(kind: u8, n: usize) -> Vec<Value> {
    let id = format!("t{n}");
    match kind % 7 {
        0 => vec![user(&format!("Please do thing {n}. It must stay small."))],
        1 => vec![model(&format!("Decided to use engine {n} because it is small."))],
        2 => ran(
            &id,
            &format!("cargo test -p a{n}"),
            "Exit code 1\nerror: no",
            true,
        )
        .to_vec(),
        3 => ran("same", "cargo test", "ok", false).to_vec(),
        4 => called(
            &id,
            "Edit",
            json!({"file_path": format!("src/{n}.rs")}),
            "ok",
            false,
        )
        .to_vec(),
        5 => vec![user("[Request interrupted by user]")],
        _ => vec![model(
            "Your context was compacted. The previous message contains a summary.",
        )],
    }
}

proptest! {
    /// Whatever an agent resends, cuts off or rewrites: the index is the one that its last request alone would make.
    #[test]
    fn an_index_that_grew_is_equal_to_a_fresh_one(
        kinds in proptest::collection::vec(0_u8..7, 1..24),
        steps in proptest::collection::vec((1_usize..24, any::<bool>()), 1..6),
    ) {
        let all: Vec<Value> = kinds.iter().enumerate().flat_map(|(n, kind)| message(*kind, n)).collect();
        let mut grown = index();
        for (len, breakpoint) in steps {
            let mut messages = all[..len.min(all.len())].to_vec();
            if let Some(last) = messages.last_mut().filter(|_| breakpoint) {
                // As agents mark the end of what is to be cached.
                last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            }
            let view = view(&messages);
            grown.extend(&Transcript::of(&view));
            grown.answered(&crate::transcript::AnswerContent::of(br#"{"type":"message","content":[{"type":"text","text":"Done."}]}"#));
            grown.extend(&Transcript::of(&view));
            let fresh = indexed(&messages);
            prop_assert_eq!(&grown.messages, &fresh.messages);
            prop_assert_eq!(grown.rows(), fresh.rows());
            prop_assert_eq!(grown.local(&request(4000)), fresh.local(&request(4000)));
        }
    }
}

#[test]
fn only_what_is_new_is_read() {
    let mut messages: Vec<Value> = (0..50).flat_map(|n| message(n % 5, usize::from(n))).collect();
    let mut index = index();
    let read = index.extend(&Transcript::of(&view(&messages)));
    assert_eq!(read, messages.len());
    messages.extend(message(4, 99));
    assert_eq!(index.extend(&Transcript::of(&view(&messages))), 2);
    assert_eq!(index.extend(&Transcript::of(&view(&messages))), 0);
    // A rewind.
    messages.truncate(10);
    assert_eq!(index.extend(&Transcript::of(&view(&messages))), 0);
    assert_eq!(index.messages.len(), 10);
}
