//! Injected items: sentinels and asides, and a response without upstream output.

use uuid::Uuid;

use crate::marker::{self, MarkerKind, note};
use crate::text::json;

use super::item::{ASIDE_ITEM, FILLER_ITEM, LOCAL_ANSWER_ITEM, SENTINEL_ITEM};

/// Maximum part of a response id in an injected item's id, in bytes. The API accepts ids of 64 bytes.
const ID_BYTES: usize = 48;

/// An injected message item.
pub(super) struct InjectedMessage {
    id: String,
    phase: bool,
    literal: String,
}

impl InjectedMessage {
    /// Creates an item for text from baton. `phase` tells whether the model's messages have that member.
    ///
    /// A sentinel or an aside is identified by its item id as well. Any other text gets an id from the
    /// upstream `response` before it and its `index` in the output, because the API rejects two items with
    /// the same id.
    pub(super) fn new(text: &str, response: &str, index: u64, phase: bool) -> Self {
        let id = match mark(text) {
            Some((prefix, id)) => format!("{prefix}{}", id.simple()),
            None => other_id(text, response, index),
        };
        Self {
            id,
            phase,
            literal: json::quote(text),
        }
    }

    /// Creates an item with this id, the only one of a synthetic response.
    pub(super) fn named(id: String, text: &str) -> Self {
        Self {
            id,
            phase: false,
            literal: json::quote(text),
        }
    }

    /// Events that stream the item at this output index, as pairs of event and members.
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

    /// The completed item.
    pub(super) fn done(&self) -> String {
        self.item("completed", &Self::part(&self.literal))
    }

    fn item(&self, status: &str, content: &str) -> String {
        // A sentinel is never the final answer, whatever the phase of the model's messages.
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

/// Item id for other text in this response. The model never sees a note, and sees a placeholder.
fn other_id(text: &str, response: &str, index: u64) -> String {
    let prefix = match text.trim_start().starts_with(note::BEGINS) {
        true => LOCAL_ANSWER_ITEM,
        false => FILLER_ITEM,
    };
    let own = response.trim_start_matches("resp_").chars();
    let own = own.filter(char::is_ascii_alphanumeric).take(ID_BYTES);
    format!("{prefix}{}_{index}", own.collect::<String>())
}

/// Item id prefix and id of the sentinel or aside in text from baton.
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

/// Minimal response object for a response without upstream output. Its timestamp comes from the sentinel's
/// id.
pub(super) fn made_up(text: &str) -> String {
    let id = mark(text).map_or(Uuid::nil(), |(_, id)| id);
    let seconds = (id.as_u128() >> 80) / 1000;
    format!(
        r#"{{"id":"resp_handoff_{}","object":"response","created_at":{seconds},"status":"in_progress","error":null,"incomplete_details":null,"model":"","output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{{}}}}"#,
        id.simple()
    )
}
