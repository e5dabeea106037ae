//! Other means of context management: tools of agents, and features of the providers' APIs.
//!
//! docs/wires.md describes baton's behavior for each of them in a row.

use baton_llm::state::config::{Config, InjectPolicy};
use baton_strict::{Part, Reply, Stop, signed_summary};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::harness::{RawResponse, memory};
use crate::matrix::fixture::{Fixture, PROMPT, behind_line, carry, fresh, handoff, handoff_beside, thought};
use crate::matrix::talk::Talk;
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

/// Starts a conversation of an agent with that tool of Codex.
async fn resetting(change: impl FnOnce(&mut Config)) -> Talk {
    let variant = Variant {
        body: codex,
        ..RESPONSES
    };
    Talk::opened(Fixture::with(variant, [], memory(), change).await)
}

/// Why a response says that its request did not get the tool.
fn untooled(response: &RawResponse) -> Option<&str> {
    response.header("x-baton-untooled")
}

/// Sends a transcript that is relayed as it is, for this reason.
async fn is_relayed(talk: &Talk, reason: &str) -> RawResponse {
    talk.push(Reply::text("Yes."));
    let response = talk.sends().await;
    assert_eq!(untooled(&response), Some(reason));
    let mut body = (talk.variant.body)(&talk.history, true);
    (talk.edit)(&mut body);
    assert_eq!(talk.last().raw, body.to_string());
    response
}

#[tokio::test]
async fn a_tool_of_the_agents_own_that_resets_the_context_stands_alone() {
    for (variant, list, tool) in resets() {
        let mut talk = Talk::opened(Fixture::new(variant, []).await);
        talk.history.push(talk.user("Go on."));
        talk.edit = Box::new(move |body| {
            let tools = body.pointer_mut(list).and_then(Value::as_array_mut);
            tools.unwrap().push(tool.clone());
        });
        is_relayed(&talk, "agent_resets").await;
    }
    let mut talk = resetting(|_| {}).await;
    talk.history.push(talk.user("Go on."));
    is_relayed(&talk, "agent_resets").await;
    // The name inside text, or as another value, does not declare a tool.
    let mut talk = Talk::opened(Fixture::new(ANTHROPIC, []).await);
    talk.edit = Box::new(|body| {
        body["system"] = json!("Call `new_context`.");
        body["tools"][0]["input_schema"]["properties"]["path"]["enum"] = json!(["new_context"]);
    });
    talk.says("Go on.", "Yes.").await;
    assert!(talk.last().offers_handoff());
}

#[tokio::test]
async fn both_tools_are_offered_where_the_config_says_always() {
    let mut talk = resetting(|config| config.handoff.inject = InjectPolicy::Always).await;
    assert_ends(&talk.hands_over("Go on.").await.text, "Fresh.");
    assert!(talk.last().offers_handoff());
    talk.assert_clean();
}

/// A user may still hand over there, and from then on the model has both tools.
#[tokio::test]
async fn a_user_hands_over_beside_a_tool_that_resets() {
    let mut talk = resetting(|_| {}).await;
    let document = "## Goal\n\nMend the importer.";
    let answer = talk.says("::handoff --force --no-git", document).await;
    assert_begins(behind_line(&answer.text).unwrap(), "baton: handed over");
    for text in ["Go on.", "More."] {
        talk.says(text, thought("A turn.")).await;
        assert!(talk.last().offers_handoff());
        assert_contains(&talk.sent()[0], "Mend the importer.");
    }
    talk.assert_clean();
}

/// The history is bound to the list with baton's tool. That still holds after a reset, when the transcript
/// starts over without a sentinel, so the tool does not come and go.
#[tokio::test]
async fn a_conversation_that_has_the_tool_keeps_it_beside_one_that_resets() {
    let store = memory();
    let variant = Variant {
        body: codex,
        ..RESPONSES
    };
    let always = |config: &mut Config| config.handoff.inject = InjectPolicy::Always;
    let mut talk = Talk::opened(Fixture::with(variant, [], store.clone(), always).await);
    talk.edit = Box::new(|body| body["prompt_cache_key"] = json!("thread-1"));
    talk.hands_over("Go on.").await;
    talk.restart(store);
    for turn in 0..4 {
        if turn == 2 {
            talk.history.clear();
        }
        talk.says("Mend the importer, from the notes.", thought("A turn."))
            .await;
        assert!(talk.last().offers_handoff(), "turn {turn}");
        assert_eq!(talk.sent()[0] == carry(), turn < 2, "{:?}", talk.sent());
    }
    talk.assert_clean();
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
    let mut talk = Talk::new(Fixture::new(BETAS, []).await);
    talk.history = vec![
        talk.user("Mend the importer."),
        system("Environment.", None),
        system("Over.", Some("next_user_message")),
        system("For good.", Some("never")),
        talk.user("And the exporter."),
        system("Now.", Some("next_user_message")),
    ];
    let texts = |talk: &Talk| -> Vec<String> {
        let seen = talk.last();
        let system = seen
            .messages()
            .iter()
            .filter(|message| message["role"] == "system");
        system
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    };
    talk.push(handoff());
    talk.push(fresh());
    talk.goes_on().await;
    assert_eq!(texts(&talk), ["Environment.", "For good.", "Now."]);
    let later = [talk.user("More."), system("Later.", Some("next_user_message"))];
    talk.history.extend(later);
    talk.push(Reply::text("ok"));
    talk.goes_on().await;
    let sent = talk.last();
    assert_eq!(texts(&talk), ["Environment.", "For good.", "Now.", "Later."]);
    // Unchanged: the provider decides which of them are shown.
    let of = |text: &str| sent.messages().iter().find(|message| message["content"] == text);
    assert_eq!(of("Now.").unwrap()["clear_at"], "next_user_message");
    talk.says("More.", "ok").await;
    assert_eq!(texts(&talk), ["Environment.", "For good.", "Now.", "Later."]);
    talk.assert_clean();
}

/// The provider may refuse a request with a hint at history that the agent could clear. The hint reaches the
/// agent unchanged, and a leg unknown to the agent does not offer it.
#[tokio::test]
async fn a_context_hint_is_the_agents_own() {
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    talk.edit =
        Box::new(|body| body["context_hint"] = json!({"enabled": true, "target_tokens_saved": 75000}));
    talk.hands_over("Go on.").await;
    talk.says("More.", "ok").await;
    assert_eq!(talk.sent()[0], carry());
    let sent = talk.provider.generations();
    let hints = sent.iter().map(|leg| leg.body.get("context_hint").is_some());
    assert_eq!(hints.collect::<Vec<_>>(), [true, false, true]);
    talk.push(Reply::status(
        422,
        "context_hint: clear 80000 tokens and ask again",
    ));
    talk.history.push(talk.user("More."));
    let response = talk.sends().await;
    assert_eq!(response.status, 422);
    assert_contains(&response.text(), "clear 80000 tokens");
    talk.assert_clean();
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
    let changes = json!([inline("deploy"), change("tool_removal", "read_file")]);
    let summed = signed_summary("So far.", changes);
    let preamble = json!({"type": "text", "text": "<system-reminder>\nCLAUDE.md\n</system-reminder>"});
    let said = json!({"type": "text", "text": "Mend the exporter."});
    for first in [
        vec![
            json!({"role": "assistant", "content": [summed]}),
            json!({"role": "user", "content": [preamble, said]}),
        ],
        vec![json!({"role": "user", "content": [summed, preamble, said]})],
    ] {
        let mut talk = Talk::new(Fixture::new(BETAS, []).await);
        talk.history = [first, vec![system("Environment.", None), talk.user("Go on.")]].concat();
        talk.history.push((BETAS.message)("assistant", "So."));
        talk.history.push(talk.user("Go on."));
        talk.push(handoff());
        talk.runs(Reply::new().call("deploy", json!({})), "fn main() {}")
            .await;
        talk.push(Reply::text("ok"));
        talk.goes_on().await;
        for request in &talk.provider.generations()[1..] {
            assert_lacks(&String::from_utf8_lossy(&request.raw), "compaction");
            let messages = request.messages();
            let prompt = json!([preamble, {"type": "text", "text": PROMPT}]);
            assert_eq!(messages[0]["content"], prompt);
            let changed = json!({"role": "system", "content": summed["tool_changes"]});
            assert_eq!(messages[1..3], [changed, system("Environment.", None)]);
        }
        talk.assert_clean();
    }
}

/// With `compact_20260112` the provider itself summarizes, in the middle of a response, and from then on
/// omits everything before its block.
#[tokio::test]
async fn a_summary_in_an_answer_is_kept_behind_a_cut_and_goes_before_one() {
    let keep = json!({"type": "tool_uses", "value": 3});
    let edits = json!({"edits": [
        {"type": "clear_thinking_20251015", "keep": "all"},
        {"type": "clear_tool_uses_20250919", "keep": keep, "exclude_tools": ["read_file"]},
        {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50000}},
    ]});
    let block = |text: &str, changes: Value| {
        Reply::new().part(Part::Block(
            json!({"type": "compaction", "content": text, "tool_changes": changes}),
        ))
    };
    let changes = [inline("probe"), change("tool_removal", "probe")];
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    let edited = edits.clone();
    talk.edit = Box::new(move |body| body["context_management"] = edited.clone());
    let environment = json!({"type": "text", "text": "Environment."});
    let defined = json!({"role": "system", "content": [inline("probe"), environment]});
    talk.history.insert(1, defined);
    talk.history.push(talk.user("Go on."));
    talk.history
        .push(json!({"role": "system", "content": [change("tool_removal", "probe")]}));
    talk.push(block("Early.", json!(changes)).say("Looking."));
    talk.goes_on().await;
    talk.push(handoff());
    talk.says("Go on.", block("Behind.", Value::Null).say("Fresh."))
        .await;
    for _ in 0..2 {
        talk.says("More.", thought("ok")).await;
        let sent = talk.last();
        let raw = String::from_utf8_lossy(&sent.raw);
        assert_lacks(&raw, "Early.");
        assert_contains(&raw, "Behind.");
        assert_eq!(sent.body["context_management"], edits);
        // The changes that the early summary replaces are stated once.
        let kept = [json!([environment]), json!(changes)];
        let kept = kept.map(|content| json!({"role": "system", "content": content}));
        assert_eq!(sent.messages()[1..3], kept);
    }
    talk.assert_clean();
}

/// The agent returns a turn that pauses at its summary. That is not the end that a handoff waits for.
#[tokio::test]
async fn a_turn_that_pauses_at_its_summary_hands_nothing_over() {
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    talk.history.push(talk.user("Go on."));
    let both = handoff_beside(Reply::new()).call("read_file", json!({"path": "x"}));
    talk.runs(both, "fn main() {}").await;
    let block = Part::Block(json!({"type": "compaction", "content": "So far."}));
    talk.push(Reply::new().part(block).stop(Stop::Word("compaction".to_owned())));
    let answer = talk.goes_on().await;
    assert_eq!((answer.stop.as_str(), answer.text.as_str()), ("compaction", ""));
    // Then the user's message lets it lapse.
    assert_eq!(talk.says("Go on.", Reply::text("Done.")).await.text, "Done.");
    talk.assert_clean();
}

/// The memory tool has no schema and the agent runs it, so such a request belongs to an agent loop.
#[tokio::test]
async fn an_agent_with_the_memory_tool_alone_is_offered_the_handoff() {
    let memory = json!({"type": "memory_20250818", "name": "memory"});
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    let tools = json!([memory]);
    talk.edit = Box::new(move |body| body["tools"] = tools.clone());
    talk.history.push(talk.user("Go on."));
    let view = || {
        let path = json!({"command": "view", "path": "/memories"});
        Reply::new().thinking("Notes?").call("memory", path)
    };
    let answer = talk.runs(handoff_beside(view()), "notes").await;
    assert_eq!(answer.calls[0].1, "memory");
    talk.push(Reply::text("Done."));
    talk.runs(view(), "notes").await;
    talk.push(Reply::text("ok"));
    talk.goes_on().await;
    assert_eq!(talk.sent(), [carry().as_str(), "call memory", "result"]);
    assert_eq!(talk.last().body["tools"][0], memory);
    talk.assert_clean();
}

/// Tools that are defined in the middle of a conversation survive a cut, in order. If only such tools are
/// offered, the request is relayed.
#[tokio::test]
async fn tools_defined_in_messages_outlive_a_cut() {
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    let added = json!({"role": "system", "content": [inline("deploy")]});
    let removed = json!({"role": "system", "content": [change("tool_removal", "read_file")]});
    let more = [
        talk.user("Go on."),
        added.clone(),
        (BETAS.message)("assistant", "So."),
        talk.user("Go on."),
    ];
    talk.history.extend(more);
    talk.history.push(removed.clone());
    talk.push(handoff());
    let call = Reply::new().thinking("Now.").call("deploy", json!({}));
    talk.runs(call, "fn main() {}").await;
    talk.push(Reply::text("ok"));
    talk.goes_on().await;
    assert_eq!(talk.last().messages()[1..3], [added, removed]);
    // An agent's tool with the name of baton's belongs to the agent, wherever it is defined.
    talk.history = talk.history();
    let taken = json!({"role": "system", "content": [inline("session_handoff")]});
    talk.history.insert(1, taken);
    is_relayed(&talk, "name_taken").await;
    talk.assert_clean();
}

/// Sends a transcript in a thread.
async fn in_thread(talk: &mut Talk, thread: Value) -> RawResponse {
    talk.edit = Box::new(move |body| body["thread"] = thread.clone());
    talk.sends().await
}

/// The id of a streamed response.
fn id_of(response: &RawResponse) -> String {
    let text = response.text();
    let (_, id) = text.split_once("\"id\":\"").unwrap();
    id.split('"').next().unwrap().to_owned()
}

/// The provider stores a thread, so nothing can be cut. The request is relayed unchanged, with the reason
/// stated.
#[tokio::test]
async fn a_message_thread_is_relayed_and_the_reason_is_said() {
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    talk.history.push(talk.user("Go on."));
    talk.edit = Box::new(|body| body["thread"] = json!({"type": "create"}));
    let id = id_of(&is_relayed(&talk, "provider_held").await);
    talk.history = vec![talk.user("More.")];
    talk.edit = Box::new(move |body| body["thread"] = json!({"type": "continue", "previous_message_id": id}));
    is_relayed(&talk, "provider_held").await;
    talk.assert_clean();
}

/// A conversation that has the tool continues without a thread, because the provider would store a different
/// history than the agent's. Its refusal makes the agent send the whole history again.
#[tokio::test]
async fn a_pinned_conversation_is_not_held_in_a_thread() {
    let mut talk = Talk::opened(Fixture::new(BETAS, []).await);
    talk.hands_over("Go on.").await;
    for (n, text) in ["More.", "And more."].into_iter().enumerate() {
        talk.history.push(talk.user(text));
        talk.push(thought("One."));
        let response = in_thread(&mut talk, json!({"type": "create"})).await;
        assert_eq!((response.status, untooled(&response)), (200, None));
        let sent = talk.last();
        assert_eq!(sent.body.get("thread"), None);
        assert!(sent.offers_handoff());
        assert_eq!(talk.sent()[0], carry());
        talk.history.extend(talk.answer(&response, true).keep);
        if n == 0 {
            let go_on = json!({"type": "continue", "previous_message_id": id_of(&response)});
            let whole = std::mem::take(&mut talk.history);
            talk.history.push(talk.user("And more."));
            let refused = in_thread(&mut talk, go_on).await;
            assert_eq!(refused.status, 404);
            assert_contains(&refused.text(), "thread_not_found");
            talk.history = whole;
        }
    }
    let complaints = talk.provider.complaints().into_iter();
    let rules: Vec<_> = complaints
        .map(|complaint| format!("{:?}", complaint.rule))
        .collect();
    assert_eq!(rules, ["UnknownResponse"]);
    assert_eq!(talk.script.left(), 0);
}
