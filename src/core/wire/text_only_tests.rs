//! Requests that ask only for text, on every wire: the edits, and that all other bytes stay unchanged.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{LoneText, Operation, TextOnly, ToolChoice, View, WIRES, Wire, wire};
use crate::record::WireId;
use crate::rewrite::{RequestReading, lone_text};
use crate::text::splice::{self, Edit};

const MAX_BYTES: u64 = 16_384;

fn view(wire: &Wire, body: &str) -> View {
    wire.read(&Bytes::copy_from_slice(body.as_bytes()), Operation::Generate)
        .unwrap()
}

fn edited(view: &View, edits: Vec<Edit>) -> String {
    String::from_utf8(splice::splice(&view.body, edits).concat()).unwrap()
}

fn only(id: WireId, body: &str, forbids_calls: bool) -> String {
    let wire = wire(id);
    let view = view(wire, body);
    let how = TextOnly {
        forbids_calls,
        max_tokens: MAX_BYTES,
    };
    edited(&view, view.text_only(how))
}

fn lone(id: WireId, body: &str, model: Option<&str>) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let reading = RequestReading::new(wire(id), &body, Operation::Generate).unwrap();
    let text = LoneText {
        text: "Report.",
        model,
        max_tokens: MAX_BYTES,
    };
    String::from_utf8(lone_text(&reading, text).rope.concat()).unwrap()
}

#[test]
fn calls_are_forbidden_and_the_output_is_bounded_where_the_wire_says_it() {
    for (id, body, expected) in [
        (
            WireId::Anthropic,
            r#"{"max_tokens": 64000,"tools":[{"name":"a"}], "thinking":{"type":"enabled","budget_tokens":4000},"messages":[{"role":"user","content":"é"}],"x":1.50}"#,
            r#"{"max_tokens": 20384,"tools":[{"name":"a"}], "thinking":{"type":"enabled","budget_tokens":4000},"messages":[{"role":"user","content":"é"}],"tool_choice":{"type":"none"},"x":1.50}"#,
        ),
        (
            WireId::OpenaiChat,
            r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto"}"#,
            r#"{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":16384,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"none"}"#,
        ),
        (
            WireId::OpenaiChat,
            r#"{"max_tokens":4000,"messages":[{"role":"user","content":"a"}]}"#,
            r#"{"max_tokens":4000,"messages":[{"role":"user","content":"a"}]}"#,
        ),
        (
            WireId::OpenaiResponses,
            r#"{"input":[{"role":"user","content":"a"}],"tools":[{"type":"function","name":"a"}],"max_output_tokens":99999}"#,
            r#"{"input":[{"role":"user","content":"a"}],"tool_choice":"none","tools":[{"type":"function","name":"a"}],"max_output_tokens":16384}"#,
        ),
        (
            WireId::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"a"}]}],"tool_config":{"functionCallingConfig":{"mode":"AUTO"}},"generation_config":{"temperature":1.0}}"#,
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"a"}]}],"tool_config":{"functionCallingConfig":{"mode":"NONE"}},"generation_config":{"maxOutputTokens":16384,"temperature":1.0}}"#,
        ),
        (
            WireId::Gemini,
            r#"{"model":"m","request":{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"a"}]}]}}"#,
            r#"{"model":"m","request":{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"maxOutputTokens":16384},"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"tools":[{"functionDeclarations":[{"name":"a"}]}]}}"#,
        ),
        (
            WireId::Ollama,
            r#"{"model":"m","messages":[{"role":"user","content":"a"}],"options":{"num_predict":-1}}"#,
            r#"{"model":"m","messages":[{"role":"user","content":"a"}],"options":{"num_predict":16384}}"#,
        ),
    ] {
        assert_eq!(only(id, body, true), expected);
    }
}

#[test]
fn after_a_refusal_the_request_has_nothing_added() {
    for (id, body) in [
        (
            WireId::Anthropic,
            r#"{"max_tokens":99,"tools":[{"name":"a"}],"messages":[{"role":"user","content":"a"}]}"#,
        ),
        (
            WireId::OpenaiChat,
            r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a"}}]}"#,
        ),
        (
            WireId::OpenaiResponses,
            r#"{"input":[{"role":"user","content":"a"}],"tools":[{"type":"function","name":"a"}]}"#,
        ),
    ] {
        assert_eq!(only(id, body, false), body);
    }
    let forced = r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"required"}"#;
    assert_eq!(
        only(WireId::OpenaiChat, forced, false),
        forced.replace("required", "auto")
    );
}

/// Requests that force a call and forbid storage, for each wire.
const FORCED: [(WireId, &str); 8] = [
    (
        WireId::Anthropic,
        r#"{"max_tokens":9,"tools":[{"name":"a"}],"tool_choice":{"type":"any"},"store":false,"messages":[{"role":"user","content":"a"}]}"#,
    ),
    (
        WireId::Anthropic,
        r#"{"max_tokens":9,"tools":[{"name":"a"}],"tool_choice":{"type":"tool","name":"a"},"store":false,"messages":[{"role":"user","content":"a"}]}"#,
    ),
    (
        WireId::OpenaiChat,
        r#"{"messages":[{"role":"user","content":"a"}],"store":false,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"required"}"#,
    ),
    (
        WireId::OpenaiChat,
        r#"{"messages":[{"role":"user","content":"a"}],"store":false,"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":{"type":"function","function":{"name":"a"}}}"#,
    ),
    (
        WireId::OpenaiResponses,
        r#"{"input":[{"role":"user","content":"a"}],"store":false,"tools":[{"type":"function","name":"a"}],"tool_choice":"required"}"#,
    ),
    (
        WireId::OpenaiResponses,
        r#"{"input":[{"role":"user","content":"a"}],"store":false,"tools":[{"type":"function","name":"a"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[]}}"#,
    ),
    (
        WireId::Gemini,
        r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}],"store":false,"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}"#,
    ),
    (
        WireId::Gemini,
        r#"{"model":"m","request":{"store":false,"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"function_declarations":[{"name":"a"}]}],"tool_config":{"function_calling_config":{"mode":"ANY","allowed_function_names":["a"]}}}}"#,
    ),
];

/// Some models reject a tool choice that forces a call. The agent's storage setting also holds for requests
/// that it does not see.
#[test]
fn a_request_for_a_text_forces_no_call_and_is_stored_no_more_than_the_agents() {
    for (id, body) in FORCED {
        assert_eq!(view(wire(id), body).facts.choice, ToolChoice::Forced, "{body}");
        for text in [
            only(id, body, true),
            only(id, body, false),
            lone(id, body, None),
            lone(id, body, Some("small")),
        ] {
            assert_ne!(view(wire(id), &text).facts.choice, ToolChoice::Forced, "{text}");
            assert_eq!(text.matches(r#""store":false"#).count(), 1, "{text}");
        }
    }
}

#[test]
fn a_lone_text_has_the_settings_and_neither_tools_nor_history() {
    for (id, body, expected) in [
        (
            WireId::Anthropic,
            r#"{"tools":[{"name":"a"}],"model":"big","thinking":{"type":"adaptive"},"max_tokens":9,"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"auto"},"stream":true}"#,
            [
                r#"{"model":"big","thinking":{"type":"adaptive"},"max_tokens":9,"messages":[{"role":"user","content":"Report."}],"stream":true}"#,
                r#"{"model":"small","max_tokens":9,"messages":[{"role":"user","content":"Report."}],"stream":true}"#,
            ],
        ),
        (
            WireId::OpenaiResponses,
            r#"{"model":"big","instructions":"i","input":[{"role":"user","content":"a"}],"tools":[{"type":"function","name":"a"}],"parallel_tool_calls":true,"reasoning":{"effort":"high"},"store":false}"#,
            [
                r#"{"model":"big","instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Report."}]}],"reasoning":{"effort":"high"},"store":false}"#,
                r#"{"model":"small","instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Report."}]}],"store":false}"#,
            ],
        ),
        (
            WireId::Gemini,
            r#"{"model":"big","request":{"tools":[{"functionDeclarations":[{"name":"a"}]}],"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"maxOutputTokens":9}}}"#,
            [
                r#"{"model":"big","request":{"contents":[{"role":"user","parts":[{"text":"Report."}]}],"generationConfig":{"maxOutputTokens":9}}}"#,
                r#"{"model":"small","request":{"contents":[{"role":"user","parts":[{"text":"Report."}]}],"generationConfig":{"maxOutputTokens":9}}}"#,
            ],
        ),
        (
            WireId::Ollama,
            r#"{"model":"big","messages":[{"role":"user","content":"a"}],"tools":[],"think":true,"options":{"num_predict":9}}"#,
            [
                r#"{"model":"big","messages":[{"role":"user","content":"Report."}],"think":true,"options":{"num_predict":9}}"#,
                r#"{"model":"small","messages":[{"role":"user","content":"Report."}],"options":{"num_predict":9}}"#,
            ],
        ),
        (
            WireId::OpenaiChat,
            r#"{"model":"big","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}],"tools":[],"max_tokens":9,"reasoning_effort":"low"}"#,
            [
                r#"{"model":"big","messages":[{"role":"user","content":"Report."}],"max_tokens":9,"reasoning_effort":"low"}"#,
                r#"{"model":"small","messages":[{"role":"user","content":"Report."}],"max_tokens":9}"#,
            ],
        ),
    ] {
        assert_eq!(lone(id, body, None), expected[0]);
        assert_eq!(lone(id, body, Some("small")), expected[1]);
    }
}

/// The agent's transcript was a single string or object instead of a list.
#[test]
fn a_lone_text_is_in_a_list_also_where_the_transcript_was_in_none() {
    for (id, body, expected) in [
        (
            WireId::OpenaiResponses,
            r#"{"input": "a","model":"big"}"#,
            r#"{"input": [{"type":"message","role":"user","content":[{"type":"input_text","text":"Report."}]}],"model":"big"}"#,
        ),
        (
            WireId::Gemini,
            r#"{"contents": {"role":"user","parts":[{"text":"a"}]},"model":"big"}"#,
            r#"{"contents": [{"role":"user","parts":[{"text":"Report."}]}],"generationConfig":{"maxOutputTokens":16384},"model":"big"}"#,
        ),
    ] {
        assert_eq!(lone(id, body, None), expected);
    }
}

/// Members in any order around the transcript yield JSON that parses again.
#[test]
fn members_in_any_order_make_a_request_that_is_read() {
    let contents = json!([{"role": "user", "parts": [{"text": "a"}]}]);
    for wire in WIRES {
        let (list, transcript) = match wire.id() {
            WireId::Gemini => ("contents", contents.clone()),
            WireId::OpenaiResponses => ("input", json!([{"role": "user", "content": "a"}])),
            _ => ("messages", json!([{"role": "user", "content": "a"}])),
        };
        let mut members = [
            (list, transcript),
            (
                "tools",
                json!([{"type": "function", "name": "a", "function": {"name": "a"}, "functionDeclarations": [{"name": "a"}]}]),
            ),
            ("tool_choice", json!("auto")),
            ("model", json!("m")),
            ("options", json!({})),
        ];
        for _ in 0..members.len() {
            members.rotate_left(1);
            let inside: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{key:?}: {value}"))
                .collect();
            let body = format!("{{ {} }}", inside.join(" , "));
            for text in [
                only(wire.id(), &body, true),
                only(wire.id(), &body, false),
                lone(wire.id(), &body, None),
                lone(wire.id(), &body, Some("n")),
            ] {
                let value: Result<Value, _> = serde_json::from_str(&text);
                assert!(value.is_ok(), "{text}");
                assert_eq!(view(wire, &text).turns.len(), 1, "{text}");
            }
        }
    }
}
