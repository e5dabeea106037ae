//! The layout: the kinds of records, and the indexes that find them.
//!
//! A record is a hash `PREFIX KIND:ID` with its owner (`o`), its JSON (`r`), its indexes (`i`), and further
//! fields of its kind. Indexes are sorted sets `PREFIX i:…` of ids. Every kind has an index by time. Its
//! scores are the last uses of the records in milliseconds and only grow. Listing, copying and sweeping use
//! it. A new kind needs a constant here and an arm of [`RedisRecord::from_record`].

use std::collections::BTreeSet;

use super::answers::unexpected_reply;
use crate::store::record_text::RecordText;
use crate::store::records::{PlacedKind, RecordKind, StoredRecord};
use crate::store::{StoreError, StoreResult};
use baton_core::record::HandoffId;
use baton_core::text::units::digest;

/// A kind of record. An empty index name means that the kind has no such index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RedisKind {
    /// Name of the kind in keys.
    pub(super) name: &'static str,
    /// Index by time.
    pub(super) times: &'static str,
    /// Prefix of the indexes by anchor. [`at_place`](RedisKind::at_place) appends the rest.
    places: &'static str,
    /// Kind of the owner, whose id is in field `c`. While the owner exists, its records are not swept.
    pub(super) owned_by: &'static str,
    /// Prefix of the index of a record's users, followed by the record's id. A record in use is not swept.
    pub(super) used_by: &'static str,
}

const fn kind(name: &'static str, times: &'static str) -> RedisKind {
    RedisKind {
        name,
        times,
        places: "",
        owned_by: "",
        used_by: "",
    }
}

pub(super) const CONVERSATION: RedisKind = kind("conv", "i:conv:used");

pub(super) const HANDOFF: RedisKind = RedisKind {
    owned_by: "conv",
    used_by: "i:conv:at:",
    ..kind("handoff", "i:handoff:made")
};

const PAIR: RedisKind = RedisKind {
    places: "i:pair:by:",
    owned_by: "conv",
    ..kind("pair", "i:pair:used")
};

const CUT_POINT: RedisKind = RedisKind {
    places: "i:cut:at:",
    owned_by: "conv",
    ..kind("cut", "i:cut:used")
};

const INSERTION: RedisKind = RedisKind {
    places: "i:insertion:at:",
    owned_by: "conv",
    ..kind("insertion", "i:insertion:used")
};

pub(super) const RESPONSE_ID: RedisKind = kind("resp", "i:resp:used");

/// Documents have their own script, since one document supersedes another.
pub(super) const DOCUMENT: RedisKind = RedisKind {
    owned_by: HANDOFF.name,
    ..kind("document", "documents")
};

/// A record that only shows that writing works.
const PROBE: RedisKind = kind("probe", "i:probe:used");

impl From<PlacedKind> for RedisKind {
    fn from(kind: PlacedKind) -> Self {
        match kind {
            PlacedKind::Pair => PAIR,
            PlacedKind::CutPoint => CUT_POINT,
            PlacedKind::Insertion => INSERTION,
        }
    }
}

impl From<RecordKind> for RedisKind {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Handoff => HANDOFF,
            RecordKind::Placed(kind) => kind.into(),
            RecordKind::ResponseId => RESPONSE_ID,
            RecordKind::Conversation => CONVERSATION,
            RecordKind::Document => DOCUMENT,
        }
    }
}

impl RedisKind {
    /// Returns the index of a principal's records with this anchor.
    pub(super) fn at_place(self, principal: &str, key: &str) -> String {
        // A digest, because strings from agents may be long, and may have characters with a meaning in Redis.
        format!("{}{}", self.places, digest(&[principal, key]))
    }
}

/// Index of all principals' handoffs by id, for resolving truncated ids.
pub(super) const HANDOFF_IDS: &str = "i:handoff:ids";

/// Field with a handoff's head, which listings do not read.
pub(super) const HEAD: &str = "h";

/// Field with a handoff's archive flag: `1` or `0`.
pub(super) const ARCHIVED: &str = "a";

/// Field with a document's status.
pub(super) const STATUS: &str = "s";

/// A record to write.
#[derive(Debug)]
pub(super) struct RedisRecord {
    kind: RedisKind,
    id: String,
    owner: String,
    /// Version that the stored record must have. `None` accepts any.
    version: Option<u64>,
    fields: Vec<(&'static str, String)>,
    /// Fields that are only set if the record is new.
    first: Vec<(&'static str, String)>,
    /// Indexes, with the record's score.
    indexes: Vec<(String, u64)>,
    /// Last use, in milliseconds since the Unix epoch.
    used_ms: u64,
}

impl RedisRecord {
    fn new(kind: RedisKind, id: String, owner: &str, record: String, used_ms: u64) -> Self {
        Self {
            kind,
            id,
            owner: owner.to_owned(),
            version: None,
            fields: vec![("r", record)],
            first: Vec::new(),
            indexes: Vec::new(),
            used_ms,
        }
    }

    /// Converts a record. `over` is the version of the conversation that it replaces.
    pub(super) fn from_record(record: &StoredRecord, over: u64) -> StoreResult<Self> {
        let kind = RedisKind::from(record.kind());
        let text = RecordText::new(record);
        let text = text.map_err(|error| StoreError::new(format!("write a record: {error}")))?;
        let (id, used_ms) = (id_of(record), record.used_ms());
        let mut made = Self::new(kind, id, record.principal(), text.json, used_ms);
        match record {
            StoredRecord::Handoff(handoff) => {
                made.fields.push((HEAD, text.body));
                made.fields.push(("c", handoff.conversation.clone()));
                // Set only for a new record, because writing a handoff again must not unarchive it.
                made.first = vec![(ARCHIVED, u8::from(handoff.archived).to_string())];
                made.indexes = vec![
                    // Equal scores sort the index by id, so that it can be searched by prefix.
                    (HANDOFF_IDS.to_owned(), 0),
                    (of_conversation(&handoff.conversation), handoff.created_ms),
                ];
            }
            StoredRecord::Placed { record, .. } => {
                let columns = record.columns();
                made.fields.push(("c", columns.conversation.to_owned()));
                let index = columns.key.map(|key| kind.at_place(columns.principal, key));
                made.indexes
                    .extend(index.map(|index| (index, columns.created_ms)));
            }
            StoredRecord::ResponseId { .. } => {}
            StoredRecord::Conversation(conversation) => {
                made.version = Some(over);
                made.fields.push(("v", conversation.version.to_string()));
                // These indexes protect the handoffs that the conversation is at, or may be cut at, from being swept.
                let at = conversation.active.iter().chain(&conversation.left_out);
                let at: BTreeSet<&HandoffId> = at.collect();
                let indexes = at.iter().map(|id| (format!("{}{id}", HANDOFF.used_by), 0));
                made.indexes = indexes.collect();
            }
            // A separate script writes them.
            StoredRecord::Document(_) => return Err(unexpected_reply("write records")),
        }
        Ok(made)
    }

    pub(super) fn probe() -> Self {
        Self::new(PROBE, "probe".to_owned(), "baton", String::new(), 0)
    }

    /// Sets the archive flag even if the record already exists.
    pub(super) fn archived(mut self, archived: bool) -> Self {
        self.fields.push((ARCHIVED, u8::from(archived).to_string()));
        self
    }

    /// Appends the arguments for the script that writes the record.
    pub(super) fn args(self, args: &mut Vec<Vec<u8>>) {
        let version = self.version.map_or(String::new(), |version| version.to_string());
        args.extend([self.kind.name.to_owned(), self.id, self.owner, version].map(String::into_bytes));
        // `write.lua` reads the lists in this order.
        list(args, self.fields);
        list(args, self.first);
        list(args, self.indexes);
        list(args, vec![(self.kind.times, self.used_ms)]);
    }
}

/// Appends the length of a list, and its pairs.
fn list(args: &mut Vec<Vec<u8>>, pairs: Vec<(impl Into<Vec<u8>>, impl ToString)>) {
    args.push(pairs.len().to_string().into_bytes());
    for (name, value) in pairs {
        args.extend([name.into(), value.to_string().into_bytes()]);
    }
}

/// Returns the index of a conversation's handoffs.
pub(super) fn of_conversation(key: &str) -> String {
    format!("i:handoff:of:{}", digest(&[key]))
}

/// Returns the id of a response id's record.
pub(super) fn response(principal: &str, shown: &str) -> String {
    digest(&[principal, shown])
}

pub(super) fn id_of(record: &StoredRecord) -> String {
    match record {
        StoredRecord::ResponseId { record, .. } => response(&record.principal, &record.shown),
        _ => record.id(),
    }
}
