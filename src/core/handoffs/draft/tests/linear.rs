use std::time::Duration;

use super::*;
use crate::text::cost::at_sizes;

/// Processor time of the current thread, which excludes other work on the machine.
pub(crate) fn worked(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap()
    };
    let began = now();
    work();
    now() - began
}

/// Size of the largest transcript in bytes.
const LARGEST: usize = 400_000;

/// The best of three runs.
fn time(messages: &[Value]) -> Duration {
    let view = view(messages);
    let once = || {
        let index = DraftIndex::from_transcript(settings(), &Transcript::from_view(&view));
        let _ = (
            index.local(&request(4000)),
            index.bundle(&request(4000)),
            index.completed("x", &request(0)),
            index.seen().claims("All tests pass."),
        );
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
    type TranscriptMaker = fn(usize) -> Vec<Value>;
    let shapes: [(&str, TranscriptMaker); 6] = [
        ("calls in one message, answered in one", |n| {
            let calls = (0..n).map(|i| json!({"type": "tool_use", "id": format!("c{i}"), "name": "Bash", "input": {"command": format!("make a{i}")}}));
            let results = (0..n).map(|i| json!({"type": "tool_result", "tool_use_id": format!("c{i}"), "content": "error: x", "is_error": true}));
            vec![
                user("go"),
                json!({"role": "assistant", "content": calls.collect::<Vec<_>>()}),
                json!({"role": "user", "content": results.collect::<Vec<_>>()}),
            ]
        }),
        ("summaries and their followers", |n| {
            (0..n)
                .flat_map(|i| {
                    [
                        user(&format!("a{i}")),
                        model("Part of your context was compacted."),
                    ]
                })
                .collect()
        }),
        ("followers without a summary", |n| {
            let follower = || model("Part of your context was compacted.");
            std::iter::once(user("go"))
                .chain((0..n).map(|_| follower()))
                .collect()
        }),
        ("files that are changed and taken away", |n| {
            let edit = |i: usize| {
                called(
                    &format!("e{i}"),
                    "Edit",
                    json!({"file_path": format!("src/{i}.rs")}),
                    "ok",
                    false,
                )
            };
            let gone = |i: usize| {
                ran(
                    &format!("r{i}"),
                    &format!("rm other{i} && make a{i}"),
                    "ok",
                    false,
                )
            };
            let all = (0..n / 4).flat_map(|i| edit(i).into_iter().chain(gone(i)));
            std::iter::once(user("go")).chain(all).collect()
        }),
        ("one long line", |n| {
            vec![user("go"), model(&"must [redacted:a] src/a.rs: error ".repeat(n))]
        }),
        ("tags that never close", |n| {
            vec![user(&"<system-reminder>".repeat(n)), model("x")]
        }),
    ];
    for (name, make) in shapes {
        let small = time(&make(count / 10)).max(Duration::from_millis(4));
        let large = time(&make(count));
        assert!(large < small * 40, "{name}: {small:?}, then {large:?}");
    }
}
