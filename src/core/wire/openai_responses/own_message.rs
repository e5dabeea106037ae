//! What is ours in a response: sentinels and asides as items, and a response without upstream output.

use uuid::Uuid;

use crate::marker::{self, MarkerKind};
use crate::text::json;

use super::item::{ASIDE_ITEM, FILLER_ITEM, SENTINEL_ITEM};

/// How much of a response's id goes into the id of an item of ours: the API takes 64 bytes.
const ID_BYTES: usize = 48;

/// An item of our own, a message.
pub(super) struct InjectedMessage {
    id: String,
    phase: bool,
    literal: String,
}

impl InjectedMessage {
    /// A sentinel or aside is identified by its item's id, too. Any other text gets an id from the upstream `response` that
    /// it appears after and from its `index` in the output: the API refuses two items of one id. `phase`: the model's
    /// messages have one.
    pub(super) fn new(text: &str, response: &str, index: u64, phase: bool) -> Self {
        let id = match mark(text) {
            Some((prefix, id)) => format!("{prefix}{}", id.simple()),
            None => note_id(response, index),
        };
        Self {
            id,
            phase,
            literal: json::quote(text),
        }
    }

    /// An item that is neither: all of an answer of our own.
    pub(super) fn named(id: String, text: &str) -> Self {
        Self {
            id,
            phase: false,
            literal: json::quote(text),
        }
    }

    /// The events that stream it under this output index: event and members each.
    pub(super) fn events(&self, index: u64) -> [(&'static str, String); 6] {
        let (at, text) = (self.at(index), &self.literal);
        let (empty, part) = (Self::part("\"\""), Self::part(text));
        let item = |item: String| format!(r#""output_index":{index},"item":{item}"#);
        [
            ("response.output_item.added", item(self.item("in_progress", ""))),
            ("response.content_part.added", format!(r#"{at},"part":{empty}"#)),
            (
                "response.output_text.delta",
                format!(r#"{at},"delta":{text},"logprobs":[]"#),
            ),
            (
                "response.output_text.done",
                format!(r#"{at},"text":{text},"logprobs":[]"#),
            ),
            ("response.content_part.done", format!(r#"{at},"part":{part}"#)),
            ("response.output_item.done", item(self.done())),
        ]
    }

    fn at(&self, index: u64) -> String {
        format!(
            r#""item_id":"{}","output_index":{index},"content_index":0"#,
            self.id
        )
    }

    /// An `output_text` part with this literal.
    fn part(literal: &str) -> String {
        format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{literal}}}"#)
    }

    /// The item with its text.
    pub(super) fn done(&self) -> String {
        self.item("completed", &Self::part(&self.literal))
    }

    fn item(&self, status: &str, content: &str) -> String {
        // Whatever the phase of the model's own messages: a sentinel is never the final answer.
        let phase = if self.phase {
            r#","phase":"commentary""#
        } else {
            ""
        };
        format!(
            r#"{{"id":"{}","type":"message","status":"{status}","role":"assistant"{phase},"content":[{content}]}}"#,
            self.id
        )
    }
}

/// The id of an item of ours that is neither sentinel nor aside, in this response.
fn note_id(response: &str, index: u64) -> String {
    let own = response.trim_start_matches("resp_").chars();
    let own = own.filter(char::is_ascii_alphanumeric).take(ID_BYTES);
    format!("{FILLER_ITEM}{}_{index}", own.collect::<String>())
}

/// Item id prefix and id of the sentinel or aside in a text of ours.
fn mark(text: &str) -> Option<(&'static str, Uuid)> {
    let quoted = json::quote(text);
    marker::marks(quoted.as_bytes())
        .into_iter()
        .find_map(|m| match m.kind {
            MarkerKind::Open(id) => Some((SENTINEL_ITEM, id)),
            MarkerKind::Aside(id) => Some((ASIDE_ITEM, id)),
            _ => None,
        })
}

/// The response object of a response without any upstream output: as little as a reader needs, its time taken from the
/// sentinel's id.
pub(super) fn made_up(text: &str) -> String {
    let id = mark(text).map_or(Uuid::nil(), |(_, id)| id);
    let seconds = (id.as_u128() >> 80) / 1000;
    format!(
        r#"{{"id":"resp_handoff_{}","object":"response","created_at":{seconds},"status":"in_progress","error":null,"incomplete_details":null,"model":"","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{{}}}}"#,
        id.simple()
    )
}
