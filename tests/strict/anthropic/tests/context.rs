//! Context management: betas, summaries, threads, and changes of tools.

use pretty_assertions::assert_eq;

use super::*;

/// Adds these betas to a request.
fn with_betas(body: Value, betas: &'static str) -> Received {
    let mut received = received(body);
    received
        .headers
        .insert("anthropic-beta", HeaderValue::from_static(betas));
    received
}

/// A safety check, a system message after results, and a tool that the model has loaded.
#[test]
fn what_claude_code_sends_today_is_accepted_and_checked() {
    let mut body = request(json!([
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "TaskCreate", "input": {"subject": "Mend it"}}]},
        {"role": "user", "content": [result("toolu_1")]},
        {"role": "system", "content": [{"type": "text", "text": "The date has changed."}]},
    ]));
    body["tools"] = json!([{"name": "TaskCreate", "input_schema": {"type": "object"}}]);
    body["safeguards"] =
        json!([{"type": "dangerous_tool_use", "classifier_context": {"permission_mode": "auto", "v": 1}}]);
    let beta = "claude-code-20250219,dangerous-tool-use-2026-09-03";
    assert_eq!(with_betas(body.clone(), beta).broken_rules(), []);
    assert_eq!(rules(body.clone()), [Rule::Required], "without the beta");
    let mut odd = body.clone();
    odd["safeguards"] = json!({"type": "dangerous_tool_use"});
    assert_eq!(with_betas(odd, beta).broken_rules(), [Rule::Required]);
    body["messages"].as_array_mut().unwrap().swap(2, 3);
    let between = with_betas(body.clone(), beta).broken_rules();
    assert!(between.contains(&Rule::Unanswered), "{between:?}");
    body["tools"] = json!([]);
    let unlisted = with_betas(body, beta).broken_rules();
    assert!(unlisted.contains(&Rule::UnknownTool), "{unlisted:?}");
}

#[test]
fn what_manages_a_context_needs_its_beta() {
    let hello = || request(json!([{"role": "user", "content": "Hello."}]));
    let members = [
        ("thread", json!({"type": "create"}), "message-threads-2026-08-12"),
        (
            "context_hint",
            json!({"enabled": true}),
            "context-hint-2026-04-09",
        ),
        (
            "context_management",
            json!({"edits": []}),
            "context-management-2025-06-27",
        ),
    ];
    for (member, value, beta) in members {
        let mut body = hello();
        body[member] = value;
        assert_eq!(rules(body.clone()), [Rule::Required], "{member}");
        assert_eq!(with_betas(body, beta).violations(), [], "{member}");
    }
    let mut body = hello();
    body["compaction"] = json!({"type": "summarize"});
    body["context_management"] = json!({"edits": []});
    let both = with_betas(body, "context-management-2025-06-27");
    assert_eq!(both.broken_rules(), [Rule::Conflict]);
    let mut body = hello();
    body["thread"] = json!({"type": "continue", "previous_message_id": "msg_x"});
    let unknown = with_betas(body, "message-threads-2026-08-12");
    assert_eq!(unknown.broken_rules(), [Rule::UnknownResponse]);
    let clear_at = "mid-conversation-system-clear-at-2026-08-21";
    for (role, at, broken) in [
        ("system", "next_user_message", &[][..]),
        ("system", "never", &[]),
        ("system", "soon", &[Rule::Required]),
        ("user", "never", &[Rule::Required]),
    ] {
        let mut body = hello();
        push(&mut body, role, json!("Note."));
        body["messages"][1]["clear_at"] = json!(at);
        assert_eq!(with_betas(body, clear_at).broken_rules(), broken, "{role} {at}");
    }
}

#[test]
fn a_signed_summary_stands_first_alone_and_unchanged() {
    let summed = signed_summary("So far.", json!([]));
    let of = |messages: Value| rules(request(messages));
    let user = json!({"role": "user", "content": "Go on."});
    let message = |block: &Value| json!({"role": "assistant", "content": [block]});
    assert_eq!(of(json!([message(&summed), user])), []);
    assert_eq!(of(json!([{"role": "user", "content": [summed]}, user])), []);
    assert_eq!(of(json!([user, message(&summed), user])), [Rule::CompactionPlace]);
    let mut changed = summed.clone();
    changed["content"] = json!("So far?");
    assert_eq!(of(json!([message(&changed), user])), [Rule::CompactionPlace]);
    let twice = json!([message(&summed), user, message(&summed), user]);
    assert_eq!(of(twice), [Rule::CompactionPlace, Rule::CompactionPlace]);
    // A summary that the API created by itself stays in its original position.
    let own = json!({"type": "compaction", "content": "So far."});
    assert_eq!(of(json!([user, message(&own), user])), []);
}

#[test]
fn changes_of_tools_name_tools_that_are_declared_before() {
    let change =
        |tool: Value| json!({"role": "system", "content": [{"type": "tool_addition", "tool": tool}]});
    let named = |name: &str| change(json!({"type": "tool_reference", "name": name}));
    let defined = change(json!({"type": "tool_definition", "definition": {"name": "deploy"}}));
    let user = json!({"role": "user", "content": "Go on."});
    let (changes, inline) = (
        "mid-conversation-tool-changes-2026-07-01",
        "inline-tools-2026-09-15",
    );
    let of = |messages: Value, betas| with_betas(request(messages), betas).broken_rules();
    assert_eq!(of(json!([user, named("read_file")]), changes), []);
    assert_eq!(of(json!([user, named("read_file")]), "other"), [Rule::Required]);
    assert_eq!(of(json!([user, named("deploy")]), changes), [Rule::UnknownTool]);
    assert_eq!(of(json!([user, defined]), changes), [Rule::Required]);
    assert_eq!(of(json!([user, defined, named("deploy")]), inline), []);
    assert_eq!(
        of(json!([user, named("deploy"), defined]), inline),
        [Rule::UnknownTool]
    );
    assert_eq!(of(json!([user, defined, defined]), inline), [Rule::RepeatedTool]);
    assert_eq!(of(json!([user, change(Value::Null)]), inline), [Rule::Required]);
}
