//! Transcripts for any wire, from a seeded generator.
//!
//! A transcript is a question followed by rounds of a short text, a tool call and its result.

use baton_core::record::WireId;

use crate::history::{self, Seeded};

/// The text of a round, with its escapes.
struct Round {
    n: usize,
    say: String,
    note: String,
    result: String,
}

/// Returns a request of about this many bytes.
pub(crate) fn body(wire: WireId, bytes: usize) -> Vec<u8> {
    let mut random = Seeded::new(1);
    let asked = history::text(&mut random, 800);
    let mut turns = vec![match wire {
        WireId::Gemini => format!(r#"{{"role":"user","parts":[{{"text":"{asked}"}}]}}"#),
        _ => format!(r#"{{"role":"user","content":"{asked}"}}"#),
    }];
    let mut size = turns[0].len();
    while size < bytes {
        let result = [300, 900, 2_500, 6_000][random.below(4)];
        let round = Round {
            n: turns.len(),
            say: history::text(&mut random, 160),
            note: history::text(&mut random, 90),
            result: history::text(&mut random, result),
        };
        let text = round.spoken(wire);
        size += text.len();
        turns.push(text);
    }
    let list = match wire {
        WireId::OpenaiResponses => "input",
        WireId::Gemini => "contents",
        _ => "messages",
    };
    format!(r#"{{"model":"m","{list}":[{}]}}"#, turns.join(",")).into_bytes()
}

impl Round {
    fn spoken(&self, wire: WireId) -> String {
        let Self { n, say, note, result } = self;
        match wire {
            WireId::Anthropic => format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"{say}"}},{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{"command":"ls","note":"{note}"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":[{{"type":"text","text":"{result}"}}]}}]}}"#
            ),
            WireId::OpenaiChat => format!(
                r#"{{"role":"assistant","content":"{say}","tool_calls":[{{"id":"t{n}","type":"function","function":{{"name":"shell","arguments":"{{\"command\":\"ls\"}}"}}}}],"reasoning_content":"{note}"}},{{"role":"tool","tool_call_id":"t{n}","content":"{result}"}}"#
            ),
            WireId::OpenaiResponses => format!(
                r#"{{"type":"reasoning","summary":[{{"type":"summary_text","text":"{note}"}}]}},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{say}"}}]}},{{"type":"function_call","call_id":"t{n}","name":"shell","arguments":"{{\"command\":\"ls\"}}"}},{{"type":"function_call_output","call_id":"t{n}","output":"{result}"}}"#
            ),
            WireId::Gemini => format!(
                r#"{{"role":"model","parts":[{{"text":"{say}"}},{{"functionCall":{{"name":"run_shell_command","args":{{"command":"ls","note":"{note}"}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"run_shell_command","response":{{"output":"{result}"}}}}}}]}}"#
            ),
            WireId::Ollama => format!(
                r#"{{"role":"assistant","content":"{say}","thinking":"{note}","tool_calls":[{{"function":{{"name":"shell","arguments":{{"command":"ls"}}}}}}]}},{{"role":"tool","tool_name":"shell","content":"{result}"}}"#
            ),
        }
    }
}
