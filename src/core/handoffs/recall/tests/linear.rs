use std::time::Duration;

use super::*;
use crate::handoffs::draft::tests::linear::worked;
use crate::text::cost::at_sizes;

/// Size of the largest transcript in bytes.
const LARGEST: usize = 400_000;

/// The best of three runs, in processor time of the current thread.
fn time(messages: &[Value], query: &str) -> Duration {
    let view = view(messages);
    let once = || {
        let _ = RecallIndex::new(&whole(&view), &settings()).answer(&question(query));
    };
    (0..3).map(|_| worked(once)).min().unwrap()
}

at_sizes! {
    hostile_transcripts_cost_time_in_proportion_to_their_size
}

/// Checks that ten times the size takes about ten times as long.
///
/// A hundred times as long would reveal a search that starts over.
fn hostile_transcripts_cost_time_in_proportion_to_their_size(sizes: &[usize]) {
    // Each part has about 100 bytes.
    let count = sizes.last().map_or(0, |size| *size.min(&LARGEST)) / 100;
    type BodyMaker = fn(usize) -> Vec<Value>;
    let shapes: [(&str, BodyMaker); 6] = [
        ("calls in one message, answered in one", |n| {
            let calls = (0..n).map(|i| json!({"type": "tool_use", "id": format!("c{i}"), "name": "Edit", "input": {"file_path": "src/a.rs"}}));
            let results = (0..n).map(|i| json!({"type": "tool_result", "tool_use_id": format!("c{i}"), "content": "error: x", "is_error": true}));
            vec![
                user("go"),
                json!({"role": "assistant", "content": calls.collect::<Vec<_>>()}),
                json!({"role": "user", "content": results.collect::<Vec<_>>()}),
            ]
        }),
        ("calls of one id", |n| {
            (0..n)
                .flat_map(|_| ran("same", "make error", "x", true))
                .collect()
        }),
        ("lines of ours", |n| {
            let line = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nerror\n";
            vec![user("go"), model(&line.repeat(n))]
        }),
        ("one word of letters", |n| {
            vec![
                user("go"),
                model(&"error/".repeat(20 * n)),
                model(&"é".repeat(20 * n)),
            ]
        }),
        ("words that look alike", |n| {
            vec![
                user("go"),
                model(&(0..n).map(|i| format!("errox{i} ")).collect::<String>()),
            ]
        }),
        ("tags that never close", |n| {
            vec![user(&"<system-reminder>".repeat(n)), model("error")]
        }),
    ];
    for (name, make) in shapes {
        for query in ["error in src/a.rs", "errov"] {
            let small = time(&make(count / 10), query).max(Duration::from_millis(4));
            let large = time(&make(count), query);
            assert!(large < small * 40, "{name}, {query}: {small:?}, then {large:?}");
        }
    }
}
