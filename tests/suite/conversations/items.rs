//! A transcript in the shape that all wires share: speakers and content in order, without division into
//! messages and blocks.

use serde_json::Value;

use super::blocks::is_thinking;
use super::wires::Traits;

/// Beginnings of search results.
pub const FOUND: [&str; 3] = ["From what was cut", "Nothing found for", "Nothing to search"];

/// An item of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    User(String),
    Model(String),
    System(String),
    Thought(String),
    Call {
        id: String,
        name: String,
        arguments: Value,
    },
    Result {
        id: String,
        text: String,
    },
    Other(Value),
}

/// Normalizes items for comparison: joins consecutive text of one role, sorts the results of a turn, and
/// drops everything that the wire or its agent drops.
pub fn plain(items: Vec<Item>, traits: &Traits, thoughts: bool) -> Vec<Item> {
    let mut out: Vec<Item> = Vec::new();
    for mut item in items {
        match &mut item {
            Item::Thought(_) if !(traits.thoughts && thoughts) => continue,
            Item::User(text) | Item::Model(text) if text.is_empty() => continue,
            Item::Call { id, .. } | Item::Result { id, .. } if !traits.ids => id.clear(),
            _ => {}
        }
        // The searches have their own tests for the content. The provider checks that it stays the same.
        if let Item::Result { text, .. } = &mut item
            && FOUND.iter().any(|begins| text.starts_with(begins))
        {
            FOUND[0].clone_into(text);
        }
        match (out.last_mut(), &item) {
            (Some(Item::User(all)), Item::User(text)) | (Some(Item::Model(all)), Item::Model(text)) => {
                all.push_str(text);
            }
            _ => out.push(item),
        }
    }
    sort_runs(&mut out, |i| matches!(i, Item::Result { .. }));
    out
}

/// The model's text without whitespace, because whitespace around a removed insertion may differ.
pub fn unspaced(items: Vec<Item>) -> Vec<Item> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Item::Model(text) => {
                let text: String = text.split_whitespace().collect();
                if !text.is_empty() {
                    out.push(Item::Model(text));
                }
            }
            item => out.push(item),
        }
    }
    out
}

/// Moves the calls of each message to its end, sorted.
pub fn calls_last(mut items: Vec<Item>) -> Vec<Item> {
    let others = |i: &Item| matches!(i, Item::User(_) | Item::System(_) | Item::Result { .. });
    let is_call = |i: &Item| matches!(i, Item::Call { .. });
    let mut at = 0;
    while at < items.len() {
        let run = items[at..].iter().take_while(|i| !others(i)).count();
        items[at..at + run].sort_by_key(|i| is_call(i));
        at += run.max(1);
    }
    sort_runs(&mut items, is_call);
    items
}

/// Sorts consecutive items of this kind.
pub fn sort_runs(items: &mut [Item], is: impl Fn(&Item) -> bool) {
    let mut at = 0;
    while at < items.len() {
        let run = items[at..].iter().take_while(|i| is(i)).count();
        items[at..at + run].sort_by_key(|i| format!("{i:?}"));
        at += run.max(1);
    }
}

/// Items of the oracle's messages.
pub fn of_messages(messages: &[Value], traits: &Traits) -> Vec<Item> {
    messages.iter().flat_map(|m| of_message(m, traits)).collect()
}

fn of_message(message: &Value, traits: &Traits) -> Vec<Item> {
    let role = message["role"].as_str().unwrap();
    let blocks = message["content"].as_array().unwrap();
    let mut items: Vec<Item> = blocks.iter().map(|b| of_block(role, b, traits)).collect();
    if traits.text_first && role == "assistant" {
        items.sort_by_key(|i| matches!(i, Item::Call { .. }));
    }
    items
}

/// Items of a block of the oracle.
pub fn of_block(role: &str, block: &Value, traits: &Traits) -> Item {
    let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    match (block["type"].as_str().unwrap(), role) {
        ("text", "user") => Item::User(text("text")),
        ("text", "system") => Item::System(text("text")),
        ("text", _) => Item::Model(text("text")),
        ("tool_use", _) => Item::Call {
            id: text("id"),
            name: text("name"),
            arguments: block.get("raw").unwrap_or(&block["input"]).clone(),
        },
        ("tool_result", _) => Item::Result {
            id: text("tool_use_id"),
            text: text("content"),
        },
        _ if is_thinking(block) => Item::Thought(if traits.apart {
            String::new()
        } else {
            text("thinking")
        }),
        _ => Item::Other(block.clone()),
    }
}

/// Parses arguments, or returns the string itself if it is not JSON.
pub fn arguments(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

pub fn lines(items: &[Item]) -> String {
    items.iter().map(|i| format!("  {i:?}\n")).collect()
}
