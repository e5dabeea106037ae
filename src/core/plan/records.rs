//! What a plan needs of the store, and what was read.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::marker::seal::SealKeys;
use crate::record::{
    CutPoint, Handoff, HandoffId, HiddenPair, Insertion, Position, ResponseOrigin, ThinkingOmission,
};

/// A record that a plan lacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Need {
    /// A handoff.
    Handoff(HandoffId),
    /// The ids of the handoffs in this inclusive range, two at most.
    HandoffsBetween(HandoffId, HandoffId),
    /// A handoff and those that it followed from, newest first.
    Line(HandoffId),
    /// The handoff that the conversation of this key was last pinned to.
    ActiveIn(String),
    /// The newest handoffs that are active in their conversations.
    NewestActive,
    /// The origin of the response with this id.
    Response(String),
    /// What the record of the request's conversation lists.
    Listed,
    /// The cut points of these handoffs.
    CutPoints(Vec<HandoffId>),
    /// The cut points with these digests.
    CutPointsAt(Vec<String>),
    /// The handoffs whose answers may be left out of the conversation of this key.
    LeftOutIn(String),
    /// The pairs next to the request's calls after turn `from`, where the cut is.
    PairsAfter {
        cut: Option<HandoffId>,
        from: usize,
        /// How often baton has changed the transcript before.
        edition: usize,
    },
    /// The pairs with these ids.
    Pairs(Vec<Uuid>),
    /// The pairs next to these calls.
    PairsBeside(Vec<String>),
    /// The texts of ours with these digests.
    InsertionsAt(Vec<String>),
    /// The keys of seals.
    SealKeys,
}

/// What a plan lacks: read together.
pub type MissingRecords = Vec<Need>;

/// What was read for a need. What was not found is empty.
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

/// The pairs next to a request's calls after its cut.
#[derive(Debug, Clone, Default)]
pub struct PairsAfter {
    /// Those that are known to belong to the transcript.
    pub known: Vec<Arc<HiddenPair>>,
    /// Those next to the other calls: maybe of another branch, or of another conversation.
    pub found: Vec<HiddenPair>,
}

/// What is known of the request's conversation.
#[derive(Debug, Clone, Default)]
pub struct KnownConversation {
    pub key: String,
    /// Whether its requests carry the tool; `None` while undecided.
    pub tooled: Option<bool>,
    /// The handoff of the newest pinned request.
    pub active: Option<HandoffId>,
    /// Whether it may be a copy of another conversation, of which it should have the insertions.
    pub may_be_copy: bool,
    /// Thinking that upstream refused.
    pub omissions: Vec<ThinkingOmission>,
    /// The handoffs at whose cut point a request was cut.
    pub relied_on: Vec<HandoffId>,
    /// `None`: not read yet.
    pub listed: Option<ListedRecords>,
}

/// What a conversation's record lists, oldest first.
#[derive(Debug, Clone, Default)]
pub struct ListedRecords {
    /// The hidden pairs made since the last cut.
    pub pairs: Vec<Arc<HiddenPair>>,
    /// Of handoffs that the agent may have left out.
    pub cut_points: Vec<Arc<CutPoint>>,
    pub insertions: Vec<Arc<Insertion>>,
    /// Insertions that the store has lost.
    pub lost_insertions: Vec<Uuid>,
}

/// What was read so far.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// `None`: the store cannot be reached.
    pub conversation: Option<KnownConversation>,
    pub(super) answers: HashMap<Need, Answer>,
}

impl KnownConversation {
    /// What its record lists.
    pub(super) fn listed(&self) -> Result<&ListedRecords, MissingRecords> {
        self.listed.as_ref().ok_or_else(|| vec![Need::Listed])
    }

    /// The thinking that requests cut at this handoff leave out.
    pub(super) fn omissions(&self, handoff: HandoffId) -> Vec<Position> {
        let of_cut = self
            .omissions
            .iter()
            .filter(|omission| omission.handoff == handoff);
        of_cut.map(|omission| omission.position.clone()).collect()
    }
}

/// Looks an answer up; fails with the need where it was not read.
macro_rules! look_up {
    ($records:expr, $need:expr, $answer:pat => $value:expr) => {{
        let need = $need;
        match $records.answers.get(&need) {
            Some($answer) => Ok($value),
            _ => Err(vec![need]),
        }
    }};
}

/// Look-ups fail with what is to be read first.
impl Records {
    /// Takes in what was read.
    pub fn add(&mut self, need: Need, answer: Answer) {
        self.answers.insert(need, answer);
    }

    /// Takes out what was read for this.
    pub fn take(&mut self, need: &Need) -> Option<Answer> {
        self.answers.remove(need)
    }

    /// Whether this was read.
    pub fn has(&self, need: &Need) -> bool {
        self.answers.contains_key(need)
    }

    /// Fails with those of these that are not read.
    pub(super) fn all(&self, needs: impl IntoIterator<Item = Need>) -> Result<(), MissingRecords> {
        let mut lacking = MissingRecords::new();
        for need in needs {
            // An agent may have sent a sentinel twice.
            if !self.has(&need) && !lacking.contains(&need) {
                lacking.push(need);
            }
        }
        lacking.is_empty().then_some(()).ok_or(lacking)
    }

    pub(super) fn handoff(&self, id: HandoffId) -> Result<Option<&Arc<Handoff>>, MissingRecords> {
        let found = look_up!(self, Need::Handoff(id), Answer::Handoffs(found) => found)?;
        Ok(found.first())
    }

    /// A handoff and those that it followed from, newest first; empty where it is unknown.
    pub(super) fn line(&self, id: HandoffId) -> Result<&[Arc<Handoff>], MissingRecords> {
        look_up!(self, Need::Line(id), Answer::Handoffs(found) => found)
    }

    pub(super) fn ids(&self, need: Need) -> Result<&[HandoffId], MissingRecords> {
        look_up!(self, need, Answer::Ids(found) => found)
    }

    /// The origin of a response; `None`: nothing is stored of it.
    pub(super) fn response(&self, id: &str) -> Result<Option<ResponseOrigin>, MissingRecords> {
        let found = look_up!(self, Need::Response(id.to_owned()), Answer::Response(found) => found)?;
        Ok(found.as_deref().map(ResponseOrigin::read))
    }

    pub(super) fn cut_points(&self, need: Need) -> Result<&[CutPoint], MissingRecords> {
        look_up!(self, need, Answer::CutPoints(found) => found)
    }

    pub(super) fn pairs(&self, need: Need) -> Result<&[HiddenPair], MissingRecords> {
        look_up!(self, need, Answer::Pairs(found) => found)
    }

    pub(super) fn pairs_after(&self, need: Need) -> Result<&PairsAfter, MissingRecords> {
        look_up!(self, need, Answer::PairsAfter(found) => found)
    }

    pub(super) fn insertions(&self, places: Vec<String>) -> Result<&[Insertion], MissingRecords> {
        look_up!(self, Need::InsertionsAt(places), Answer::Insertions(found) => found)
    }

    pub(super) fn seal_keys(&self) -> Result<&SealKeys, MissingRecords> {
        look_up!(self, Need::SealKeys, Answer::SealKeys(keys) => keys)
    }
}
