//! Requests for output in a format, whose model calls a hidden tool: the agent gets the format and nothing else.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{ANTHROPIC, Answer, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const DONE: &str = "{\"answer\":\"done\"}";

/// A body that asks for JSON.
fn formatted(variant: &Variant, history: &[Value], stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": false});
    let mut body = (variant.body)(history, stream);
    let path = (variant.path)(stream);
    if path.contains("messages") {
        body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    } else if path.contains("responses") {
        body["text"] =
            json!({"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": true}});
    } else if path.contains("completions") {
        body["response_format"] =
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    } else if path.contains("/api/") {
        body["format"] = schema;
    } else {
        body["generationConfig"]["responseMimeType"] = json!("application/json");
        body["generationConfig"]["responseJsonSchema"] = schema;
    }
    body
}

async fn ask(fixture: &Fixture, history: &[Value], stream: bool) -> Answer {
    let body = formatted(&fixture.variant, history, stream).to_string().into();
    let path = (fixture.variant.path)(stream);
    let response = fixture.baton.post(path, fixture.variant.headers, body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    fixture.answer(&response, stream)
}

fn hands_over() -> Reply {
    Reply::new().call("session_handoff", json!({"prompt": "Goal: the exporter."}))
}

#[tokio::test]
async fn a_hidden_call_leaves_no_trace_in_formatted_output() {
    for variant in [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA] {
        for stream in [true, false] {
            let fixture = Fixture::new(variant, []).await;
            let thinks = variant.path as usize == RESPONSES.path as usize;
            let thought = |reply: Reply| match thinks {
                true => reply.thinking("What is asked?"),
                false => reply,
            };
            fixture.push(thought(Reply::new()).say("Mended."));
            let history = fixture.history();
            let answer = fixture.ask(&history, stream).await;
            let history = fixture.then(&history, &answer, "Report.");
            let call =
                thought(Reply::new()).call("session_handoff", json!({"prompt": "Goal: the exporter."}));
            fixture.push(call);
            fixture.push(thought(Reply::new()).say(DONE));
            let answer = ask(&fixture, &history, stream).await;
            assert_eq!(answer.text, DONE);
            let history = fixture.then(&history, &answer, "Go on.");
            fixture.push(Reply::text("On."));
            fixture.ask(&history, stream).await;
            let sent = fixture.sent();
            assert!(
                sent.contains(&"u: Report.".to_owned()) && sent.contains(&format!("a: {DONE}")),
                "nothing was cut: {sent:?}"
            );
            fixture.assert_clean();
        }
    }
}

/// What was shown cannot be taken back, so such a call is dropped.
#[tokio::test]
async fn after_shown_text_the_call_is_dropped() {
    for variant in [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA] {
        let fixture = Fixture::new(variant, [Reply::text("Mended.")]).await;
        let history = fixture.history();
        let answer = fixture.ask(&history, true).await;
        let history = fixture.then(&history, &answer, "Report.");
        fixture.push(Reply::text(DONE).call("session_handoff", json!({"prompt": "Goal: the exporter."})));
        let answer = ask(&fixture, &history, true).await;
        assert_eq!(answer.text, DONE);
        fixture.assert_clean();
    }
}

/// A model that insists ends the turn without output, as every call does that cannot be answered.
#[tokio::test]
async fn a_model_that_insists_is_answered_twice() {
    let fixture = Fixture::new(CHAT, [Reply::text("Mended.")]).await;
    let history = fixture.history();
    let answer = fixture.ask(&history, true).await;
    let history = fixture.then(&history, &answer, "Report.");
    (0..3).for_each(|_| fixture.push(hands_over()));
    let before = fixture.provider.generations().len();
    let answer = ask(&fixture, &history, true).await;
    assert_eq!(fixture.provider.generations().len() - before, 3);
    assert!(!answer.text.contains("handoff"), "{}", answer.text);
}

/// A conversation that was cut stays cut.
#[tokio::test]
async fn a_cut_conversation_is_asked_for_a_format() {
    for variant in [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA] {
        let fixture = Fixture::new(variant, [hands_over(), Reply::text("Next.")]).await;
        let history = fixture.history();
        let answer = fixture.ask(&history, true).await;
        let history = fixture.then(&history, &answer, "Report.");
        fixture.push(hands_over());
        fixture.push(Reply::text(DONE));
        let answer = ask(&fixture, &history, true).await;
        assert_eq!(answer.text, DONE);
        assert_eq!(fixture.sent()[..2], ["u: Goal: the exporter.", "a: Next."]);
        fixture.assert_clean();
    }
}
