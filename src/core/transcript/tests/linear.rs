//! Reading costs steps in proportion to the size, whatever a transcript is made of: at 10 KB, 1 MB and 10 MB.

use super::*;
use crate::text::cost;

const SIZES: [usize; 3] = [10_000, 1_000_000, 10_000_000];

/// Maximum ratio of the cost per byte in the largest and the smallest body.
const MORE: f64 = 1.6;

/// Every question about a request.
fn read_all(view: &View) -> usize {
    let transcript = Transcript::of(view);
    let mut read = 0;
    for turn in transcript.turns() {
        for part in turn.parts() {
            read += part.texts().iter().map(|text| text.get().len()).sum::<usize>();
            if let TranscriptPartKind::Call(call) = part.kind {
                read += call.arguments.map_or(0, |arguments| arguments.get().len());
            }
        }
        read += as_read(turn.span.of(&view.body)).map_or(0, |text| text.len());
    }
    let agent = transcript.agent();
    read += transcript.tool_names().len() + transcript.marks().len();
    for tool in transcript.tool_uses() {
        read += usize::from(tool.exit(agent).is_some());
    }
    read + transcript.preamble(&["<x".to_owned()]).parts
}

fn fill(piece: &str, size: usize) -> Vec<&str> {
    vec![piece; size / piece.len()]
}

fn costs(name: &str, mut cost: impl FnMut(usize) -> (u64, usize)) {
    let per_byte = SIZES.map(|size| {
        let (steps, bytes) = cost(size);
        steps as f64 / bytes as f64
    });
    assert!(per_byte[2] <= per_byte[0] * MORE, "{name}: {per_byte:?}");
}

/// The cost of a request is proportional to its length. `turns` makes messages of about so many bytes.
fn request(turns: impl Fn(usize) -> String) {
    costs("a request", |size| {
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

#[test]
fn calls_of_one_id() {
    let ask = r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}"#;
    request(|size| {
        let all = fill(ask, size / 2).join(",");
        messages(&all, &fill(ANSWER, size / 2).join(","))
    });
}

#[test]
fn results_without_calls() {
    request(|size| messages("", &fill(ANSWER, size).join(",")));
}

#[test]
fn a_text_with_escapes() {
    request(|size| texts_of(&fill(r#"a\n\"b\" "#, size).concat()));
}

#[test]
fn brackets_in_a_text() {
    request(|size| texts_of(&fill("[{", size).concat()));
}

#[test]
fn nested_lists() {
    request(|size| {
        let deep = format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2));
        let result = format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{deep}}}"#);
        messages("", &result)
    });
}

#[test]
fn a_message_with_many_members() {
    request(|size| {
        let all = fill(r#","content":"x","type":"message""#, size).concat();
        format!(r#"{{"role":"user"{all}}}"#)
    });
}

#[test]
fn marks() {
    let line = "[[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\n";
    request(|size| texts_of(&fill(line, size).concat()));
}

/// The cost of an answer is proportional to its length: one line, repeated.
fn answer(line: &str) {
    costs("an answer", |size| {
        let body = format!("{line}\n").repeat(size / line.len());
        let read = || {
            AnswerContent::of(body.as_bytes())
                .as_read()
                .map_or(0, |text| text.len())
        };
        (cost::of(read).0 + body.len() as u64, body.len())
    });
}

#[test]
fn events() {
    answer(r#"data: {"choices":[{"delta":{"content":"word "}}]}"#);
}

#[test]
fn events_that_break_off() {
    answer("data: {\"a\":[{");
}

#[test]
fn quotes_without_an_end() {
    answer("data: \"");
}
