//! Records of any kind, for operations on a whole store: copies and checks.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::StoreRetention;
use baton_core::record::{Conversation, CutPoint, DocumentRecord, Handoff, HandoffId, HiddenPair, Insertion};

/// Maximum number of records per call. A server does nothing else during a call.
pub(crate) const PAGE: usize = 256;

/// Minimum age of a record's last-used time before it is refreshed.
///
/// One day is precise enough for retention in weeks, and costs a busy conversation one write a day.
pub(crate) const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// Handoffs.
    Handoff,
    /// Records anchored in a transcript.
    Placed(PlacedKind),
    /// Response ids.
    ResponseId,
    /// Conversations.
    Conversation,
    /// Documents.
    Document,
}

/// A kind of record that is anchored in a transcript, and is found by its id or by its anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlacedKind {
    /// Hidden pairs, found by the call next to them.
    Pair,
    /// Cut points, found by the digest of their position.
    CutPoint,
    /// Other insertions, found by [`InsertionPoint::key`](baton_core::record::InsertionPoint::key).
    Insertion,
}

impl RecordKind {
    /// Every kind, referenced ones before referencing ones, so that an interrupted copy has no dangling
    /// references.
    pub const ALL: [Self; 7] = [
        Self::Handoff,
        Self::Placed(PlacedKind::Pair),
        Self::Placed(PlacedKind::CutPoint),
        Self::Placed(PlacedKind::Insertion),
        Self::ResponseId,
        Self::Conversation,
        Self::Document,
    ];

    /// Returns the name that `baton store` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handoff => "handoffs",
            Self::Placed(PlacedKind::Pair) => "hidden pairs",
            Self::Placed(PlacedKind::CutPoint) => "cut points",
            Self::Placed(PlacedKind::Insertion) => "insertions",
            Self::ResponseId => "response ids",
            Self::Conversation => "conversations",
            Self::Document => "documents",
        }
    }
}

impl PlacedKind {
    /// Names a lookup in its error message.
    pub(super) fn reading(self) -> &'static str {
        match self {
            Self::Pair => "read hidden pairs",
            Self::CutPoint => "read cut points",
            Self::Insertion => "read insertions",
        }
    }
}

/// Selects placed records.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// By id. Results follow this order.
    Ids(&'a [Uuid]),
    /// By key of the anchor. Results are distinct, oldest first.
    Places(&'a [String]),
}

/// A record that is anchored in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the kinds are described there")]
pub enum PlacedRecord {
    Pair(Box<HiddenPair>),
    CutPoint(CutPoint),
    Insertion(Insertion),
}

/// The values that a store keeps in addition to a placed record's JSON.
pub(crate) struct PlacedColumns<'a> {
    pub(crate) kind: PlacedKind,
    pub(crate) id: Uuid,
    pub(super) principal: &'a str,
    pub(super) conversation: &'a str,
    /// Key of the anchor.
    pub(super) key: Option<&'a str>,
    pub(super) created_ms: u64,
}

/// A type of record that is anchored in a transcript.
pub(crate) trait Placed: Sized {
    const KIND: PlacedKind;
    fn columns(&self) -> PlacedColumns<'_>;
    /// Converts a record. Returns `None` if it is of another kind.
    fn of(record: PlacedRecord) -> Option<Self>;
}

impl Placed for HiddenPair {
    const KIND: PlacedKind = PlacedKind::Pair;

    fn columns(&self) -> PlacedColumns<'_> {
        PlacedColumns {
            kind: Self::KIND,
            id: self.id,
            principal: &self.principal,
            conversation: &self.conversation,
            key: self.place.key(),
            created_ms: self.created_ms,
        }
    }

    fn of(record: PlacedRecord) -> Option<Self> {
        match record {
            PlacedRecord::Pair(pair) => Some(*pair),
            _ => None,
        }
    }
}

impl Placed for CutPoint {
    const KIND: PlacedKind = PlacedKind::CutPoint;

    fn columns(&self) -> PlacedColumns<'_> {
        PlacedColumns {
            kind: Self::KIND,
            id: self.handoff,
            principal: &self.principal,
            conversation: &self.conversation,
            key: Some(&self.position.digest),
            created_ms: self.created_ms,
        }
    }

    fn of(record: PlacedRecord) -> Option<Self> {
        match record {
            PlacedRecord::CutPoint(point) => Some(point),
            _ => None,
        }
    }
}

impl Placed for Insertion {
    const KIND: PlacedKind = PlacedKind::Insertion;

    fn columns(&self) -> PlacedColumns<'_> {
        PlacedColumns {
            kind: Self::KIND,
            id: self.id,
            principal: &self.principal,
            conversation: &self.conversation,
            key: self.place.key(),
            created_ms: self.created_ms,
        }
    }

    fn of(record: PlacedRecord) -> Option<Self> {
        match record {
            PlacedRecord::Insertion(insertion) => Some(insertion),
            _ => None,
        }
    }
}

impl PlacedRecord {
    pub(super) fn columns(&self) -> PlacedColumns<'_> {
        match self {
            Self::Pair(pair) => pair.columns(),
            Self::CutPoint(point) => point.columns(),
            Self::Insertion(insertion) => insertion.columns(),
        }
    }

    pub(super) fn from_json(kind: PlacedKind, json: &str) -> serde_json::Result<Self> {
        Ok(match kind {
            PlacedKind::Pair => Self::Pair(serde_json::from_str(json)?),
            PlacedKind::CutPoint => Self::CutPoint(serde_json::from_str(json)?),
            PlacedKind::Insertion => Self::Insertion(serde_json::from_str(json)?),
        })
    }

    /// Sorts the results of a lookup by anchor: oldest first, without duplicates.
    pub(super) fn sort_oldest_first<T>(found: &mut Vec<T>, record: impl Fn(&T) -> &Self) {
        let key = |one: &T| {
            let columns = record(one).columns();
            (columns.created_ms, columns.id)
        };
        found.sort_by_key(&key);
        // The same anchor may be looked up twice.
        found.dedup_by_key(|one| key(one));
    }
}

/// A record as stored. `used_ms` is its last use, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what they say")]
pub enum StoredRecord {
    /// A handoff with its head and its archive flag.
    Handoff(Box<Handoff>),
    Placed {
        record: PlacedRecord,
        used_ms: u64,
    },
    ResponseId {
        record: ResponseId,
        used_ms: u64,
    },
    Conversation(Box<Conversation>),
    Document(Box<DocumentRecord>),
}

impl From<PlacedRecord> for StoredRecord {
    /// Sets the last use to the creation time.
    fn from(record: PlacedRecord) -> Self {
        let used_ms = record.columns().created_ms;
        Self::Placed { record, used_ms }
    }
}

/// A response id of the Responses API, with its upstream id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseId {
    /// Principal that owns the id.
    pub principal: String,
    /// Id as shown to the agent.
    pub shown: String,
    /// Upstream's id, or the handoff that ended the response.
    pub upstream: String,
    /// The conversation of the response, if later requests may continue it by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ResponseChain>,
}

/// The state of a conversation whose requests name the response that they continue.
///
/// The provider stores the history, so later requests do not contain it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseChain {
    /// Key of the conversation.
    pub conversation: String,
    /// Last handoff before the end of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffId>,
}

impl ResponseId {
    /// Key of the id among those of all principals.
    pub(super) fn key(principal: &str, shown: &str) -> String {
        format!("{principal}\n{shown}")
    }
}

/// A page of records of one kind.
#[derive(Debug, Default)]
pub struct RecordPage {
    /// Readable records.
    pub records: Vec<StoredRecord>,
    /// Unreadable records: the id and the reason.
    pub unreadable: Vec<(String, String)>,
    /// Cursor of the next page. `None` on the last page.
    pub next: Option<String>,
}

/// For each kind, the time before which a last use is too old, in milliseconds since the Unix epoch.
pub type Retention = StoreRetention<u64>;

impl Retention {
    /// The kinds of records that are deleted, each with its time.
    ///
    /// Conversations come first: the records that they own are then no longer protected.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (RecordKind, u64)> {
        let kinds = [
            (RecordKind::Conversation, Some(self.conversations)),
            (RecordKind::Placed(PlacedKind::Pair), Some(self.pairs)),
            (RecordKind::Placed(PlacedKind::CutPoint), Some(self.places)),
            (RecordKind::Placed(PlacedKind::Insertion), Some(self.places)),
            (RecordKind::ResponseId, Some(self.response_ids)),
            (RecordKind::Handoff, self.handoffs),
            (RecordKind::Document, self.handoffs),
        ];
        let kinds = kinds.into_iter();
        kinds.filter_map(|(kind, before_ms)| Some((kind, before_ms?)))
    }
}

impl StoredRecord {
    /// Returns the kind of the record.
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Handoff(_) => RecordKind::Handoff,
            Self::Placed { record, .. } => RecordKind::Placed(record.columns().kind),
            Self::ResponseId { .. } => RecordKind::ResponseId,
            Self::Conversation(_) => RecordKind::Conversation,
            Self::Document(_) => RecordKind::Document,
        }
    }

    /// Returns the principal that owns the record.
    pub fn principal(&self) -> &str {
        match self {
            Self::Handoff(record) => &record.principal,
            Self::Placed { record, .. } => record.columns().principal,
            Self::ResponseId { record, .. } => &record.principal,
            Self::Conversation(record) => &record.principal,
            Self::Document(record) => &record.principal,
        }
    }

    /// Returns the directory of a document's files.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Document(record) => Some(Path::new(&record.directory)),
            _ => None,
        }
    }

    /// Returns the id, which is unique among the records of its kind.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Handoff(record) => record.id.to_string(),
            Self::Placed { record, .. } => record.columns().id.to_string(),
            Self::ResponseId { record, .. } => ResponseId::key(&record.principal, &record.shown),
            Self::Conversation(record) => record.key.clone(),
            Self::Document(record) => record.handoff.to_string(),
        }
    }

    /// Returns the key of the conversation that the record belongs to, or an empty string if it belongs to none.
    pub(super) fn conversation(&self) -> &str {
        match self {
            Self::Handoff(record) => &record.conversation,
            Self::Placed { record, .. } => record.columns().conversation,
            Self::ResponseId { .. } | Self::Conversation(_) | Self::Document(_) => "",
        }
    }

    /// Returns the secondary key of the record, next to its id: the key of its anchor, or of a document's subject.
    pub(super) fn place(&self) -> Option<String> {
        match self {
            Self::Placed { record, .. } => record.columns().key.map(str::to_owned),
            // As JSON, because each part may contain any character.
            Self::Document(record) => {
                let subject = [&record.repository, &record.branch, &record.topic];
                Some(serde_json::json!(subject).to_string())
            }
            _ => None,
        }
    }

    /// Returns the last use in milliseconds since the Unix epoch. For a handoff or a document, this is its creation.
    pub(super) fn used_ms(&self) -> u64 {
        match self {
            Self::Handoff(record) => record.created_ms,
            Self::Placed { used_ms, .. } | Self::ResponseId { used_ms, .. } => *used_ms,
            Self::Conversation(record) => record.updated_ms,
            Self::Document(record) => record.created_ms,
        }
    }

    pub(super) fn into_handoff(self) -> Option<Handoff> {
        match self {
            Self::Handoff(record) => Some(*record),
            _ => None,
        }
    }

    pub(super) fn into_conversation(self) -> Option<Conversation> {
        match self {
            Self::Conversation(record) => Some(*record),
            _ => None,
        }
    }

    pub(super) fn into_document(self) -> Option<DocumentRecord> {
        match self {
            Self::Document(record) => Some(*record),
            _ => None,
        }
    }

    /// Whether this stored record is at least as recent as `other`, which has the same id.
    ///
    /// A conversation must have the same or a newer version. Other records must be equal, and used at the
    /// same time or later.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let is_later = self.used_ms() >= other.used_ms();
        match (self, other) {
            (Self::Placed { record, .. }, Self::Placed { record: r, .. }) => record == r && is_later,
            (Self::ResponseId { record, .. }, Self::ResponseId { record: r, .. }) => record == r && is_later,
            (Self::Conversation(record), Self::Conversation(other)) => record.version >= other.version,
            (one, other) => one == other,
        }
    }

    /// Returns the size of the record as JSON in bytes, without the store's own data.
    pub fn size(&self) -> u64 {
        let json = match self {
            Self::Handoff(record) => serde_json::to_string(record),
            Self::Placed { record, .. } => serde_json::to_string(record),
            Self::ResponseId { record, .. } => serde_json::to_string(record),
            Self::Conversation(record) => serde_json::to_string(record),
            Self::Document(record) => return record.document.len() as u64,
        };
        json.map_or(0, |json| json.len() as u64)
    }
}
