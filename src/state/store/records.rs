//! Records of any kind, for what goes through a whole store: copies and checks.

use baton_core::record::{Conversation, CutPoint, DocumentRecord, Handoff, HiddenPair, Insertion};

/// Records read at a time.
pub(super) const PAGE: usize = 256;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// Handoffs.
    Handoff,
    /// Hidden pairs.
    Pair,
    /// Cut points.
    CutPoint,
    /// Other insertions.
    Insertion,
    /// Response ids.
    ResponseId,
    /// Conversations.
    Conversation,
    /// Documents.
    Document,
}

impl RecordKind {
    /// Every kind; what others refer to comes first, so that a copy that was interrupted refers to nothing that is missing.
    pub const ALL: [Self; 7] = [
        Self::Handoff,
        Self::Pair,
        Self::CutPoint,
        Self::Insertion,
        Self::ResponseId,
        Self::Conversation,
        Self::Document,
    ];

    /// The name that `baton store` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handoff => "handoffs",
            Self::Pair => "hidden pairs",
            Self::CutPoint => "cut points",
            Self::Insertion => "insertions",
            Self::ResponseId => "response ids",
            Self::Conversation => "conversations",
            Self::Document => "packets",
        }
    }
}

/// A record as it is stored. `used_ms`: its last use, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what they say")]
pub enum StoredRecord {
    /// With its head, and whether it is archived.
    Handoff(Box<Handoff>),
    Pair {
        record: Box<HiddenPair>,
        used_ms: u64,
    },
    CutPoint {
        record: CutPoint,
        used_ms: u64,
    },
    Insertion {
        record: Insertion,
        used_ms: u64,
    },
    ResponseId {
        record: ResponseId,
        used_ms: u64,
    },
    Conversation(Box<Conversation>),
    Document(Box<DocumentRecord>),
}

/// A response id of the Responses API, with its upstream id.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// How long records are kept that were not used: the time before which a last use is too old, in milliseconds since the Unix
/// epoch. What something in use refers to stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Conversations.
    pub conversations: u64,
    /// Hidden pairs.
    pub pairs: u64,
    /// Cut points and other insertions.
    pub places: u64,
    /// Response ids.
    pub response_ids: u64,
    /// Handoffs, by when they were made: those whose conversation is gone, and that no conversation stands at. `None`: for ever.
    pub handoffs: Option<u64>,
}

impl Retention {
    /// The same time for all but handoffs, which stay.
    pub fn before(before_ms: u64) -> Self {
        Self {
            conversations: before_ms,
            pairs: before_ms,
            places: before_ms,
            response_ids: before_ms,
            handoffs: None,
        }
    }
}

impl StoredRecord {
    /// Its kind.
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Handoff(_) => RecordKind::Handoff,
            Self::Pair { .. } => RecordKind::Pair,
            Self::CutPoint { .. } => RecordKind::CutPoint,
            Self::Insertion { .. } => RecordKind::Insertion,
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
                Self::Pair { record, used_ms },
                Self::Pair {
                    record: r,
                    used_ms: u,
                },
            ) => record == r && used_ms >= u,
            (
                Self::CutPoint { record, used_ms },
                Self::CutPoint {
                    record: r,
                    used_ms: u,
                },
            ) => record == r && used_ms >= u,
            (
                Self::Insertion { record, used_ms },
                Self::Insertion {
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
            Self::Pair { record, .. } => serde_json::to_string(record),
            Self::CutPoint { record, .. } => serde_json::to_string(record),
            Self::Insertion { record, .. } => serde_json::to_string(record),
            Self::ResponseId { record, .. } => {
                return (record.principal.len() + record.shown.len() + record.upstream.len()) as u64;
            }
            Self::Conversation(record) => serde_json::to_string(record),
            Self::Document(record) => return record.document.len() as u64,
        };
        json.map_or(0, |json| json.len() as u64)
    }
}
