//! Other means of context management: tools of agents, and features of the providers' APIs.
//!
//! docs/wires.md describes baton's behavior for each of them in a row.

use std::sync::Arc;

use baton_llm::state::config::{Config, InjectPolicy};
use baton_strict::{Part, Received, Reply, Stop, signed_summary};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, PROMPT, behind_line, carry, fresh, handoff, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

/// Anthropic with every beta of this file.
const BETAS: Variant = Variant {
    headers: &[
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "sk-agent"),
        (
            "anthropic-beta",
            "context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,inline-tools-2026-09-15,\
             mid-conversation-system-clear-at-2026-08-21,context-hint-2026-04-09,message-threads-2026-08-12",
        ),
    ],
    ..ANTHROPIC
};

/// Body of a variant with this tool after its own.
fn with_tool(variant: &Variant, history: &[Value], list: &str, tool: &Value) -> Value {
    let mut body = (variant.body)(history, true);
    let tools = body.pointer_mut(list).unwrap();
    tools.as_array_mut().unwrap().push(tool.clone());
    body
}

/// The tool with which Codex' model starts a new context window, in each wire's shape, and the path of its
/// list.
fn resets() -> [(Variant, &'static str, Value); 5] {
    let schema = json!({"type": "object", "properties": {}});
    let function = json!({"name": "new_context", "description": "Starts anew.", "parameters": schema});
    let chat = json!({"type": "function", "function": function});
    let of_type = |kind: &str| {
        let mut tool = function.clone();
        tool["type"] = json!(kind);
        tool["strict"] = json!(false);
        tool
    };
    let anthropic = json!({"name": "new_context", "input_schema": schema});
    [
        (ANTHROPIC, "/tools", anthropic),
        (CHAT, "/tools", chat.clone()),
        (RESPONSES, "/tools", of_type("function")),
        (GEMINI, "/tools/0/functionDeclarations", function),
        (OLLAMA, "/tools", chat),
    ]
}

/// Codex 0.169.0 with its token budget: all tools in namespaces of an item.
fn codex(history: &[Value], stream: bool) -> Value {
    let mut body = (RESPONSES.body)(history, stream);
    let tools = body.as_object_mut().unwrap().remove("tools").unwrap();
    let reset = json!({"type": "function", "name": "new_context", "description": "Starts anew.",
        "parameters": {"type": "object", "properties": {}}, "strict": false});
    let functions =
        json!({"type": "namespace", "name": "functions", "description": "Tools.", "tools": [reset]});
    let mut all = tools.as_array().unwrap().clone();
    all.push(functions);
    let item = json!({"type": "additional_tools", "role": "developer", "tools": all});
    body["input"].as_array_mut().unwrap().insert(0, item);
    body
}

async fn post(fixture: &Fixture, body: &Value) -> crate::harness::RawResponse {
    let (path, headers) = ((fixture.variant.path)(true), fixture.variant.headers);
    fixture.baton.post(path, headers, body.to_string().into()).await
}

/// The last request that the provider received.
fn last(fixture: &Fixture) -> Arc<Received> {
    fixture.provider.generations().pop().unwrap()
}

#[tokio::test]
async fn a_tool_of_the_agents_own_that_resets_the_context_stands_alone() {
    for (variant, list, tool) in resets() {
        let fixture = Fixture::new(variant, [Reply::text("Yes.")]).await;
        let body = with_tool(&variant, &fixture.history(), list, &tool);
        let response = post(&fixture, &body).await;
        assert_eq!(
            response.header("x-baton-untooled"),
            Some("agent_resets"),
            "{body}"
        );
        assert_eq!(last(&fixture).raw, body.to_string());
        fixture.assert_clean();
    }
    let variant = Variant {
        body: codex,
        ..RESPONSES
    };
    let fixture = Fixture::new(variant, [Reply::text("Yes.")]).await;
    let response = fixture.send(&fixture.history(), true).await;
    assert_eq!(response.header("x-baton-untooled"), Some("agent_resets"));
    assert_eq!(last(&fixture).raw, codex(&fixture.history(), true).to_string());
    // The name inside text, or as another value, does not declare a tool.
    let fixture = Fixture::new(ANTHROPIC, [Reply::text("Yes."), Reply::text("Yes.")]).await;
    let mut body = (ANTHROPIC.body)(&fixture.history(), true);
    body["system"] = json!("Call `new_context`.");
    body["tools"][0]["input_schema"]["properties"]["path"]["enum"] = json!(["new_context"]);
    assert_eq!(post(&fixture, &body).await.header("x-baton-untooled"), None);
    assert!(last(&fixture).offers_handoff());
}

#[tokio::test]
async fn both_tools_are_offered_where_the_config_says_always() {
    let change = |config: &mut Config| config.handoff.inject = InjectPolicy::Always;
    let variant = Variant {
        body: codex,
        ..RESPONSES
    };
    let fixture = Fixture::with(variant, [handoff(), fresh()], memory(), change).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
    assert!(last(&fixture).offers_handoff());
    fixture.assert_clean();
}

/// A user may still hand over there, and from then on the model has both tools.
#[tokio::test]
async fn a_user_hands_over_beside_a_tool_that_resets() {
    let variant = Variant {
        body: codex,
        ..RESPONSES
    };
    let document = Reply::text("## Goal\n\nMend the importer.");
    let later = (0..2).map(|n| Reply::new().thinking("Hm.").say(format!("Turn {n}.")));
    let fixture = Fixture::new(variant, [document].into_iter().chain(later)).await;
    let mut history = fixture.history();
    history.extend([
        (RESPONSES.message)("assistant", "So."),
        fixture.user("::handoff --force --no-git"),
    ]);
    let answer = fixture.ask(&history, true).await;
    let told = behind_line(&answer.text).unwrap();
    assert!(told.starts_with("baton: handed over"), "{}", answer.text);
    let mut history = fixture.then(&history, &answer, "Go on.");
    for _ in 0..2 {
        let answer = fixture.ask(&history, true).await;
        assert!(last(&fixture).offers_handoff());
        assert!(
            fixture.sent()[0].contains("Mend the importer."),
            "{:?}",
            fixture.sent()
        );
        history = fixture.then(&history, &answer, "More.");
    }
    fixture.assert_clean();
}

/// The history is bound to the list with baton's tool. That still holds after a reset, when the transcript
/// starts over without a sentinel, so the tool does not come and go.
#[tokio::test]
async fn a_conversation_that_has_the_tool_keeps_it_beside_one_that_resets() {
    fn named(history: &[Value], stream: bool) -> Value {
        let mut body = codex(history, stream);
        body["prompt_cache_key"] = json!("thread-1");
        body
    }
    let variant = Variant {
        body: named,
        ..RESPONSES
    };
    let later = (0..4).map(|n| Reply::new().thinking("Hm.").say(format!("Turn {n}.")));
    let replies = [handoff(), fresh()].into_iter().chain(later);
    let store = memory();
    let always = |config: &mut Config| config.handoff.inject = InjectPolicy::Always;
    let mut fixture = Fixture::with(variant, replies, store.clone(), always).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture.restart(store);
    let mut history = fixture.then(&fixture.history(), &answer, "More.");
    for turn in 0..4 {
        if turn == 2 {
            history = vec![fixture.user("Mend the importer, from the notes.")];
        }
        let response = fixture.send(&history, true).await;
        assert_eq!(response.header("x-baton-untooled"), None, "turn {turn}");
        assert!(last(&fixture).offers_handoff(), "turn {turn}");
        assert_eq!(fixture.sent()[0] == carry(), turn < 2, "{:?}", fixture.sent());
        let answer = fixture.answer(&response, true);
        history = fixture.then(&history, &answer, "More.");
    }
    fixture.assert_clean();
}

fn system(text: &str, clear_at: Option<&str>) -> Value {
    let mut message = json!({"role": "system", "content": text});
    if let Some(at) = clear_at {
        message["clear_at"] = json!(at);
    }
    message
}

/// A system message for a single turn does not reappear after a cut; one that still applies does.
#[tokio::test]
async fn messages_cleared_at_the_next_user_message_do_not_come_back_at_a_cut() {
    let fixture = Fixture::new(BETAS, [handoff(), fresh(), Reply::text("ok"), Reply::text("ok")]).await;
    let history = vec![
        fixture.user("Mend the importer."),
        system("Environment.", None),
        system("Over.", Some("next_user_message")),
        system("For good.", Some("never")),
        fixture.user("And the exporter."),
        system("Now.", Some("next_user_message")),
    ];
    let answer = fixture.ask(&history, true).await;
    let texts = |received: &Received| -> Vec<String> {
        let messages = received.messages().iter();
        let system = messages.filter(|message| message["role"] == "system");
        system
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(texts(&last(&fixture)), ["Environment.", "For good.", "Now."]);
    let history = fixture.then(&history, &answer, "More.");
    let history = [&history[..], &[system("Later.", Some("next_user_message"))]].concat();
    let answer = fixture.ask(&history, true).await;
    let sent = last(&fixture);
    assert_eq!(texts(&sent), ["Environment.", "For good.", "Now.", "Later."]);
    // Unchanged: the provider decides which of them are shown.
    let of = |text: &str| sent.messages().iter().find(|message| message["content"] == text);
    assert_eq!(of("Now.").unwrap()["clear_at"], "next_user_message");
    fixture.ask(&fixture.then(&history, &answer, "More."), true).await;
    assert_eq!(
        texts(&last(&fixture)),
        ["Environment.", "For good.", "Now.", "Later."]
    );
    fixture.assert_clean();
}

fn hinted(history: &[Value], stream: bool) -> Value {
    let mut body = (ANTHROPIC.body)(history, stream);
    body["context_hint"] = json!({"enabled": true, "target_tokens_saved": 75000});
    body
}

/// The provider may refuse a request with a hint at history that the agent could clear. The hint reaches the
/// agent unchanged, and a leg unknown to the agent does not offer it.
#[tokio::test]
async fn a_context_hint_is_the_agents_own() {
    let variant = Variant {
        body: hinted,
        ..BETAS
    };
    let refused = || Reply::status(422, "context_hint: clear 80000 tokens and ask again");
    let fixture = Fixture::new(variant, [handoff(), fresh(), Reply::text("ok"), refused()]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let has = |n: usize| {
        fixture.provider.generations()[n]
            .body
            .get("context_hint")
            .is_some()
    };
    assert_eq!([has(0), has(1)], [true, false]);
    let history = fixture.then(&fixture.history(), &answer, "More.");
    let answer = fixture.ask(&history, true).await;
    assert!(has(2));
    assert_eq!(fixture.sent()[0], carry());
    let response = fixture
        .send(&fixture.then(&history, &answer, "More."), true)
        .await;
    assert_eq!(response.status, 422);
    assert_contains(&response.text(), "clear 80000 tokens");
    fixture.assert_clean();
}

/// A block that defines a tool in the middle of a conversation.
fn inline(name: &str) -> Value {
    let definition = json!({"name": name, "description": "Inline.", "input_schema": {"type": "object"}});
    json!({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}})
}

fn change(kind: &str, name: &str) -> Value {
    json!({"type": kind, "tool": {"type": "tool_reference", "name": name}})
}

/// A requested summary comes first, and is removed with the rest at a cut. The tools that it replaces stay,
/// as does any text that the agent's harness puts after it.
#[tokio::test]
async fn the_tools_of_a_summary_outlive_a_cut() {
    let read = Reply::new().call("deploy", json!({}));
    let fixture = Fixture::new(BETAS, [handoff(), read, Reply::text("ok")]).await;
    let summed = signed_summary(
        "So far.",
        json!([inline("deploy"), change("tool_removal", "read_file")]),
    );
    let preamble = json!({"type": "text", "text": "<system-reminder>\nCLAUDE.md\n</system-reminder>"});
    for role in ["assistant", "user"] {
        let fixture = match role {
            "assistant" => &fixture,
            _ => {
                &Fixture::new(
                    BETAS,
                    [
                        handoff(),
                        Reply::new().call("deploy", json!({})),
                        Reply::text("ok"),
                    ],
                )
                .await
            }
        };
        let said = json!({"type": "text", "text": "Mend the exporter."});
        let first = match role {
            "assistant" => vec![
                json!({"role": role, "content": [summed]}),
                json!({"role": "user", "content": [preamble, said]}),
            ],
            _ => vec![json!({"role": role, "content": [summed, preamble, said]})],
        };
        let history = [
            &first[..],
            &[system("Environment.", None), fixture.user("Go on.")],
            &[(BETAS.message)("assistant", "So."), fixture.user("Go on.")],
        ]
        .concat();
        let answer = fixture.ask(&history, true).await;
        let history = fixture.ran(&history, &answer);
        fixture.ask(&history, true).await;
        for request in &fixture.provider.generations()[1..] {
            let raw = String::from_utf8_lossy(&request.raw).into_owned();
            assert!(!raw.contains("compaction"), "{raw}");
            let messages = request.messages();
            assert_eq!(
                messages[0]["content"],
                json!([preamble, {"type": "text", "text": PROMPT}])
            );
            assert_eq!(
                messages[1],
                json!({"role": "system", "content": summed["tool_changes"]})
            );
            assert_eq!(messages[2], system("Environment.", None));
        }
        fixture.assert_clean();
    }
}

/// With `compact_20260112` the provider itself summarizes, in the middle of a response, and from then on
/// omits everything before its block.
#[tokio::test]
async fn a_summary_in_an_answer_is_kept_behind_a_cut_and_goes_before_one() {
    fn edits(history: &[Value], stream: bool) -> Value {
        let mut body = (ANTHROPIC.body)(history, stream);
        let keep = json!({"type": "tool_uses", "value": 3});
        body["context_management"] = json!({"edits": [
            {"type": "clear_thinking_20251015", "keep": "all"},
            {"type": "clear_tool_uses_20250919", "keep": keep, "exclude_tools": ["read_file"]},
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50000}},
        ]});
        body
    }
    let variant = Variant { body: edits, ..BETAS };
    let block = |text: &str, changes: Value| {
        Part::Block(json!({"type": "compaction", "content": text, "tool_changes": changes}))
    };
    let early = Reply::new().part(block(
        "Early.",
        json!([inline("probe"), change("tool_removal", "probe")]),
    ));
    let behind = Reply::new().part(block("Behind.", Value::Null));
    let both = || Reply::new().thinking("Hm.").say("ok");
    let replies = [
        early.say("Looking."),
        handoff(),
        behind.say("Fresh."),
        both(),
        both(),
    ];
    let fixture = Fixture::new(variant, replies).await;
    let environment = json!({"type": "text", "text": "Environment."});
    let mut history = fixture.history();
    history.insert(
        1,
        json!({"role": "system", "content": [inline("probe"), environment]}),
    );
    let removed = json!({"role": "system", "content": [change("tool_removal", "probe")]});
    history.push(removed);
    let answer = fixture.ask(&history, true).await;
    let history = fixture.then(&history, &answer, "Go on.");
    let answer = fixture.ask(&history, true).await;
    let mut history = fixture.then(&history, &answer, "More.");
    for _ in 0..2 {
        let answer = fixture.ask(&history, true).await;
        let sent = last(&fixture);
        let raw = String::from_utf8_lossy(&sent.raw).into_owned();
        assert_eq!(
            (raw.contains("Early."), raw.contains("Behind.")),
            (false, true),
            "{raw}"
        );
        assert_eq!(
            sent.body["context_management"],
            edits(&[], true)["context_management"]
        );
        // The changes that the early summary replaces are stated once.
        assert_eq!(
            sent.messages()[1],
            json!({"role": "system", "content": [environment]})
        );
        let changes = [inline("probe"), change("tool_removal", "probe")];
        assert_eq!(sent.messages()[2], json!({"role": "system", "content": changes}));
        history = fixture.then(&history, &answer, "More.");
    }
    fixture.assert_clean();
}

/// The agent returns a turn that pauses at its summary. A handoff that waits for the end of the turn keeps
/// waiting.
#[tokio::test]
async fn a_turn_that_pauses_at_its_summary_hands_nothing_over() {
    let both = handoff_beside(Reply::new()).call("read_file", json!({"path": "x"}));
    let block = json!({"type": "compaction", "content": "So far."});
    let paused = Reply::new()
        .part(Part::Block(block))
        .stop(Stop::Word("compaction".to_owned()));
    let fixture = Fixture::new(BETAS, [both, paused, Reply::text("Done."), fresh()]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let history = fixture.ran(&fixture.history(), &answer);
    let answer = fixture.ask(&history, true).await;
    assert_eq!((answer.stop.as_str(), answer.text.as_str()), ("compaction", ""));
    let answer = fixture
        .ask(&fixture.then(&history, &answer, "Go on."), true)
        .await;
    assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
    assert_eq!(fixture.sent(), [carry()]);
    fixture.assert_clean();
}

/// The memory tool has no schema and the agent runs it, so such a request belongs to an agent loop.
#[tokio::test]
async fn an_agent_with_the_memory_tool_alone_is_offered_the_handoff() {
    fn remembering(history: &[Value], stream: bool) -> Value {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["tools"] = json!([{"type": "memory_20250818", "name": "memory"}]);
        body
    }
    let variant = Variant {
        body: remembering,
        ..BETAS
    };
    let view = |path: &str| {
        Reply::new()
            .thinking("Notes?")
            .call("memory", json!({"command": "view", "path": path}))
    };
    let both = handoff_beside(view("/memories"));
    let replies = [
        both,
        Reply::text("Done."),
        view("/memories/next.md"),
        Reply::text("ok"),
    ];
    let fixture = Fixture::new(variant, replies).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    assert_eq!(answer.calls[0].1, "memory");
    let history = fixture.ran(&fixture.history(), &answer);
    let answer = fixture.ask(&history, true).await;
    fixture.ask(&fixture.ran(&history, &answer), true).await;
    assert_eq!(fixture.sent(), [carry().as_str(), "call memory", "result"]);
    let tools = &last(&fixture).body["tools"];
    assert_eq!(tools[0], json!({"type": "memory_20250818", "name": "memory"}));
    fixture.assert_clean();
}

/// Tools that are defined in the middle of a conversation survive a cut, in order. If only such tools are
/// offered, the request is relayed.
#[tokio::test]
async fn tools_defined_in_messages_outlive_a_cut() {
    let call = Reply::new().thinking("Now.").call("deploy", json!({}));
    let fixture = Fixture::new(BETAS, [handoff(), call, Reply::text("ok"), Reply::text("ok")]).await;
    let mut history = fixture.history();
    history.extend([(BETAS.message)("assistant", "So."), fixture.user("Go on.")]);
    history.insert(3, json!({"role": "system", "content": [inline("deploy")]}));
    history.push(json!({"role": "system", "content": [change("tool_removal", "read_file")]}));
    let answer = fixture.ask(&history, true).await;
    let ran = fixture.ran(&history, &answer);
    fixture.ask(&ran, true).await;
    let sent = last(&fixture);
    assert_eq!(sent.messages()[1], history[3]);
    assert_eq!(sent.messages()[2], history[6]);
    // An agent's tool with the name of baton's belongs to the agent, wherever it is defined.
    let mut taken = fixture.history();
    taken.insert(
        1,
        json!({"role": "system", "content": [inline("session_handoff")]}),
    );
    let response = fixture.send(&taken, true).await;
    assert_eq!(response.header("x-baton-untooled"), Some("name_taken"));
    assert_eq!(last(&fixture).raw, (BETAS.body)(&taken, true).to_string());
    fixture.assert_clean();
}

fn threaded(fixture: &Fixture, history: &[Value], thread: Value) -> Value {
    let mut body = (fixture.variant.body)(history, true);
    body["thread"] = thread;
    body
}

/// The provider stores a thread, so nothing can be cut. The request is relayed unchanged, with the reason
/// stated.
#[tokio::test]
async fn a_message_thread_is_relayed_and_the_reason_is_said() {
    let fixture = Fixture::new(BETAS, [Reply::text("Yes."), Reply::text("Yes.")]).await;
    let begin = threaded(&fixture, &fixture.history(), json!({"type": "create"}));
    let response = post(&fixture, &begin).await;
    assert_eq!(response.header("x-baton-untooled"), Some("provider_held"));
    assert_eq!(last(&fixture).raw, begin.to_string());
    let text = response.text();
    let id = text.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let more = [fixture.user("More.")];
    let go_on = threaded(
        &fixture,
        &more,
        json!({"type": "continue", "previous_message_id": id}),
    );
    let response = post(&fixture, &go_on).await;
    assert_eq!(response.header("x-baton-untooled"), Some("provider_held"));
    assert_eq!(last(&fixture).raw, go_on.to_string());
    fixture.assert_clean();
}

/// A conversation that has the tool continues without a thread, because the provider would store a different
/// history than the agent's. Its refusal makes the agent send the whole history again.
#[tokio::test]
async fn a_pinned_conversation_is_not_held_in_a_thread() {
    let replies = [
        handoff(),
        fresh(),
        Reply::new().thinking("Hm.").say("One."),
        Reply::new().thinking("Hm.").say("Two."),
    ];
    let fixture = Fixture::new(BETAS, replies).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let history = fixture.then(&fixture.history(), &answer, "More.");
    let response = post(&fixture, &threaded(&fixture, &history, json!({"type": "create"}))).await;
    assert_eq!(response.header("x-baton-untooled"), None);
    let sent = last(&fixture);
    assert_eq!(sent.body.get("thread"), None);
    assert!(sent.offers_handoff());
    assert_eq!(fixture.sent()[0], carry());
    let text = response.text();
    let id = text.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let more = [fixture.user("And more.")];
    let go_on = json!({"type": "continue", "previous_message_id": id});
    let refused = post(&fixture, &threaded(&fixture, &more, go_on)).await;
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("thread_not_found"), "{}", refused.text());
    let answer = fixture.answer(&response, true);
    let history = fixture.then(&history, &answer, "And more.");
    let response = post(&fixture, &threaded(&fixture, &history, json!({"type": "create"}))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(fixture.sent()[0], carry());
    let rules: Vec<_> = fixture
        .provider
        .complaints()
        .iter()
        .map(|c| format!("{:?}", c.rule))
        .collect();
    assert_eq!(rules, ["UnknownResponse"]);
    assert_eq!(fixture.script.left(), 0);
}
