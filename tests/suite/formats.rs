//! Requests for output in a format, whose model calls a hidden tool: the agent gets the format and nothing else.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::texts::assert_lacks;
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{CHAT, RESPONSES, Variant, WIRES};

const DONE: &str = "{\"answer\":\"done\"}";

/// Asks for JSON.
fn formatted(body: &mut Value) {
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
    match body["model"].as_str() {
        Some("claude-strict-1") => {
            body["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
        }
        Some("llama-strict") => body["format"] = schema,
        Some(_) if body.get("input").is_some() => body["text"] = json!({"format": format}),
        Some(_) => {
            body["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})
        }
        None => {
            body["generationConfig"]["responseMimeType"] = json!("application/json");
            body["generationConfig"]["responseJsonSchema"] = schema;
        }
    }
}

fn hands_over(reply: Reply) -> Reply {
    reply.call("session_handoff", json!({"prompt": "Goal: the exporter."}))
}

/// Starts a conversation.
async fn begun(variant: Variant, stream: bool) -> Talk {
    let mut talk = Talk::opened(Fixture::new(variant, []).await);
    talk.stream = stream;
    talk
}

/// Asks for a report in a format.
async fn report(talk: &mut Talk, replies: impl IntoIterator<Item = Reply>) -> String {
    talk.edit = Box::new(formatted);
    replies.into_iter().for_each(|reply| talk.push(reply));
    let text = talk.asks("Report.").await.text;
    talk.edit = Box::new(|_| {});
    text
}

#[tokio::test]
async fn a_hidden_call_leaves_no_trace_in_formatted_output() {
    for (variant, stream) in WIRES
        .into_iter()
        .flat_map(|variant| [(variant, true), (variant, false)])
    {
        let mut talk = begun(variant, stream).await;
        let thinks = variant.path as usize == RESPONSES.path as usize;
        let thought = || {
            if thinks {
                Reply::new().thinking("What is asked?")
            } else {
                Reply::new()
            }
        };
        talk.says("Go on.", thought().say("Mended.")).await;
        let replies = [hands_over(thought()), thought().say(DONE)];
        assert_eq!(report(&mut talk, replies).await, DONE);
        talk.says("Go on.", "On.").await;
        // Nothing was cut.
        let sent = talk.sent();
        assert!(
            sent.contains(&"u: Report.".to_owned()) && sent.contains(&format!("a: {DONE}")),
            "{sent:?}"
        );
        talk.assert_clean();
    }
}

/// What was shown cannot be taken back, so such a call is dropped.
#[tokio::test]
async fn after_shown_text_the_call_is_dropped() {
    for variant in WIRES {
        let mut talk = begun(variant, true).await;
        talk.says("Go on.", "Mended.").await;
        assert_eq!(report(&mut talk, [hands_over(Reply::text(DONE))]).await, DONE);
        talk.assert_clean();
    }
}

/// A model that insists ends the turn without output, as every call does that cannot be answered.
#[tokio::test]
async fn a_model_that_insists_is_answered_twice() {
    let mut talk = begun(CHAT, true).await;
    talk.says("Go on.", "Mended.").await;
    let text = report(&mut talk, (0..3).map(|_| hands_over(Reply::new()))).await;
    assert_eq!(talk.provider.generations().len(), 4);
    assert_lacks(&text, "handoff");
}

/// A conversation that was cut stays cut.
#[tokio::test]
async fn a_cut_conversation_is_asked_for_a_format() {
    for variant in WIRES {
        let mut talk = begun(variant, true).await;
        talk.push(hands_over(Reply::new()));
        talk.says("Go on.", "Next.").await;
        let replies = [hands_over(Reply::new()), Reply::text(DONE)];
        assert_eq!(report(&mut talk, replies).await, DONE);
        assert_eq!(talk.sent()[..2], ["u: Goal: the exporter.", "a: Next."]);
        talk.assert_clean();
    }
}
