//! Records of any kind, for operations on a whole store: copies and checks.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::StoreRetention;
use baton_core::record::{Conversation, CutPoint, DocumentRecord, Handoff, HiddenPair, Insertion};

/// Records read or examined by one call; a server does nothing else meanwhile.
pub(super) const PAGE: usize = 256;

/// What is used is marked as used again when its last use is older than this. One day: exact enough for sweeping by weeks,
/// and one write a day for a busy conversation.
pub(crate) const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// Handoffs.
    Handoff,
    /// What is at a place of a transcript.
    Placed(PlacedKind),
    /// Response ids.
    ResponseId,
    /// Conversations.
    Conversation,
    /// Documents.
    Document,
}

/// A kind of record that is at a place of a transcript and is looked up by its id or by that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlacedKind {
    /// Hidden pairs, by the call next to them.
    Pair,
    /// Cut points, by the digest of their position.
    CutPoint,
    /// Other insertions, by [`InsertionPoint::key`](baton_core::record::InsertionPoint::key).
    Insertion,
}

impl RecordKind {
    /// Every kind; what others refer to comes first, so that a copy that was interrupted refers to nothing that is missing.
    pub const ALL: [Self; 7] = [
        Self::Handoff,
        Self::Placed(PlacedKind::Pair),
        Self::Placed(PlacedKind::CutPoint),
        Self::Placed(PlacedKind::Insertion),
        Self::ResponseId,
        Self::Conversation,
        Self::Document,
    ];

    /// The name that `baton store` prints.
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
    /// What a failed look-up did, for its error.
    pub(super) fn reading(self) -> &'static str {
        match self {
            Self::Pair => "read hidden pairs",
            Self::CutPoint => "read cut points",
            Self::Insertion => "read insertions",
        }
    }
}

/// What placed records are looked up by.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// Their ids. Found in this order.
    Ids(&'a [Uuid]),
    /// Keys of their places. Found oldest first, each once.
    Places(&'a [String]),
}

/// A record that is at a place of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the kinds are described there")]
pub enum PlacedRecord {
    Pair(Box<HiddenPair>),
    CutPoint(CutPoint),
    Insertion(Insertion),
}

/// What a store keeps besides the JSON of a placed record.
pub(crate) struct PlacedColumns<'a> {
    pub(crate) kind: PlacedKind,
    pub(crate) id: Uuid,
    pub(super) principal: &'a str,
    pub(super) conversation: &'a str,
    /// The key of its place.
    pub(super) key: Option<&'a str>,
    pub(super) created_ms: u64,
}

/// A record of one kind that is at a place of a transcript.
pub(crate) trait Placed: Sized {
    const KIND: PlacedKind;
    fn columns(&self) -> PlacedColumns<'_>;
    /// `None` for a record of another kind.
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

    /// Sorts what was looked up by places: oldest first, each once.
    pub(super) fn sort_oldest_first<T>(found: &mut Vec<T>, record: impl Fn(&T) -> &Self) {
        let key = |one: &T| {
            let columns = record(one).columns();
            (columns.created_ms, columns.id)
        };
        found.sort_by_key(&key);
        found.dedup_by_key(|one| key(one));
    }
}

/// A record as it is stored. `used_ms`: its last use, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what they say")]
pub enum StoredRecord {
    /// With its head, and whether it is archived.
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
    /// Last used when it was made.
    fn from(record: PlacedRecord) -> Self {
        let used_ms = record.columns().created_ms;
        Self::Placed { record, used_ms }
    }
}

/// A response id of the Responses API, with its upstream id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseId {
    /// The principal that owns it.
    pub principal: String,
    /// As the agent was shown it.
    pub shown: String,
    /// Upstream's own, or the handoff that ended the response.
    pub upstream: String,
}

/// Some records of a kind.
#[derive(Debug, Default)]
pub struct RecordPage {
    /// The readable records.
    pub records: Vec<StoredRecord>,
    /// The unreadable records: the id and the reason.
    pub unreadable: Vec<(String, String)>,
    /// The cursor of the next page; `None`: this is the last one.
    pub next: Option<String>,
}

/// The times before which a last use is too old, in milliseconds since the Unix epoch.
pub type Retention = StoreRetention<u64>;

impl StoredRecord {
    /// Its kind.
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Handoff(_) => RecordKind::Handoff,
            Self::Placed { record, .. } => RecordKind::Placed(record.columns().kind),
            Self::ResponseId { .. } => RecordKind::ResponseId,
            Self::Conversation(_) => RecordKind::Conversation,
            Self::Document(_) => RecordKind::Document,
        }
    }

    /// Whether this one, which is stored, says all that another one of the same id does: the same, used as late or later; a
    /// conversation as new or newer.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Placed { record, used_ms },
                Self::Placed {
                    record: r,
                    used_ms: u,
                },
            ) => record == r && used_ms >= u,
            (
                Self::ResponseId { record, used_ms },
                Self::ResponseId {
                    record: r,
                    used_ms: u,
                },
            ) => record == r && used_ms >= u,
            (Self::Conversation(record), Self::Conversation(other)) => record.version >= other.version,
            (one, other) => one == other,
        }
    }

    /// Bytes that it takes as JSON, without what the store adds.
    pub fn size(&self) -> u64 {
        let json = match self {
            Self::Handoff(record) => serde_json::to_string(record),
            Self::Placed { record, .. } => serde_json::to_string(record),
            Self::ResponseId { record, .. } => {
                return (record.principal.len() + record.shown.len() + record.upstream.len()) as u64;
            }
            Self::Conversation(record) => serde_json::to_string(record),
            Self::Document(record) => return record.document.len() as u64,
        };
        json.map_or(0, |json| json.len() as u64)
    }
}
