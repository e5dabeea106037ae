//! Reading costs steps in proportion to the size, whatever a transcript is made of: at 10 KB, 1 MB and 10 MB.

use super::*;
use crate::text::steps;

const SIZES: [usize; 3] = [10_000, 1_000_000, 10_000_000];

/// How much more a byte may cost in the largest body than in the smallest one.
const MORE: f64 = 1.6;

/// Everything that can be asked of a request.
fn read_all(view: &View) -> usize {
    let transcript = Transcript::of(view);
    let mut read = 0;
    for turn in transcript.turns() {
        for part in turn.parts() {
            read += part.texts().iter().map(|text| text.get().len()).sum::<usize>();
            if let Kind::Call(call) = part.kind {
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

#[test]
fn a_request_costs_as_much_as_it_is_long() {
    let ask = r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}"#;
    let answer = r#"{"type":"tool_result","tool_use_id":"t","content":"Exit code 1","is_error":true}"#;
    let messages = |assistant: &str, user: &str| {
        format!(r#"{{"role":"assistant","content":[{assistant}]}},{{"role":"user","content":[{user}]}}"#)
    };
    let shapes: [(&str, &dyn Fn(usize) -> String); 7] = [
        ("calls of one id", &|size| {
            let all = fill(ask, size / 2).join(",");
            messages(&all, &fill(answer, size / 2).join(","))
        }),
        ("results of nothing", &|size| {
            messages("", &fill(answer, size).join(","))
        }),
        ("one text", &|size| {
            let text = fill(r#"a\n\"b\" "#, size).concat();
            messages(&format!(r#"{{"type":"text","text":"{text}"}}"#), "")
        }),
        ("brackets in a text", &|size| {
            let text = fill("[{", size).concat();
            messages(&format!(r#"{{"type":"text","text":"{text}"}}"#), "")
        }),
        ("brackets in each other", &|size| {
            let deep = format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2));
            messages(
                "",
                &format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{deep}}}"#),
            )
        }),
        ("members of one message", &|size| {
            let all = fill(r#","content":"x","type":"message""#, size).concat();
            format!(r#"{{"role":"user"{all}}}"#)
        }),
        ("marks", &|size| {
            let line = "[[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\n";
            messages(
                &format!(r#"{{"type":"text","text":"{}"}}"#, fill(line, size).concat()),
                "",
            )
        }),
    ];
    for (name, shape) in shapes {
        costs(name, |size| {
            let body = format!(
                r#"{{"model":"m","system":"You are Claude Code","messages":[{}]}}"#,
                shape(size)
            );
            let bytes = body.len();
            let view = view("anthropic", body);
            (steps::of(|| read_all(&view)).0, bytes)
        });
    }
}

#[test]
fn an_answer_costs_as_much_as_it_is_long() {
    let event = r#"data: {"choices":[{"delta":{"content":"word "}}]}"#;
    for (name, line) in [
        ("events", event),
        ("events that break off", "data: {\"a\":[{"),
        ("quotes", "data: \""),
    ] {
        costs(name, |size| {
            let body = format!("{line}\n").repeat(size / line.len());
            let read = || {
                Answered::of(body.as_bytes())
                    .as_read()
                    .map_or(0, |text| text.len())
            };
            (steps::of(read).0 + body.len() as u64, body.len())
        });
    }
}
