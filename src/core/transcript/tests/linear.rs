//! The cost of reading is proportional to the size, for any content of the transcript.

use super::*;
use crate::text::cost::{self, assert_linear, at_sizes};

at_sizes! {
    requests
    answers
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

fn messages(assistant: &str, user: &str) -> String {
    format!(r#"{{"role":"assistant","content":[{assistant}]}},{{"role":"user","content":[{user}]}}"#)
}

fn repeated_text(piece: &str, size: usize) -> String {
    let text = fill(piece, size).concat();
    messages(&format!(r#"{{"type":"text","text":"{text}"}}"#), "")
}

const CALL: &str = r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}"#;
const ANSWER: &str = r#"{"type":"tool_result","tool_use_id":"t","content":"Exit code 1","is_error":true}"#;

/// Messages of about this many bytes.
type Turns = fn(usize) -> String;

fn requests(sizes: &[usize]) {
    let cases: [(&str, Turns); 7] = [
        ("calls of one id", |size| {
            messages(&fill(CALL, size / 2).join(","), &fill(ANSWER, size / 2).join(","))
        }),
        ("results without calls", |size| {
            messages("", &fill(ANSWER, size).join(","))
        }),
        ("a text with escapes", |size| repeated_text(r#"a\n\"b\" "#, size)),
        ("brackets in a text", |size| repeated_text("[{", size)),
        ("marks", |size| {
            repeated_text("[[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\n", size)
        }),
        ("nested lists", |size| {
            let deep = format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2));
            messages(
                "",
                &format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{deep}}}"#),
            )
        }),
        ("a message with many members", |size| {
            let all = fill(r#","content":"x","type":"message""#, size).concat();
            format!(r#"{{"role":"user"{all}}}"#)
        }),
    ];
    for (name, turns) in cases {
        assert_linear(name, sizes, |size| {
            let turns = turns(size);
            let body = format!(r#"{{"model":"m","system":"You are Claude Code","messages":[{turns}]}}"#);
            let bytes = body.len();
            let view = view("anthropic", body);
            (cost::of(|| read_all(&view)).0, bytes)
        });
    }
}

/// Responses of one repeated line.
fn answers(sizes: &[usize]) {
    for (name, line) in [
        ("events", r#"data: {"choices":[{"delta":{"content":"word "}}]}"#),
        ("events that break off", "data: {\"a\":[{"),
        ("quotes without an end", "data: \""),
    ] {
        assert_linear(name, sizes, |size| {
            let body = format!("{line}\n").repeat(size / line.len());
            let read = || {
                let parts = AnswerContent::from_body(body.as_bytes()).parts;
                parts.iter().map(|part| part.text().len()).sum::<usize>()
            };
            (cost::of(read).0 + body.len() as u64, body.len())
        });
    }
}
