//! The layout: which kinds of records there are, and by what each is found.
//!
//! A record is a hash `PREFIX KIND:ID` with its owner (`o`), its JSON (`r`), the indexes that it stands in (`i`), and what
//! else its kind has. Indexes are sorted sets `PREFIX i:…` of ids. Every kind has one by time, whose scores are the records'
//! last uses in milliseconds and only grow: by it they are listed, copied and swept. A new kind is a constant here and a
//! function that makes its [`Record`].

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::state::store::StoreError;
use baton_core::record::{Conversation, CutPoint, Handoff, HandoffId, HiddenPair, Insertion};

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RedisKind {
    /// Its name in keys.
    pub(super) name: &'static str,
    /// The index by time.
    pub(super) times: &'static str,
    /// The kind whose record field `c` names: what it owns is not swept while it is there.
    pub(super) owned_by: &'static str,
    /// The index of what uses a record, the record's id after it: what is used is not swept.
    pub(super) used_by: &'static str,
}

pub(super) const CONVERSATION: RedisKind = RedisKind {
    name: "conv",
    times: "i:conv:used",
    owned_by: "",
    used_by: "",
};

pub(super) const HANDOFF: RedisKind = RedisKind {
    name: "handoff",
    times: "i:handoff:made",
    owned_by: "conv",
    used_by: "i:conv:at:",
};

pub(super) const PAIR: RedisKind = RedisKind {
    name: "pair",
    times: "i:pair:used",
    owned_by: "conv",
    used_by: "",
};

pub(super) const CUT_POINT: RedisKind = RedisKind {
    name: "cut",
    times: "i:cut:used",
    owned_by: "conv",
    used_by: "",
};

pub(super) const INSERTION: RedisKind = RedisKind {
    name: "insertion",
    times: "i:insertion:used",
    owned_by: "conv",
    used_by: "",
};

pub(super) const RESPONSE_ID: RedisKind = RedisKind {
    name: "resp",
    times: "i:resp:used",
    owned_by: "",
    used_by: "",
};

/// Written by a script of its own, since one document supersedes another.
pub(super) const DOCUMENT: RedisKind = RedisKind {
    name: "packet",
    times: "packets",
    owned_by: "",
    used_by: "",
};

/// A record that only shows that one can be written.
pub(super) const PROBE: RedisKind = RedisKind {
    name: "probe",
    times: "i:probe:used",
    owned_by: "",
    used_by: "",
};

/// The handoffs of all principals by id, for ids that are cut off.
pub(super) const HANDOFF_IDS: &str = "i:handoff:ids";

/// The field with a handoff's head, which listings do not read.
pub(super) const HEAD: &str = "h";

/// The field that says whether a handoff is archived: `1`, else `0`.
pub(super) const ARCHIVED: &str = "a";

/// A record to be written.
#[derive(Debug)]
pub(super) struct RedisRecord {
    kind: RedisKind,
    id: String,
    owner: String,
    /// The version that the stored one must have; `None`: any.
    version: Option<u64>,
    fields: Vec<(&'static str, String)>,
    /// Fields that are only set with a new record.
    first: Vec<(&'static str, String)>,
    /// Indexes, with the score.
    indexes: Vec<(String, u64)>,
    /// Last use, in milliseconds since the Unix epoch.
    used_ms: u64,
}

/// The upstream id of a response id.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RedisResponseId {
    pub(super) shown: String,
    pub(super) upstream: String,
}

impl RedisRecord {
    pub(super) fn handoff(handoff: &Handoff) -> Result<Self, StoreError> {
        let listed = Handoff {
            head: String::new(),
            archived: false,
            ..handoff.clone()
        };
        Ok(Self {
            kind: HANDOFF,
            id: handoff.id.to_string(),
            owner: handoff.principal.clone(),
            version: None,
            fields: vec![
                ("r", json(&listed)?),
                (HEAD, handoff.head.clone()),
                ("c", handoff.conversation.clone()),
            ],
            first: vec![(ARCHIVED, u8::from(handoff.archived).to_string())],
            indexes: vec![
                (HANDOFF_IDS.to_owned(), 0),
                (of_conversation(&handoff.conversation), handoff.created_ms),
            ],
            used_ms: handoff.created_ms,
        })
    }

    pub(super) fn pair(pair: &HiddenPair) -> Result<Self, StoreError> {
        let sibling = pair.place.key();
        Ok(Self {
            kind: PAIR,
            id: pair.id.to_string(),
            owner: pair.principal.clone(),
            version: None,
            fields: vec![("r", json(pair)?), ("c", pair.conversation.clone())],
            first: Vec::new(),
            indexes: sibling
                .map(|sibling| (sibling_index(&pair.principal, sibling), pair.created_ms))
                .into_iter()
                .collect(),
            used_ms: pair.created_ms,
        })
    }

    pub(super) fn insertion(insertion: &Insertion) -> Result<Self, StoreError> {
        let place = insertion.place.key();
        Ok(Self {
            kind: INSERTION,
            id: insertion.id.to_string(),
            owner: insertion.principal.clone(),
            version: None,
            fields: vec![("r", json(insertion)?), ("c", insertion.conversation.clone())],
            first: Vec::new(),
            indexes: place
                .map(|place| (at_place(&insertion.principal, place), insertion.created_ms))
                .into_iter()
                .collect(),
            used_ms: insertion.created_ms,
        })
    }

    pub(super) fn cut_point(point: &CutPoint) -> Result<Self, StoreError> {
        Ok(Self {
            kind: CUT_POINT,
            id: point.handoff.to_string(),
            owner: point.principal.clone(),
            version: None,
            fields: vec![("r", json(point)?), ("c", point.conversation.clone())],
            first: Vec::new(),
            indexes: vec![(
                at_digest(&point.principal, &point.position.digest),
                point.created_ms,
            )],
            used_ms: point.created_ms,
        })
    }

    /// `over`: the version of the record that this one replaces.
    pub(super) fn conversation(conversation: &Conversation, over: u64) -> Result<Self, StoreError> {
        let mut at: Vec<HandoffId> = conversation
            .active
            .into_iter()
            .chain(conversation.left_out.clone())
            .collect();
        at.sort_unstable();
        at.dedup();
        Ok(Self {
            kind: CONVERSATION,
            id: conversation.key.clone(),
            owner: conversation.principal.clone(),
            version: Some(over),
            fields: vec![
                ("r", json(conversation)?),
                ("v", conversation.version.to_string()),
            ],
            first: Vec::new(),
            indexes: at
                .iter()
                .map(|id| (format!("{}{id}", HANDOFF.used_by), 0))
                .collect(),
            used_ms: conversation.updated_ms,
        })
    }

    pub(super) fn response_id(
        principal: &str,
        shown: &str,
        upstream: &str,
        used_ms: u64,
    ) -> Result<Self, StoreError> {
        let record = RedisResponseId {
            shown: shown.to_owned(),
            upstream: upstream.to_owned(),
        };
        Ok(Self {
            kind: RESPONSE_ID,
            id: response(principal, shown),
            owner: principal.to_owned(),
            version: None,
            fields: vec![("r", json(&record)?)],
            first: Vec::new(),
            indexes: Vec::new(),
            used_ms,
        })
    }

    pub(super) fn probe() -> Self {
        Self {
            kind: PROBE,
            id: "probe".to_owned(),
            owner: "baton".to_owned(),
            version: None,
            fields: vec![("r", String::new())],
            first: Vec::new(),
            indexes: Vec::new(),
            used_ms: 0,
        }
    }

    /// The same, last used at another time.
    pub(super) fn used(self, used_ms: u64) -> Self {
        Self { used_ms, ..self }
    }

    /// The same, archived or not, whatever the stored one is.
    pub(super) fn archived(mut self, archived: bool) -> Self {
        self.fields.push((ARCHIVED, u8::from(archived).to_string()));
        self
    }

    /// The arguments of the script that writes it.
    pub(super) fn args(self, args: &mut Vec<Vec<u8>>) {
        let version = self.version.map_or(String::new(), |version| version.to_string());
        args.extend([self.kind.name.to_owned(), self.id, self.owner, version].map(String::into_bytes));
        let times = vec![(self.kind.times.to_owned(), self.used_ms)];
        let named = |all: Vec<(&'static str, String)>| {
            let all = all.into_iter();
            all.map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let scored = |all: Vec<(String, u64)>| {
            let all = all.into_iter();
            all.map(|(index, score)| (index, score.to_string())).collect()
        };
        let lists: [Vec<(String, String)>; 4] = [
            named(self.fields),
            named(self.first),
            scored(self.indexes),
            scored(times),
        ];
        for list in lists {
            args.push(list.len().to_string().into_bytes());
            for (name, value) in list {
                args.push(name.into_bytes());
                args.push(value.into_bytes());
            }
        }
    }
}

/// The index of the pairs beside a sibling.
pub(super) fn sibling_index(principal: &str, sibling: &str) -> String {
    format!("i:pair:by:{}", short(&[principal, sibling]))
}

/// The index of the insertions with a place.
pub(super) fn at_place(principal: &str, place: &str) -> String {
    format!("i:insertion:at:{}", short(&[principal, place]))
}

/// The index of the cut points with a digest.
pub(super) fn at_digest(principal: &str, digest: &str) -> String {
    format!("i:cut:at:{}", short(&[principal, digest]))
}

/// The index of a conversation's handoffs.
pub(super) fn of_conversation(key: &str) -> String {
    format!("i:handoff:of:{}", short(&[key]))
}

/// The id of a response id's record.
pub(super) fn response(principal: &str, shown: &str) -> String {
    short(&[principal, shown])
}

/// Texts of agents as part of a key: of one length, and of no letters that mean anything.
fn short(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    for (byte, of) in bytes.iter_mut().zip(hash.finalize()) {
        *byte = of;
    }
    Uuid::from_bytes(bytes).simple().to_string()
}

fn json<T: Serialize>(record: &T) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(|error| StoreError {
        message: format!("write a record: {error}"),
    })
}
