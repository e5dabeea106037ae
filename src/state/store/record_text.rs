//! Records as the text that stores keep.

use std::collections::HashMap;

use serde::de::IgnoredAny;

use super::records::{PlacedRecord, RecordKind, StoredRecord};
use baton_core::record::{DocumentRecord, Handoff, HandoffStatus, Principal};

/// A record as text.
///
/// The status, which changes independently, and the long text, which not every read needs, are separate from the
/// JSON.
pub(super) struct RecordText {
    /// Status of a document, `archived` for an archived handoff, or empty.
    pub(super) state: String,
    pub(super) json: String,
    /// Head of a handoff, or content of a document.
    pub(super) body: String,
}

impl StoredRecord {
    /// Returns the length of the record as text, in bytes.
    pub(crate) fn text_bytes(&self) -> u64 {
        RecordText::new(self).map_or(0, |text| (text.json.len() + text.body.len()) as u64)
    }
}

/// Whether a string consists of JSON objects, separated by commas. The store's server may have damaged it.
fn is_elements(text: &str) -> bool {
    serde_json::from_str::<Vec<HashMap<String, IgnoredAny>>>(&format!("[{text}]")).is_ok()
}

impl RecordText {
    pub(super) fn new(record: &StoredRecord) -> serde_json::Result<Self> {
        let (mut state, mut body) = ("", String::new());
        let json = match record {
            StoredRecord::Handoff(handoff) => {
                let mut bare = (**handoff).clone();
                body = std::mem::take(&mut bare.head);
                state = if std::mem::take(&mut bare.archived) {
                    ARCHIVED
                } else {
                    ""
                };
                serde_json::to_string(&bare)
            }
            StoredRecord::Placed { record, .. } => serde_json::to_string(record),
            StoredRecord::ResponseId { record, .. } => serde_json::to_string(record),
            StoredRecord::Conversation(record) => serde_json::to_string(record),
            StoredRecord::Document(document) => {
                let mut bare = (**document).clone();
                body = std::mem::take(&mut bare.document);
                state = document.status.name();
                serde_json::to_string(&bare)
            }
        };
        let state = state.to_owned();
        Ok(Self {
            state,
            json: json?,
            body,
        })
    }

    /// Restores the record, with its owner and its last use.
    pub(super) fn record(
        self,
        kind: RecordKind,
        owner: Principal,
        used_ms: u64,
    ) -> serde_json::Result<StoredRecord> {
        let Self { state, json, body } = &self;
        Ok(match kind {
            RecordKind::Handoff => {
                let mut handoff: Handoff = serde_json::from_str(json)?;
                handoff.archived = state == ARCHIVED;
                // Without a head it is built anew from the prompt.
                handoff.head = Some(self.body)
                    .filter(|head| is_elements(head))
                    .unwrap_or_default();
                StoredRecord::Handoff(Box::new(handoff))
            }
            RecordKind::Placed(kind) => StoredRecord::Placed {
                record: PlacedRecord::from_json(kind, json)?,
                used_ms,
            },
            RecordKind::ResponseId => StoredRecord::ResponseId {
                record: serde_json::from_str(json)?,
                used_ms,
            },
            RecordKind::Conversation => StoredRecord::Conversation(serde_json::from_str(json)?),
            RecordKind::Document => {
                let mut document: DocumentRecord = serde_json::from_str(json)?;
                document.principal = owner;
                // An unknown status, from a later version, must not count as active.
                document.status = HandoffStatus::named(state).unwrap_or(HandoffStatus::Superseded);
                // A store may keep the content in the JSON.
                if !body.is_empty() {
                    document.document = self.body;
                }
                StoredRecord::Document(Box::new(document))
            }
        })
    }
}

/// State of an archived handoff.
pub(super) const ARCHIVED: &str = "archived";
