//! Encrypted reasoning, which is bound to the prefix that it was produced after.
//!
//! Reasoning items are not part of the prefix, since a client may leave out older ones.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::transcript::{all, kind};
use crate::canonical;
use crate::dialect::Received;
use crate::fields::{list, text};
use crate::signature::Signature;

/// The content that encrypted reasoning is signed with: the prefix alone distinguishes two of them.
const CONTENT: &str = "reasoning";

/// Fields that are the API's own bookkeeping: clients may leave them out.
const BOOKKEEPING: [&str; 6] = ["id", "status", "phase", "annotations", "logprobs", "created_by"];

/// Whether encrypted content is valid at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    /// This provider did not produce it.
    Foreign,
    /// System, tools or earlier items differ from those it was produced after.
    PrefixMismatch,
}

/// A transcript, hashed item by item up to some place.
#[derive(Clone)]
pub(super) struct ItemPrefix(Sha256);

impl ItemPrefix {
    /// The prefix before the first item.
    pub(super) fn new(body: &Value) -> Self {
        let mut prefix = ItemPrefix(Sha256::new());
        prefix.feed(body.get("instructions").unwrap_or(&Value::Null));
        for tool in list(body, "tools") {
            prefix.feed(&canonical_form(tool));
        }
        prefix
    }

    /// The prefix after the last item of a request.
    pub(super) fn whole(request: &Received) -> Self {
        let mut prefix = ItemPrefix::new(&request.body);
        for item in all(request) {
            prefix.push(&item);
        }
        prefix
    }

    /// Extends the prefix by an item.
    pub(super) fn push(&mut self, item: &Value) {
        if kind(item) != "reasoning" {
            self.feed(&canonical_form(item));
        }
    }

    /// The encrypted content of reasoning produced at this place.
    pub(super) fn seal(&self) -> String {
        Signature::new(CONTENT, &self.0).write()
    }

    /// Checks the encrypted content of reasoning at this place.
    pub(super) fn verify(&self, encrypted: &str) -> Validity {
        let here = Signature::new(CONTENT, &self.0);
        match Signature::read(encrypted) {
            Some(made) if !made.same_content(&here) => Validity::Foreign,
            Some(made) if !made.same_prefix(&here) => Validity::PrefixMismatch,
            Some(_) => Validity::Valid,
            None => Validity::Foreign,
        }
    }

    fn feed(&mut self, value: &Value) {
        self.0.update(canonical::text(value).as_bytes());
        self.0.update([0]);
    }
}

/// An item (or tool, or part) in its canonical form: without bookkeeping and null fields, with content as parts.
fn canonical_form(value: &Value) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    let mut out = Map::new();
    for (key, field) in fields {
        let ignored = BOOKKEEPING.contains(&key.as_str()) || field.is_null();
        if ignored || (key == "type" && field == "message") {
            continue;
        }
        let field = match (key.as_str(), field) {
            ("content", Value::String(words)) => json!([{"type": "text", "text": words}]),
            ("content", Value::Array(parts)) => parts.iter().map(canonical_form).collect(),
            ("type", _) if matches!(text(value, "type"), "input_text" | "output_text") => json!("text"),
            _ => field.clone(),
        };
        out.insert(key.clone(), field);
    }
    Value::Object(out)
}

/// The ids of the reasoning items that follow another prefix than they were produced after.
pub(super) fn prefix_mismatches(request: &Received) -> Vec<String> {
    let mut prefix = ItemPrefix::new(&request.body);
    let mut out = Vec::new();
    for item in all(request) {
        if kind(&item) == "reasoning" && prefix.verify(&encrypted(request, &item)) == Validity::PrefixMismatch
        {
            out.push(text(&item, "id").to_owned());
        }
        prefix.push(&item);
    }
    out
}

/// The encrypted content of a reasoning item: its own, or the stored one; empty where there is neither.
pub(super) fn encrypted(request: &Received, item: &Value) -> String {
    let given = text(item, "encrypted_content");
    if !given.is_empty() {
        return given.to_owned();
    }
    let id = text(item, "id");
    let stored = request.memory.item(id).and_then(|_| request.memory.produced(id));
    stored.and_then(|produced| produced.encrypted).unwrap_or_default()
}
