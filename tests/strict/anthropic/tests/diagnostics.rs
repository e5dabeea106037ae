//! The cache diagnosis.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Anthropic, push, received, request};
use crate::dialect::Dialect;
use crate::reply::Reply;
use crate::usage::Usage;

#[test]
fn an_answer_says_what_changed_since_the_request_that_is_named() {
    let mut first = request(json!([{"role": "user", "content": "Fix it."}]));
    first["diagnostics"] = json!({"previous_message_id": null});
    let provider = received(first.clone());
    let usage = Usage {
        input: 700,
        ..Usage::default()
    };
    let ask = |body: &Value| -> Value {
        let mut next = received(body.clone());
        next.memory = provider.memory.clone();
        let rendered = Anthropic.render(&next, &Reply::text("So."), &usage);
        serde_json::from_slice(&rendered.events[0]).unwrap()
    };
    let answer = ask(&first);
    assert_eq!(answer["diagnostics"], Value::Null);
    let mut next = first;
    next["diagnostics"] = json!({"previous_message_id": answer["id"]});
    push(&mut next, "assistant", json!("So."));
    push(&mut next, "user", json!("Go on."));
    assert_eq!(ask(&next)["diagnostics"], Value::Null);
    for (member, value, kind) in [
        ("model", json!("claude-opus-5"), "model_changed"),
        ("speed", json!("fast"), "model_changed"),
        ("system", json!("Be quick."), "system_changed"),
        ("tools", json!([]), "tools_changed"),
        (
            "messages",
            json!([{"role": "user", "content": "Fix that."}]),
            "messages_changed",
        ),
    ] {
        let mut changed = next.clone();
        changed[member] = value;
        let expected = json!({"type": kind, "cache_missed_input_tokens": 700});
        assert_eq!(
            ask(&changed)["diagnostics"]["cache_miss_reason"],
            expected,
            "{member}"
        );
    }
    next["diagnostics"] = json!({"previous_message_id": "msg_unknown"});
    assert_eq!(
        ask(&next)["diagnostics"]["cache_miss_reason"]["type"],
        "previous_message_not_found"
    );
    next.as_object_mut().unwrap().remove("diagnostics");
    assert_eq!(ask(&next).get("diagnostics"), None);
}
