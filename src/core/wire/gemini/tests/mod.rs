//! Unit tests of the whole wire, for cases that the golden files do not cover.

mod requests;
mod streams;

use bytes::Bytes;

use super::WIRE;
use crate::record::WireId;
use crate::record::{HiddenPair, HiddenResult, InsertionPoint};
use crate::rewrite::{Cut, RequestReading, Rewrite, RewriteOutcome, rewrite};
use crate::text::splice;
use crate::text::testing::assert_contains;
use crate::tools::{Tool, ToolTable};
use crate::wire::{Operation, ResponseWatch};

const WATCH: ResponseWatch = ResponseWatch {
    hide: crate::tools::ToolNames::HANDOFF,
    buffered_bytes: 1 << 20,
};

fn reading(body: &str) -> RequestReading {
    let body = Bytes::copy_from_slice(body.as_bytes());
    RequestReading::new(&WIRE, &body, Operation::Generate).unwrap()
}

fn pair(sibling: &str, offset: i32) -> HiddenPair {
    HiddenPair {
        id: uuid::Uuid::from_u128(7),
        principal: "local".into(),
        conversation: "c".into(),
        wire: WireId::Gemini,
        tool: "session_handoff".into(),
        call_id: "h".into(),
        call: r#"{"functionCall":{"id":"h"}}"#.into(),
        answer: HiddenResult::QUEUED,
        place: InsertionPoint::Beside {
            sibling: sibling.into(),
            offset,
        },
        pending: None,
        created_ms: 0,
    }
}

fn rewritten(body: &str, pairs: &[HiddenPair], tool: bool) -> (String, RewriteOutcome) {
    let tools = ToolTable::new(vec![Tool::handoff(Some("d"), false)]);
    let what = Rewrite {
        tools: tool.then_some(&tools),
        pairs,
        ..Rewrite::default()
    };
    let done = rewrite(&reading(body), &what);
    let text = splice::flat(done.rope.clone());
    let _: serde_json::Value = serde_json::from_slice(&text).unwrap();
    (String::from_utf8(text.to_vec()).unwrap(), done)
}
