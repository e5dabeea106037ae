//! The cost of reading is proportional to the size, for any content of the transcript.

use super::*;
use crate::text::cost::{self, at_sizes};

/// Maximum ratio of the cost per byte between the largest and the smallest body.
const MORE: f64 = 1.6;

at_sizes! {
    calls_of_one_id
    results_without_calls
    a_text_with_escapes
    brackets_in_a_text
    nested_lists
    a_message_with_many_members
    marks
    events
    events_that_break_off
    quotes_without_an_end
}

/// Reads everything that a transcript can be asked for.
fn read_all(view: &View) -> usize {
    let transcript = Transcript::from_view(view);
    let mut read = 0;
    for turn in transcript.turns() {
        for part in turn.parts() {
            read += part.texts().iter().map(|text| text.get().len()).sum::<usize>();
            if let TranscriptPartKind::Call(call) = part.kind {
                read += call.arguments.map_or(0, |arguments| arguments.get().len());
            }
        }
        read += texts(turn.raw()).map_or(0, |all| all.len());
    }
    let agent = transcript.agent();
    read += transcript.tool_names().len() + usize::from(transcript.turn_of(uuid::Uuid::nil()).is_some());
    for tool in transcript.tool_uses() {
        read += usize::from(tool.end(agent).code.is_some());
    }
    read
}

fn fill(piece: &str, size: usize) -> Vec<&str> {
    vec![piece; size / piece.len()]
}

fn costs(name: &str, sizes: &[usize], mut cost: impl FnMut(usize) -> (u64, usize)) {
    let per_byte = sizes.iter().map(|size| {
        let (steps, bytes) = cost(*size);
        steps as f64 / bytes as f64
    });
    let per_byte: Vec<f64> = per_byte.collect();
    let most = per_byte[0] * MORE;
    assert!(per_byte.iter().all(|cost| *cost <= most), "{name}: {per_byte:?}");
}

/// Checks that the cost of a request is proportional to its length. `turns` makes messages of about that many
/// bytes.
fn request(sizes: &[usize], turns: impl Fn(usize) -> String) {
    costs("a request", sizes, |size| {
        let turns = turns(size);
        let body = format!(r#"{{"model":"m","system":"You are Claude Code","messages":[{turns}]}}"#);
        let bytes = body.len();
        let view = view("anthropic", body);
        (cost::of(|| read_all(&view)).0, bytes)
    });
}

fn messages(assistant: &str, user: &str) -> String {
    format!(r#"{{"role":"assistant","content":[{assistant}]}},{{"role":"user","content":[{user}]}}"#)
}

fn texts_of(text: &str) -> String {
    messages(&format!(r#"{{"type":"text","text":"{text}"}}"#), "")
}

const ANSWER: &str = r#"{"type":"tool_result","tool_use_id":"t","content":"Exit code 1","is_error":true}"#;

fn calls_of_one_id(sizes: &[usize]) {
    let ask = r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}"#;
    request(sizes, |size| {
        let all = fill(ask, size / 2).join(",");
        messages(&all, &fill(ANSWER, size / 2).join(","))
    });
}

fn results_without_calls(sizes: &[usize]) {
    request(sizes, |size| messages("", &fill(ANSWER, size).join(",")));
}

fn a_text_with_escapes(sizes: &[usize]) {
    request(sizes, |size| texts_of(&fill(r#"a\n\"b\" "#, size).concat()));
}

fn brackets_in_a_text(sizes: &[usize]) {
    request(sizes, |size| texts_of(&fill("[{", size).concat()));
}

fn nested_lists(sizes: &[usize]) {
    request(sizes, |size| {
        let deep = format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2));
        let result = format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{deep}}}"#);
        messages("", &result)
    });
}

fn a_message_with_many_members(sizes: &[usize]) {
    request(sizes, |size| {
        let all = fill(r#","content":"x","type":"message""#, size).concat();
        format!(r#"{{"role":"user"{all}}}"#)
    });
}

fn marks(sizes: &[usize]) {
    let line = "[[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\n";
    request(sizes, |size| texts_of(&fill(line, size).concat()));
}

/// Checks that the cost of a response of one repeated line is proportional to its length.
fn answer(sizes: &[usize], line: &str) {
    costs("an answer", sizes, |size| {
        let body = format!("{line}\n").repeat(size / line.len());
        let read = || {
            let parts = AnswerContent::from_body(body.as_bytes()).parts;
            parts.iter().map(|part| part.text().len()).sum::<usize>()
        };
        (cost::of(read).0 + body.len() as u64, body.len())
    });
}

fn events(sizes: &[usize]) {
    answer(sizes, r#"data: {"choices":[{"delta":{"content":"word "}}]}"#);
}

fn events_that_break_off(sizes: &[usize]) {
    answer(sizes, "data: {\"a\":[{");
}

fn quotes_without_an_end(sizes: &[usize]) {
    answer(sizes, "data: \"");
}
