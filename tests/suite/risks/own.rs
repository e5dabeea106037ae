//! What one wire alone has.

use baton_proxy::strict::{Part, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::sides::{ANTHROPIC, CHAT, GEMINI, RESPONSES, Side};
use crate::matrix::stage::{Stage, carry, fresh, handoff, handoff_beside};

/// A framework that groups thinking puts leg 2's in front of the sentinel. It is lost then, and stays lost.
#[tokio::test]
async fn anthropic_thinking_moved_in_front_of_the_sentinel() {
    let stage = Stage::new(ANTHROPIC, [handoff(), fresh()]).await;
    let mut said = stage.ask(&stage.history(), true).await;
    let blocks = said.keep[0]["content"].as_array_mut().unwrap();
    blocks.sort_by_key(|b| b["type"] != "thinking");
    assert_eq!(blocks[1]["type"], "thinking");
    let mut history = stage.then(&stage.history(), &said, "More.");
    for turn in 0..3 {
        let reply = Reply::new().thinking("Hm.").say(format!("Turn {turn}."));
        stage.push(reply);
        let said = stage.ask(&history, true).await;
        assert_eq!(stage.sent()[..2], [carry().as_str(), "a: Fresh."]);
        history = stage.then(&history, &said, "More.");
    }
    stage.at_peace();
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
    let side = Side {
        body: marked,
        ..ANTHROPIC
    };
    let stage = Stage::new(side, [handoff(), fresh(), Reply::text("Next.")]).await;
    let said = stage.ask(&stage.history(), true).await;
    stage
        .ask(&stage.then(&stage.history(), &said, "More."), true)
        .await;
    let marks = |raw: &[u8]| String::from_utf8_lossy(raw).matches("cache_control").count();
    let sent: Vec<usize> = stage
        .provider
        .generations()
        .iter()
        .map(|s| marks(&s.raw))
        .collect();
    // Those on messages that were cut are gone with them.
    assert_eq!(sent, [4, 2, 3]);
    stage.at_peace();
}

/// System messages of a turn go with it; what changes the tools stays, in order, behind the carry-over prompt.
#[tokio::test]
async fn anthropic_tool_changes_before_the_cut() {
    let change = |kind: &str| json!({"role": "system", "content": [{"type": kind, "tool_name": "read_file"}, {"type": "text", "text": kind}]});
    let stage = Stage::new(ANTHROPIC, [handoff(), fresh()]).await;
    let mut history = stage.history();
    history.insert(3, change("tool_removal"));
    history.extend([(ANTHROPIC.message)("assistant", "So."), stage.user("Go on.")]);
    history.push(change("tool_addition"));
    stage.send(&history, true).await;
    let last = stage.provider.requests().pop().unwrap();
    let sent = last.messages();
    assert_eq!(sent[0]["content"].as_str(), carry().strip_prefix("u: "));
    let kinds: Vec<&Value> = sent[1..].iter().map(|m| &m["content"][0]["type"]).collect();
    assert_eq!(kinds, ["tool_removal", "tool_addition"], "{sent:?}");
}

/// A compaction before the cut goes with the rest, one behind it stays where it is.
#[tokio::test]
async fn compaction_on_either_side_of_the_cut() {
    let block = json!({"type": "compaction", "content": "so far", "encrypted_content": "x"});
    let item = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"});
    let table = [
        (ANTHROPIC, json!({"role": "assistant", "content": [block]})),
        (RESPONSES, item),
    ];
    for (side, compacted) in table {
        let stage = Stage::new(side, [handoff(), fresh()]).await;
        let said = stage.ask(&stage.history(), true).await;
        let behind = stage.then(&stage.history(), &said, "More.");
        let has = || {
            let last = stage.provider.requests().pop().unwrap();
            String::from_utf8_lossy(&last.raw).contains("\"compaction\"")
        };
        stage
            .send(&[std::slice::from_ref(&compacted), &behind].concat(), true)
            .await;
        assert!(!has());
        stage
            .send(&[&behind[..], &[compacted, stage.user("Go.")]].concat(), true)
            .await;
        assert!(has());
    }
}

/// Ids of an earlier answer that only diagnose: as they are.
#[tokio::test]
async fn ids_that_only_diagnose_are_left_alone() {
    fn with_id(history: &[Value], stream: bool) -> Value {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["diagnostics"] = json!({"previous_message_id": "msg_of_leg_1"});
        body
    }
    let side = Side {
        body: with_id,
        ..ANTHROPIC
    };
    let stage = Stage::new(side, [handoff(), fresh(), Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    stage
        .ask(&stage.then(&stage.history(), &said, "More."), true)
        .await;
    let last = stage.provider.generations().pop().unwrap();
    assert_eq!(last.body["diagnostics"]["previous_message_id"], "msg_of_leg_1");
}

#[tokio::test]
async fn chat_content_is_null_where_a_leg_called_without_a_word() {
    let mute = Reply::new().call("read_file", json!({"path": "x"}));
    let stage = Stage::new(CHAT, [handoff(), mute, Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    stage.ask(&stage.ran(&stage.history(), &said), true).await;
    let last = stage.provider.generations().pop().unwrap();
    assert_eq!(last.messages()[2]["content"], Value::Null);
    assert_eq!(
        last.messages()[2]["tool_calls"][0]["function"]["name"],
        "read_file"
    );
}

/// Gemini signs the first call of a step. Where that was ours and the store is lost, the escape value stands in.
#[tokio::test]
async fn gemini_signature_that_went_with_a_lost_pair() {
    let both = handoff_beside(Reply::new().thinking("Both.")).call("read_file", json!({"path": "x"}));
    let mut stage = Stage::new(GEMINI, [both, Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    let ran = stage.ran(&stage.history(), &said);
    assert!(!ran[3].to_string().contains("thoughtSignature"), "{}", ran[3]);
    stage.restart(memory());
    stage.ask(&ran, true).await;
    let last = stage.provider.generations().pop().unwrap();
    let sent = String::from_utf8_lossy(&last.raw).into_owned();
    assert!(sent.contains("skip_thought_signature_validator"), "{sent}");
    stage.at_peace();
}

/// A count of contents alone is one of the contents that will be sent.
#[tokio::test]
async fn gemini_counts_of_bare_contents() {
    let stage = Stage::new(GEMINI, [handoff(), fresh(), Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    let behind = stage.then(&stage.history(), &said, "More.");
    let path = "/v1beta/models/gemini-strict-3:countTokens";
    let body = json!({"contents": behind}).to_string();
    let heard = stage.baton.post(path, GEMINI.headers, body.into()).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    let counted = stage.provider.requests().pop().unwrap();
    stage.ask(&behind, true).await;
    let real = stage.provider.generations().pop().unwrap();
    assert_eq!(counted.body["contents"], real.body["contents"]);
    assert_eq!(counted.body.get("tools"), None);
    stage.at_peace();
}

/// `/responses/compact`: cut, without the tool, and its answer as it is (FAILURES 17).
#[tokio::test]
async fn responses_compact_is_cut_and_relayed() {
    let stage = Stage::new(RESPONSES, [handoff(), fresh(), Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    let behind = stage.then(&stage.history(), &said, "More.");
    let body = json!({"model": "gpt-strict-1", "instructions": "You are an agent.", "input": behind});
    let path = "/v1/responses/compact";
    let heard = stage
        .baton
        .post(path, RESPONSES.headers, body.to_string().into())
        .await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    let seen = stage.provider.requests().pop().unwrap();
    assert!(!seen.offers_handoff() && !String::from_utf8_lossy(&seen.raw).contains("handoff-resume"));
    let answer = heard.json();
    let output = answer["output"].as_array().unwrap();
    let compacted = output.iter().filter(|i| i["type"] == "compaction").count();
    assert_eq!((output.len(), compacted), (3, 1), "{output:?}");
    // The sentinel is gone, and with it the cut. (What the provider says of encrypted reasoning is the agent's
    // affair: it asked for a compaction without its tools.)
    stage
        .ask(&[output, &[stage.user("Go.")][..]].concat(), true)
        .await;
    let last = stage.provider.generations().pop().unwrap();
    assert_eq!(last.messages().len(), 4);
}

/// Server tools' results stand beside their calls in one message: a cut takes both or none.
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
    let stage = Stage::new(ANTHROPIC, [one, search(2).say("Fresh."), Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    stage
        .ask(&stage.then(&stage.history(), &said, "More."), true)
        .await;
    let last = stage.provider.generations().pop().unwrap();
    let sent = String::from_utf8_lossy(&last.raw).into_owned();
    assert_eq!(
        (
            sent.matches("srvtoolu_1").count(),
            sent.matches("srvtoolu_2").count()
        ),
        (0, 2)
    );
    stage.at_peace();
}
