//! Input that is not a transcript: arbitrary JSON made of the members that readers look for, and arbitrary
//! bytes.
//!
//! Nothing panics, and no span leaves the body.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ROLES: [Role; 6] = [
    Role::System,
    Role::User,
    Role::Assistant,
    Role::Tool,
    Role::Tools,
    Role::Other,
];

/// Names of members, of any wire.
const KEYS: &str = "
    role type content parts text thinking thought id call_id tool_use_id tool_call_id tool_name name
    input arguments args action output summary is_error functionCall function_response response
    error tool_calls function function_call reasoning reasoning_content images refusal inlineData
    mimeType tools system messages choices delta message candidates done object index outcome
";

const WORDS: [&str; 22] = [
    "user",
    "assistant",
    "tool",
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "image",
    "function_call",
    "function_call_output",
    "shell_call_output",
    "reasoning",
    "namespace",
    "message",
    "response",
    "content_block_delta",
    "response.output_text.delta",
    "Bash",
    "image/png",
    "Exit code 1",
    "\\\"\u{e4}\n",
    "{\"a\":[",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let member = (
            prop::sample::select(KEYS.split_whitespace().collect::<Vec<_>>()),
            inner.clone(),
        );
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            prop::collection::vec(member, 0..6).prop_map(|all| {
                let all = all.into_iter().map(|(key, value)| (key.to_owned(), value));
                Value::Object(all.collect())
            }),
        ]
    })
}

/// Reads everything from a body, and checks the spans.
fn read(body: &[u8]) {
    let inside = |span: Span| assert!(span.start <= span.end && span.end <= body.len(), "{span:?}");
    for role in ROLES {
        let turn = TranscriptTurn::alone(body, role);
        let _ = turn.time();
        for part in turn.parts() {
            spans(&part).into_iter().for_each(inside);
            let _ = format!("{part:?}");
        }
    }
    let around = Surroundings::from_body(body);
    around
        .system
        .iter()
        .flat_map(SystemPrompt::texts)
        .for_each(|text| inside(text.span));
    for tool in around.tools.iter().flat_map(OfferedTool::single) {
        inside(tool.span);
        let texts = [tool.name(), tool.description()];
        texts.into_iter().flatten().for_each(|text| inside(text.span));
    }
    for part in AnswerContent::from_body(body).parts {
        part.pieces.iter().copied().for_each(inside);
        let _ = part.text();
    }
    for text in texts(body).into_iter().flatten() {
        inside(text.span);
        let _ = text.get();
    }
    for wire in WIRES {
        let Ok(view) = wire.read(&Bytes::copy_from_slice(body), Operation::Generate) else {
            continue;
        };
        let transcript = Transcript::from_view(&view);
        let agent = transcript.agent();
        for tool in transcript.tool_uses() {
            let _ = (tool.end(agent), tool.end(None));
        }
        let _ = (transcript.tool_names(), transcript.turn_of(uuid::Uuid::nil()));
    }
}

proptest! {
    #[test]
    fn arbitrary_json_is_read(value in value()) {
        read(value.to_string().as_bytes());
        let messages = json!([value]);
        for list in ["messages", "input", "contents"] {
            read(json!({ list: messages }).to_string().as_bytes());
        }
    }

    #[test]
    fn arbitrary_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..400) {
        read(&bytes);
        let body = json!({"messages": [{"role": "tool", "content": String::from_utf8_lossy(&bytes)}]}).to_string();
        read(&body.as_bytes()[..cut.min(body.len())]);
    }

    #[test]
    fn a_beginning_is_cut_between_characters(text in any::<String>(), bytes in 0usize..40) {
        let literal = json!(text).to_string();
        let whole = JsonText::literal(literal.as_bytes(), Span::new(0, literal.len())).unwrap();
        prop_assert_eq!(whole.get(), text.as_str());
        prop_assert!(text.starts_with(&*whole.beginning(bytes)));
    }
}

#[test]
fn golden_requests_that_break_off_are_read() {
    for wire in WIRES {
        let path = format!(
            "{}/tests/golden/transcripts/{}_kinds.json",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../.."),
            wire.id().name()
        );
        let body = std::fs::read(path).unwrap();
        for cut in (0..body.len()).step_by(7) {
            read(&body[..cut]);
        }
    }
}
