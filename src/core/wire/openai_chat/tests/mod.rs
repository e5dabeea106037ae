//! Cases that the golden files do not cover.

mod endings;
mod legs;
mod request;
mod stream;
mod whole;

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use super::WIRE;
use crate::record::WireId;
use crate::record::{HiddenPair, HiddenResult, InsertionPoint};
use crate::rewrite::{RequestReading, Rewrite, rewrite};
use crate::text::splice;
use crate::wire::{HiddenCall, Operation, ResponseWatch};

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

fn pair(id: Uuid, call_id: &str, answer: HiddenResult, place: InsertionPoint) -> HiddenPair {
    let call = HiddenCall {
        id: call_id.into(),
        arguments: r#"{"prompt":""}"#.into(),
        ..HiddenCall::default()
    };
    HiddenPair {
        id,
        principal: "local".into(),
        conversation: "c".into(),
        wire: WireId::OpenaiChat,
        tool: "session_handoff".into(),
        call_id: call_id.into(),
        call: (WIRE.functions.hidden_call)(&call),
        answer,
        place,
        pending: None,
        created_ms: 0,
    }
}

fn beside(call_id: &str, sibling: &str, offset: i32) -> HiddenPair {
    let sibling = sibling.into();
    pair(
        Uuid::from_u128(1),
        call_id,
        HiddenResult::QUEUED,
        InsertionPoint::Beside { sibling, offset },
    )
}

fn aside() -> HiddenPair {
    pair(ID, "h", HiddenResult::EMPTY_PROMPT, InsertionPoint::Aside)
}

/// Messages of a transcript in the upstream view.
fn upstream(messages: &Value, pairs: &[HiddenPair]) -> Value {
    let body = Bytes::from(format!(r#"{{"model":"m","messages":{messages}}}"#));
    let reading = RequestReading::new(&WIRE, &body, Operation::Generate).unwrap();
    let what = Rewrite {
        pairs,
        ..Rewrite::default()
    };
    let sent = splice::flat(rewrite(&reading, &what).rope);
    serde_json::from_slice::<Value>(&sent).unwrap()["messages"].take()
}

/// Configuration for reading responses.
const WATCH: ResponseWatch = ResponseWatch {
    hide: crate::tools::ToolNames::HANDOFF,
    buffered_bytes: 1 << 20,
};
