//! Records that a plan needs from the store, and those that were read.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::marker::seal::SealKeys;
use crate::record::{
    CutPoint, Handoff, HandoffId, HiddenPair, Insertion, Position, ResponseOrigin, ThinkingOmission,
};

/// A record that a plan may need.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// A handoff.
    Handoff(HandoffId),
    /// Ids of the handoffs in this inclusive range, at most two.
    HandoffsBetween(HandoffId, HandoffId),
    /// A handoff and those that it followed from, newest first.
    Line(HandoffId),
    /// Handoff that the conversation with this key was last cut at.
    ActiveIn(String),
    /// Newest handoffs that are active in their conversations.
    NewestActive,
    /// Origin of the response with this id.
    Response(String),
    /// Lists in the record of the request's conversation.
    Listed,
    /// Cut points of these handoffs.
    CutPoints(Vec<HandoffId>),
    /// Cut points with these digests.
    CutPointsAt(Vec<String>),
    /// Handoffs whose responses may be left out of the conversation with this key.
    LeftOutIn(String),
    /// Pairs next to the request's calls after turn `from`, the position of the cut.
    PairsAfter {
        cut: Option<HandoffId>,
        from: usize,
        /// Number of times that baton has changed the transcript before.
        edition: usize,
    },
    /// Pairs with these ids.
    Pairs(Vec<Uuid>),
    /// Insertions with these digests.
    InsertionsAt(Vec<String>),
    /// Keys of seals.
    SealKeys,
}

/// Records to read together.
pub type MissingRecords = Vec<Need>;

/// A value that depends on records, or the records that it lacks.
pub type Known<T> = Result<T, MissingRecords>;

/// Records that were read for a need. Missing ones are empty.
#[derive(Debug, Clone)]
pub enum Answer {
    Handoffs(Vec<Arc<Handoff>>),
    Ids(Vec<HandoffId>),
    Response(Option<String>),
    CutPoints(Vec<CutPoint>),
    Pairs(Vec<HiddenPair>),
    PairsAfter(PairsAfter),
    Insertions(Vec<Insertion>),
    SealKeys(Arc<SealKeys>),
}

/// Pairs next to a request's calls after its cut.
#[derive(Debug, Clone, Default)]
pub struct PairsAfter {
    /// Pairs that certainly belong to the transcript.
    pub known: Vec<Arc<HiddenPair>>,
    /// Pairs next to the other calls. They may belong to another branch or conversation.
    pub found: Vec<HiddenPair>,
}

/// Facts about the request's conversation.
#[derive(Debug, Clone, Default)]
pub struct KnownConversation {
    pub key: String,
    /// Whether the conversation's requests include the tool; `None` while undecided.
    pub tooled: Option<bool>,
    /// Handoff of the newest cut request.
    pub active: Option<HandoffId>,
    /// Whether this may be a fork of another conversation, whose insertions it should adopt.
    pub may_be_copy: bool,
    /// Thinking that upstream refused.
    pub omissions: Vec<ThinkingOmission>,
    /// Handoffs at whose cut point a request was cut.
    pub relied_on: Vec<HandoffId>,
    /// Lists of the record; `None` until they are read.
    pub listed: Option<ListedRecords>,
}

/// Lists of a conversation's record, oldest first.
#[derive(Debug, Clone, Default)]
pub struct ListedRecords {
    /// Hidden pairs made since the last cut.
    pub pairs: Vec<Arc<HiddenPair>>,
    /// Cut points of handoffs that the agent may have left out.
    pub cut_points: Vec<Arc<CutPoint>>,
    pub insertions: Vec<Arc<Insertion>>,
    /// Insertions that the store has lost.
    pub lost_insertions: Vec<Uuid>,
}

/// Records that were read so far.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// The conversation; `None` if the store cannot be reached.
    pub conversation: Option<KnownConversation>,
    pub(super) answers: HashMap<Need, Answer>,
}

impl KnownConversation {
    /// Lists in the conversation's record.
    pub(super) fn listed(&self) -> Known<&ListedRecords> {
        self.listed.as_ref().ok_or_else(|| vec![Need::Listed])
    }

    /// Positions of thinking that requests cut at this handoff leave out.
    pub(super) fn omissions(&self, handoff: HandoffId) -> Vec<Position> {
        let omissions = self.omissions.iter();
        let of_cut = omissions.filter(|omission| omission.handoff == handoff);
        of_cut.map(|omission| omission.position.clone()).collect()
    }
}

/// Looks up an answer. Fails with the need if it was not read.
macro_rules! look_up {
    ($records:expr, $need:expr, $answer:pat => $value:expr) => {{
        let need = $need;
        match $records.answers.get(&need) {
            Some($answer) => Ok($value),
            _ => Err(vec![need]),
        }
    }};
}

/// Lookups fail with the records to read first.
impl Records {
    /// Adds the records that were read for a need.
    pub fn add(&mut self, need: Need, answer: Answer) {
        self.answers.insert(need, answer);
    }

    /// Removes and returns the records that were read for a need.
    pub fn take(&mut self, need: &Need) -> Option<Answer> {
        self.answers.remove(need)
    }

    /// Whether the records of a need were read.
    pub fn has(&self, need: &Need) -> bool {
        self.answers.contains_key(need)
    }

    /// Fails with those of these needs that were not read.
    pub(super) fn all(&self, needs: impl IntoIterator<Item = Need>) -> Known<()> {
        let mut lacking = MissingRecords::new();
        for need in needs {
            // Deduplicated, because an agent may have sent a sentinel twice.
            if !self.has(&need) && !lacking.contains(&need) {
                lacking.push(need);
            }
        }
        lacking.is_empty().then_some(()).ok_or(lacking)
    }

    pub(super) fn handoff(&self, id: HandoffId) -> Known<Option<&Arc<Handoff>>> {
        let found = look_up!(self, Need::Handoff(id), Answer::Handoffs(found) => found)?;
        Ok(found.first())
    }

    /// A handoff and those that it followed from, newest first; empty if it is unknown.
    pub(super) fn line(&self, id: HandoffId) -> Known<&[Arc<Handoff>]> {
        look_up!(self, Need::Line(id), Answer::Handoffs(found) => found)
    }

    pub(super) fn ids(&self, need: Need) -> Known<&[HandoffId]> {
        look_up!(self, need, Answer::Ids(found) => found)
    }

    /// Origin of a response; `None` if nothing is stored about it.
    pub(super) fn response(&self, id: &str) -> Known<Option<ResponseOrigin>> {
        let found = look_up!(self, Need::Response(id.to_owned()), Answer::Response(found) => found)?;
        Ok(found.as_deref().map(ResponseOrigin::read))
    }

    pub(super) fn cut_points(&self, need: Need) -> Known<&[CutPoint]> {
        look_up!(self, need, Answer::CutPoints(found) => found)
    }

    pub(super) fn pairs(&self, need: Need) -> Known<&[HiddenPair]> {
        look_up!(self, need, Answer::Pairs(found) => found)
    }

    pub(super) fn pairs_after(&self, need: Need) -> Known<&PairsAfter> {
        look_up!(self, need, Answer::PairsAfter(found) => found)
    }

    pub(super) fn insertions(&self, places: Vec<String>) -> Known<&[Insertion]> {
        look_up!(self, Need::InsertionsAt(places), Answer::Insertions(found) => found)
    }

    pub(super) fn seal_keys(&self) -> Known<&SealKeys> {
        look_up!(self, Need::SealKeys, Answer::SealKeys(keys) => keys)
    }
}
