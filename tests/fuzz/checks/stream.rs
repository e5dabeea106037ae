//! A stream of any wire gives the agent the same bytes however it was split, with a hidden call or without.

use std::sync::LazyLock;

use super::pieces;
use baton_core::response::StreamMerge;
use baton_core::rewrite::RequestReading;
use baton_core::tools::ToolNames;
use baton_core::wire::{Ending, Operation, ResponseWatch, WIRES};
use bytes::Bytes;

const REQUESTS: [&str; 5] = [
    r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    r#"{"model":"m","stream":true,"input":[{"role":"user","content":"hi"}]}"#,
    r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
    r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
];

/// The requests, read once.
static READINGS: LazyLock<Vec<RequestReading>> = LazyLock::new(|| {
    let read = |(at, text): (usize, &&'static str)| {
        let body = Bytes::from_static(text.as_bytes());
        RequestReading::new(WIRES[at], &body, Operation::Generate).unwrap_or_else(|why| panic!("{why:?}"))
    };
    REQUESTS.iter().enumerate().map(read).collect()
});

/// What the agent gets of these chunks, and what is reported of them.
fn answered(at: usize, chunks: Vec<Bytes>) -> (Vec<u8>, String) {
    let watch = ResponseWatch {
        hide: ToolNames::HANDOFF,
        buffered_bytes: 4096,
    };
    let mut merge = StreamMerge::new(WIRES[at].machine(&READINGS[at].view, watch), usize::MAX / 2, true);
    let mut out = Vec::new();
    for chunk in chunks {
        merge.feed(chunk, &mut out);
    }
    merge.finish_leg(&mut out);
    let report = format!("{:?}", merge.report());
    merge.close(Ending::WithoutCall, &mut out);
    (out.concat(), report)
}

pub fn check(input: &[u8]) {
    let [wire, first, second, text @ ..] = input else {
        return;
    };
    let at = usize::from(*wire) % WIRES.len();
    let whole = answered(at, vec![Bytes::copy_from_slice(text)]);
    let split = answered(at, pieces(text, [*first, *second]));
    assert_eq!(whole.1, split.1);
    assert_eq!(
        String::from_utf8_lossy(&whole.0),
        String::from_utf8_lossy(&split.0)
    );
}
