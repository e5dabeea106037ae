//! Whatever a model says on any wire: later requests give it back as it was, in the pieces that it came in or in one.

use baton_core::marker::escape::Escaper;
use baton_core::rewrite::notes::{NoteSearch, take_out};
use baton_core::rewrite::{RequestReading, Rewrite, rewrite};
use baton_core::text::{json, splice};
use baton_core::tools::ToolTable;
use baton_core::wire::{Operation, WIRES};
use bytes::Bytes;
use serde_json::{Value, json};

/// The text in pieces of about `length` bytes.
pub fn split(text: &str, length: u8) -> Vec<&str> {
    let mut rest = text;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(1 + usize::from(length)));
        rest = after;
        all.push(piece);
    }
    all
}

/// The inside of the literal that the agent gets for the next piece.
pub fn escaped(escaper: &mut Escaper, piece: &str) -> Vec<u8> {
    let quoted = json::quote(piece);
    let raw = &quoted.as_bytes()[1..quoted.len() - 1];
    let mut shown = raw.to_vec();
    for at in escaper.follow(raw).into_iter().rev() {
        shown.splice(at..at, *br"\\");
    }
    shown
}

/// The request of an agent whose model said these pieces, and its list of messages.
fn request(wire: usize, pieces: &[&str]) -> (Value, &'static str) {
    let blocks = |kind: Option<&str>| -> Vec<Value> {
        let block = |piece: &&str| {
            kind.map_or(
                json!({"text": piece}),
                |kind| json!({"type": kind, "text": piece}),
            )
        };
        pieces.iter().map(block).collect()
    };
    let (list, key, said) = match wire {
        2 => ("input", "content", Value::from(blocks(Some("output_text")))),
        3 => ("contents", "parts", Value::from(blocks(None))),
        // A message of this wire is one string.
        4 => ("messages", "content", Value::from(pieces.concat())),
        _ => ("messages", "content", Value::from(blocks(Some("text")))),
    };
    let role = if wire == 3 { "model" } else { "assistant" };
    let user = |text: &str| match wire {
        3 => json!({"role": "user", "parts": [{"text": text}]}),
        _ => json!({"role": "user", "content": text}),
    };
    let messages = json!([user("Begin."), {"role": role, key: said}, user("Go on.")]);
    (json!({"model": "m", "max_tokens": 9, list: messages}), list)
}

fn comes_back(wire: usize, shown: &[&str], said: &[&str]) {
    let (body, list) = request(wire, shown);
    let body = Bytes::from(body.to_string());
    let reading = RequestReading::new(WIRES[wire], &body, Operation::Generate).unwrap();
    let look = NoteSearch {
        prefix: "::",
        tags: &[],
    };
    assert!(reading.candidates().is_empty(), "{shown:?}");
    assert!(take_out(&reading, look, &[]).is_none(), "{shown:?}");
    let what = Rewrite {
        tools: Some(ToolTable::handoff()),
        ..Rewrite::default()
    };
    let sent: Value = serde_json::from_slice(&splice::flat(rewrite(&reading, &what).rope)).unwrap();
    assert_eq!(sent[list], request(wire, said).0[list]);
}

pub fn check(input: &[u8]) {
    let [wire, length, text @ ..] = input else { return };
    let wire = usize::from(*wire) % WIRES.len();
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let said = split(text, *length);
    let mut escaper = Escaper::default();
    let shown = said
        .iter()
        .map(|piece| json::unescape(&escaped(&mut escaper, piece)).into_owned());
    let shown: Vec<String> = shown.collect();
    let pieces: Vec<&str> = shown.iter().map(String::as_str).collect();
    comes_back(wire, &pieces, &said);
    comes_back(wire, &[&shown.concat()], &[text]);
}
