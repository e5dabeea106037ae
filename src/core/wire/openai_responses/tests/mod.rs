//! Cases that the golden files do not cover.

mod cut;
mod legs;
mod pairs;
mod replies;
mod request;
mod sdk;
mod stream;

use bytes::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::WIRE;
use crate::record::WireId;
use crate::record::{HiddenPair, HiddenResult, InsertionPoint};
use crate::rewrite::{ContinuedResponse, Cut, RequestReading, Rewrite, RewriteOutcome, rewrite};
use crate::text::splice;
use crate::text::testing::assert_lacks;
use crate::wire::Operation;

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
const ITEM: &str = "msg_handoff_0199a3c27d1e7c3a9b1f2f6f0c9d8e11";
const ASIDE: &str = "msg_aside_0199a3c27d1e7c3a9b1f2f6f0c9d8e11";
const HEAD: &str = r#"{"type":"message","role":"user","content":"go on"}"#;

fn reading(body: &Value) -> RequestReading {
    RequestReading::new(&WIRE, &Bytes::from(body.to_string()), Operation::Generate).unwrap()
}

fn rewritten(body: &Value, what: &Rewrite<'_>) -> RewriteOutcome {
    rewrite(&reading(body), what)
}

/// The body that upstream gets.
fn sent(body: &Value, what: &Rewrite<'_>) -> Value {
    value(rewritten(body, what))
}

fn value(done: RewriteOutcome) -> Value {
    serde_json::from_slice(&splice::flat(done.rope)).unwrap()
}

/// Cuts the body at its last sentinel.
fn cut(body: &Value) -> Value {
    value(cut_with(body, &Rewrite::default()))
}

fn cut_with(body: &Value, what: &Rewrite<'_>) -> RewriteOutcome {
    let reading = reading(body);
    let found = reading.candidates();
    let cut = Cut::At {
        candidate: found.first().expect("a sentinel"),
        prompt: Some("go on"),
        head: HEAD,
    };
    rewrite(&reading, &Rewrite { cut, ..*what })
}

fn with_input(input: Value) -> Value {
    json!({"model": "m", "input": input, "tools": [{"type": "function", "name": "read"}]})
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

fn message(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "annotations": [], "text": text}]})
}

fn called(id: &str, call_id: &str) -> Value {
    json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id, "name": "read",
        "arguments": "{}"})
}

fn answered(call_id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": "text"})
}

fn thought(id: &str) -> Value {
    json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": "eA=="})
}

fn sentinel() -> Value {
    message(ITEM, &format!("[[handoff-resume:{ID}]]"))
}

/// Items by words: `call 2` is the call `c2` with the item id `fc_2`, `result 2` its result, `thought 2` the
/// reasoning `rs_2`, `text 2` the model's text "2" in `msg_2`. Any other word is a message of the user.
fn items(words: &str) -> Value {
    let item = |words: &str| match words.split_once(' ') {
        Some(("call", n)) => called(&format!("fc_{n}"), &format!("c{n}")),
        Some(("result", n)) => answered(&format!("c{n}")),
        Some(("thought", n)) => thought(&format!("rs_{n}")),
        Some(("text", n)) => message(&format!("msg_{n}"), n),
        Some(("reference", id)) => reference(id),
        _ if words == "sentinel" => sentinel(),
        _ => user(words),
    };
    words.split(", ").map(item).collect()
}

fn reference(id: &str) -> Value {
    json!({"type": "item_reference", "id": id})
}

fn without_id(mut item: Value) -> Value {
    item.as_object_mut().unwrap().remove("id");
    item
}

fn hidden(id: &str, call_id: &str) -> Value {
    json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id,
        "name": "session_handoff", "arguments": "{\"prompt\":\"p\"}"})
}

fn pair(call_id: &str, place: InsertionPoint) -> HiddenPair {
    HiddenPair {
        id: ID,
        principal: "local".into(),
        conversation: "c".into(),
        wire: WireId::OpenaiResponses,
        tool: "session_handoff".into(),
        call_id: call_id.into(),
        call: hidden("fc_h", call_id).to_string(),
        answer: HiddenResult::QUEUED,
        place,
        pending: Some(("p".into(), None)),
        created_ms: 0,
    }
}

fn beside(call_id: &str, sibling: &str, offset: i32) -> HiddenPair {
    let sibling = sibling.to_owned();
    pair(call_id, InsertionPoint::Beside { sibling, offset })
}

fn result(call_id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call_id,
        "output": "Handoff queued: it takes place when your turn ends, unless the user sends a message first. Call session_handoff again to replace its prompt."})
}
