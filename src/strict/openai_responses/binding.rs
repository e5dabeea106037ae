//! Encrypted reasoning, which belongs behind the very prefix that it was made for.
//!
//! Reasoning itself is no part of the prefix, since older reasoning may be left out.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::items::{kind, whole};
use crate::strict::canonical;
use crate::strict::fields::{list, text};
use crate::strict::model::Seen;
use crate::strict::stamp::Stamp;

/// What encrypted reasoning is given out with: there is one kind of it.
const THING: &str = "reasoning";

/// Fields that are the API's own bookkeeping: clients may leave them out.
const LOOSE: [&str; 6] = ["id", "status", "phase", "annotations", "logprobs", "created_by"];

/// How encrypted content was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Right,
    /// It was not made here.
    Foreign,
    /// System, tools or earlier items are not those it was made for.
    Moved,
}

/// A transcript, hashed item by item up to some place.
#[derive(Clone)]
pub(super) struct Prefix(Sha256);

impl Prefix {
    /// The prefix before the first item.
    pub(super) fn new(body: &Value) -> Self {
        let mut prefix = Prefix(Sha256::new());
        prefix.feed(body.get("instructions").unwrap_or(&Value::Null));
        for tool in list(body, "tools") {
            prefix.feed(&plain(tool));
        }
        prefix
    }

    /// The prefix behind the last item of a request.
    pub(super) fn whole(seen: &Seen) -> Self {
        let mut prefix = Prefix::new(&seen.body);
        for item in whole(seen) {
            prefix.push(&item);
        }
        prefix
    }

    /// Goes past an item.
    pub(super) fn push(&mut self, item: &Value) {
        if kind(item) != "reasoning" {
            self.feed(&plain(item));
        }
    }

    /// The encrypted content of reasoning at this place.
    pub(super) fn stamp(&self) -> String {
        Stamp::new(THING, &self.0).write()
    }

    /// Checks the encrypted content of reasoning at this place.
    pub(super) fn verify(&self, encrypted: &str) -> Found {
        let here = Stamp::new(THING, &self.0);
        match Stamp::read(encrypted) {
            Some(made) if !made.same_thing(&here) => Found::Foreign,
            Some(made) if !made.same_prefix(&here) => Found::Moved,
            Some(_) => Found::Right,
            None => Found::Foreign,
        }
    }

    fn feed(&mut self, value: &Value) {
        self.0.update(canonical::text(value).as_bytes());
        self.0.update([0]);
    }
}

/// An item (or tool, or part) by value: without bookkeeping and null fields, and with content in its long form.
fn plain(value: &Value) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    let mut out = Map::new();
    for (key, field) in fields {
        let loose = LOOSE.contains(&key.as_str()) || field.is_null();
        if loose || (key == "type" && field == "message") {
            continue;
        }
        let field = match (key.as_str(), field) {
            ("content", Value::String(said)) => json!([{"type": "text", "text": said}]),
            ("content", Value::Array(parts)) => parts.iter().map(plain).collect(),
            ("type", _) if matches!(text(value, "type"), "input_text" | "output_text") => json!("text"),
            _ => field.clone(),
        };
        out.insert(key.clone(), field);
    }
    Value::Object(out)
}

/// The ids of the reasoning items of a request that stand behind another prefix than they were made for.
pub(super) fn moved(seen: &Seen) -> Vec<String> {
    let mut prefix = Prefix::new(&seen.body);
    let mut out = Vec::new();
    for item in whole(seen) {
        if kind(&item) == "reasoning" && prefix.verify(&encrypted(seen, &item)) == Found::Moved {
            out.push(text(&item, "id").to_owned());
        }
        prefix.push(&item);
    }
    out
}

/// The encrypted content of a reasoning item: its own, or what is stored; empty where there is neither.
pub(super) fn encrypted(seen: &Seen, item: &Value) -> String {
    let given = text(item, "encrypted_content");
    if !given.is_empty() {
        return given.to_owned();
    }
    let stored = seen.memory.item(text(item, "id")).is_some();
    let made = stored.then(|| seen.memory.made(text(item, "id"))).flatten();
    made.and_then(|made| made.stamp).unwrap_or_default()
}
