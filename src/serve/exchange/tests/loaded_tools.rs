//! Tools that Claude Code has loaded by ToolSearch, named after the carry-over prompt.

use serde_json::{Value, json};

use super::{PROMPT, Stage, claude, handed_over, model, sent, user};
use baton_core::marker::sentinel;

fn search(id: &str, names: &[&str]) -> [Value; 2] {
    let call = json!({"type": "tool_use", "id": id, "name": "ToolSearch", "input": {"query": "web"}});
    let references = names
        .iter()
        .map(|name| json!({"type": "tool_reference", "tool_name": name}));
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": references.collect::<Vec<_>>()});
    [
        json!({"role": "assistant", "content": [call]}),
        json!({"role": "user", "content": [result]}),
    ]
}

fn request(messages: &[Value]) -> Value {
    let mut request = claude(messages);
    let tools = request["tools"].as_array_mut().unwrap();
    for name in ["WebFetch", "TodoWrite", "Unused"] {
        let schema = json!({"type": "object"});
        tools.push(json!({"name": name, "description": "d", "input_schema": schema, "defer_loading": true}));
    }
    request
}

#[tokio::test]
async fn what_was_loaded_is_named_once_behind_the_prompt() {
    let stage = Stage::new();
    let mut messages = vec![user("Fetch it.")];
    messages.extend(search("t1", &["WebFetch", "Gone"]));
    messages.extend(search("t2", &["TodoWrite", "WebFetch"]));
    let exchange = stage.request(request(&messages)).exchange().await;
    let handoff = handed_over(&exchange, PROMPT).await;
    messages.extend([model(&sentinel::short(handoff.id, None)), user("Go on.")]);
    for more in [&[][..], &[model("Yes."), user("And?")]] {
        let offered = stage
            .request(request(&[&messages[..], more].concat()))
            .offered()
            .await;
        let first = sent(&stage, &offered)[0]["content"].clone();
        let line = "<loaded-tools>Used before and not loaded now. One ToolSearch call loads them: select:TodoWrite,WebFetch</loaded-tools>";
        assert_eq!(first, format!("{PROMPT}\n\n{line}"));
    }
}
