//! Risks on a single wire.

use baton_strict::{Part, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, RESPONSES, Variant};

/// A framework that groups thinking moves leg 2's thinking to before the sentinel. Every later request cuts
/// it.
#[tokio::test]
async fn anthropic_thinking_moved_in_front_of_the_sentinel() {
    let fixture = Fixture::new(ANTHROPIC, [handoff(), fresh()]).await;
    let mut answer = fixture.ask(&fixture.history(), true).await;
    let blocks = answer.keep[0]["content"].as_array_mut().unwrap();
    blocks.sort_by_key(|b| b["type"] != "thinking");
    assert_eq!(blocks[1]["type"], "thinking");
    let mut history = fixture.then(&fixture.history(), &answer, "More.");
    for turn in 0..3 {
        let reply = Reply::new().thinking("Hm.").say(format!("Turn {turn}."));
        fixture.push(reply);
        let answer = fixture.ask(&history, true).await;
        assert_eq!(fixture.sent()[..2], [carry().as_str(), "a: Fresh."]);
        history = fixture.then(&history, &answer, "More.");
    }
    fixture.assert_clean();
}

fn marked(history: &[Value], stream: bool) -> Value {
    let mut body = (ANTHROPIC.body)(history, stream);
    let mark = json!({"type": "ephemeral"});
    body["tools"][0]["cache_control"] = mark.clone();
    body["system"] = json!([{"type": "text", "text": "You are an agent.", "cache_control": mark}]);
    let last = history.len() - 1;
    for n in [0, last] {
        body["messages"][n]["content"][0]["cache_control"] = mark.clone();
    }
    body
}

/// Four breakpoints are the limit, and the agent may use all of them.
#[tokio::test]
async fn anthropic_cache_marks_are_the_agents_own() {
    let variant = Variant {
        body: marked,
        ..ANTHROPIC
    };
    let fixture = Fixture::new(variant, [handoff(), fresh(), Reply::text("Next.")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture
        .ask(&fixture.then(&fixture.history(), &answer, "More."), true)
        .await;
    let marks = |raw: &[u8]| String::from_utf8_lossy(raw).matches("cache_control").count();
    let sent: Vec<usize> = fixture
        .provider
        .generations()
        .iter()
        .map(|s| marks(&s.raw))
        .collect();
    // Breakpoints on messages that were cut are removed with them.
    assert_eq!(sent, [4, 2, 3]);
    fixture.assert_clean();
}

/// A cut removes a turn's system messages. Changes of the tools stay, in order, after the carry-over prompt.
#[tokio::test]
async fn anthropic_tool_changes_before_the_cut() {
    let change = |kind: &str| {
        let tool = json!({"type": "tool_reference", "name": "read_file"});
        json!({"role": "system", "content": [{"type": kind, "tool": tool}, {"type": "text", "text": kind}]})
    };
    let variant = Variant {
        headers: &[
            ("anthropic-version", "2023-06-01"),
            ("x-api-key", "sk-agent"),
            ("anthropic-beta", "mid-conversation-tool-changes-2026-07-01"),
        ],
        ..ANTHROPIC
    };
    let fixture = Fixture::new(variant, [handoff(), fresh()]).await;
    let mut history = fixture.history();
    history.insert(3, change("tool_removal"));
    history.extend([(ANTHROPIC.message)("assistant", "So."), fixture.user("Go on.")]);
    history.push(change("tool_addition"));
    fixture.send(&history, true).await;
    let last = fixture.provider.requests().pop().unwrap();
    let sent = last.messages();
    assert_eq!(sent[0]["content"].as_str(), carry().strip_prefix("u: "));
    let kinds: Vec<&Value> = sent[1..].iter().map(|m| &m["content"][0]["type"]).collect();
    assert_eq!(kinds, ["tool_removal", "tool_addition"], "{sent:?}");
}

/// Claude Code checks every call itself for the rest of the session once a response states no verdicts.
#[tokio::test]
async fn verdicts_on_calls_reach_the_agent_after_a_handoff() {
    let variant = ANTHROPIC.with_headers(&[("anthropic-beta", "dangerous-tool-use-2026-09-03")]);
    for stream in [true, false] {
        let reads = Reply::new().call("read_file", json!({"path": "src/a.rs"}));
        let fixture = Fixture::new(variant, [handoff(), reads]).await;
        let mut body = (variant.body)(&fixture.history(), stream);
        body["safeguards"] = json!([{"type": "dangerous_tool_use"}]);
        let path = (variant.path)(stream);
        let response = fixture
            .baton
            .post(path, variant.headers, body.to_string().into())
            .await;
        let answer = fixture.answer(&response, stream);
        let text = response.text();
        let verdict = format!(
            r#""{}":{{"type":"evaluated","outcome":"not_flagged"}}"#,
            answer.calls[0].0
        );
        assert!(
            text.contains(r#""safeguard_results":[{"#) && text.contains(&verdict),
            "{text}"
        );
        fixture.assert_clean();
    }
}

/// A compaction before the cut is removed with the history. One after it stays.
#[tokio::test]
async fn compaction_on_either_side_of_the_cut() {
    let block = json!({"type": "compaction", "content": "so far", "encrypted_content": "x"});
    let item = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"});
    let table = [
        (ANTHROPIC, json!({"role": "assistant", "content": [block]})),
        (RESPONSES, item),
    ];
    for (variant, compacted) in table {
        let fixture = Fixture::new(variant, [handoff(), fresh()]).await;
        let answer = fixture.ask(&fixture.history(), true).await;
        let behind = fixture.then(&fixture.history(), &answer, "More.");
        let has = || {
            let last = fixture.provider.requests().pop().unwrap();
            String::from_utf8_lossy(&last.raw).contains("\"compaction\"")
        };
        fixture
            .send(&[std::slice::from_ref(&compacted), &behind].concat(), true)
            .await;
        assert!(!has());
        fixture
            .send(&[&behind[..], &[compacted, fixture.user("Go.")]].concat(), true)
            .await;
        assert!(has());
    }
}

/// Ids of an earlier response that serve only for diagnosis stay unchanged.
#[tokio::test]
async fn diagnostic_ids_are_left_unchanged() {
    fn with_id(history: &[Value], stream: bool) -> Value {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["diagnostics"] = json!({"previous_message_id": "msg_of_leg_1"});
        body
    }
    let variant = Variant {
        body: with_id,
        ..ANTHROPIC
    };
    let fixture = Fixture::new(variant, [handoff(), fresh(), Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture
        .ask(&fixture.then(&fixture.history(), &answer, "More."), true)
        .await;
    let last = fixture.provider.generations().pop().unwrap();
    assert_eq!(last.body["diagnostics"]["previous_message_id"], "msg_of_leg_1");
}

#[tokio::test]
async fn chat_content_is_null_where_a_leg_has_calls_but_no_text() {
    let mute = Reply::new().call("read_file", json!({"path": "x"}));
    let fixture = Fixture::new(CHAT, [handoff(), mute, Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture.ask(&fixture.ran(&fixture.history(), &answer), true).await;
    let last = fixture.provider.generations().pop().unwrap();
    assert_eq!(last.messages()[2]["content"], Value::Null);
    assert_eq!(
        last.messages()[2]["tool_calls"][0]["function"]["name"],
        "read_file"
    );
}

/// Gemini signs the first call of a step.
///
/// If that was baton's call and the store is lost, the API's placeholder replaces the signature.
#[tokio::test]
async fn gemini_signature_that_went_with_a_lost_pair() {
    let both = handoff_beside(Reply::new().thinking("Both.")).call("read_file", json!({"path": "x"}));
    let mut fixture = Fixture::new(GEMINI, [both, Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let ran = fixture.ran(&fixture.history(), &answer);
    assert!(!ran[3].to_string().contains("thoughtSignature"), "{}", ran[3]);
    fixture.restart(memory());
    fixture.ask(&ran, true).await;
    let last = fixture.provider.generations().pop().unwrap();
    let sent = String::from_utf8_lossy(&last.raw).into_owned();
    assert!(sent.contains("skip_thought_signature_validator"), "{sent}");
    fixture.assert_clean();
}

/// A count of only `contents` covers the contents that will be sent.
#[tokio::test]
async fn gemini_token_counts_of_contents_only() {
    let fixture = Fixture::new(GEMINI, [handoff(), fresh(), Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let behind = fixture.then(&fixture.history(), &answer, "More.");
    let path = "/v1beta/models/gemini-strict-3:countTokens";
    let body = json!({"contents": behind}).to_string();
    let response = fixture.baton.post(path, GEMINI.headers, body.into()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let counted = fixture.provider.requests().pop().unwrap();
    fixture.ask(&behind, true).await;
    let real = fixture.provider.generations().pop().unwrap();
    assert_eq!(counted.body["contents"], real.body["contents"]);
    assert_eq!(counted.body.get("tools"), None);
    fixture.assert_clean();
}

/// `/responses/compact`: the request is cut and has no tool, and its response is relayed unchanged.
#[tokio::test]
async fn responses_compact_is_cut_and_relayed() {
    let fixture = Fixture::new(RESPONSES, [handoff(), fresh(), Reply::text("ok")]).await;
    let said = fixture.ask(&fixture.history(), true).await;
    let behind = fixture.then(&fixture.history(), &said, "More.");
    let body = json!({"model": "gpt-strict-1", "instructions": "You are an agent.", "input": behind});
    let path = "/v1/responses/compact";
    let response = fixture
        .baton
        .post(path, RESPONSES.headers, body.to_string().into())
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let seen = fixture.provider.requests().pop().unwrap();
    assert!(!seen.offers_handoff() && !String::from_utf8_lossy(&seen.raw).contains("handoff-resume"));
    let answer = response.json();
    let output = answer["output"].as_array().unwrap();
    let compacted = output.iter().filter(|i| i["type"] == "compaction").count();
    assert_eq!((output.len(), compacted), (3, 1), "{output:?}");
    // The sentinel is gone, and the cut with it. The provider's complaint about encrypted reasoning is the
    // agent's concern: it requested a compaction without its tools.
    fixture
        .ask(&[output, &[fixture.user("Go.")][..]].concat(), true)
        .await;
    let last = fixture.provider.generations().pop().unwrap();
    assert_eq!(last.messages().len(), 4);
}

/// Results of server tools are next to their calls in one message, so a cut removes both or neither.
#[tokio::test]
async fn anthropic_server_tools_on_either_side_of_the_cut() {
    let search = |n: u8| {
        let id = format!("srvtoolu_{n}");
        let call =
            json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "BOM"}});
        let found = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
        Reply::new().part(Part::Block(call)).part(Part::Block(found))
    };
    let one = handoff_beside(search(1).say("Found."));
    let fixture = Fixture::new(ANTHROPIC, [one, search(2).say("Fresh."), Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture
        .ask(&fixture.then(&fixture.history(), &answer, "More."), true)
        .await;
    let last = fixture.provider.generations().pop().unwrap();
    let sent = String::from_utf8_lossy(&last.raw).into_owned();
    assert_eq!(
        (
            sent.matches("srvtoolu_1").count(),
            sent.matches("srvtoolu_2").count()
        ),
        (0, 2)
    );
    fixture.assert_clean();
}
