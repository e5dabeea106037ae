//! A store of a few maps, for plans without a proxy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use baton_core::marker::seal::{SealKey, SealKeys};
use baton_core::plan::{
    AgentCall, Answer, KnownConversation, ListedRecords, Need, PairsAfter, PlanWrite, Records, ToolOffer,
};
use baton_core::record::{Conversation, CutPoint, Handoff, HandoffId, HiddenPair, RecordChange, sibling_key};
use bytes::Bytes;

/// Stored records.
#[derive(Default)]
pub struct SimStore {
    handoffs: HashMap<HandoffId, Arc<Handoff>>,
    points: HashMap<HandoffId, CutPoint>,
    pairs: Vec<Arc<HiddenPair>>,
    pub responses: HashMap<String, String>,
    conversations: HashMap<String, Conversation>,
    /// Conversations that were checked for being copies.
    checked: HashSet<String>,
    /// Handoffs before an interruption of the response, by conversation and request.
    repeats: HashMap<(String, Bytes), HandoffId>,
    clock: u64,
}

impl SimStore {
    /// Advances the time and returns it.
    pub fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub fn keys(&self) -> Arc<SealKeys> {
        Arc::new(SealKey::new(*b"sim").into())
    }

    pub fn handoff(&self, id: HandoffId) -> Option<Arc<Handoff>> {
        self.handoffs.get(&id).cloned()
    }

    pub fn change(&mut self, key: &str, change: &RecordChange) {
        let new = || Conversation {
            key: key.to_owned(),
            principal: "local".to_owned(),
            ..Conversation::default()
        };
        change.apply(self.conversations.entry(key.to_owned()).or_insert_with(new));
    }

    pub fn add_pair(&mut self, pair: HiddenPair) {
        self.change(&pair.conversation, &RecordChange::Paired(vec![pair.id]));
        self.pairs.push(Arc::new(pair));
    }

    /// Stores a handoff that takes effect in the response to this request.
    pub fn fire(&mut self, handoff: Handoff, point: Option<CutPoint>, request: &Bytes) {
        let (id, key) = (handoff.id, handoff.conversation.clone());
        let fired = RecordChange::Fired {
            handoff: id,
            placed: point.is_some(),
            pairs: self.record(&key).pairs,
            repeat: None,
        };
        self.change(&key, &fired);
        self.points.extend(point.map(|point| (id, point)));
        self.handoffs.insert(id, Arc::new(handoff));
        self.repeats.insert((key, request.clone()), id);
    }

    pub fn take_repeat(&self, key: &str, request: &Bytes) -> Option<HandoffId> {
        self.repeats.get(&(key.to_owned(), request.clone())).copied()
    }

    pub fn forget_repeat(&mut self, key: &str, request: &Bytes) {
        self.repeats.remove(&(key.to_owned(), request.clone()));
    }

    fn record(&self, key: &str) -> Conversation {
        self.conversations.get(key).cloned().unwrap_or_default()
    }

    /// Records about a conversation before its plan.
    pub fn records(&self, key: &str) -> Records {
        let record = self.record(key);
        let listed = ListedRecords {
            pairs: self.listed_pairs(|pair| record.pairs.contains(&pair.id)),
            cut_points: self
                .points_of(&record.left_out)
                .into_iter()
                .map(Arc::new)
                .collect(),
            ..ListedRecords::default()
        };
        let known = KnownConversation {
            key: key.to_owned(),
            tooled: record.tooled,
            active: record.active,
            may_be_copy: record.tooled.is_none() && !self.checked.contains(key),
            omissions: record.omissions,
            relied_on: record.relied_on,
            listed: Some(listed),
        };
        let mut records = Records::default();
        records.conversation = Some(known);
        records
    }

    fn listed_pairs(&self, wanted: impl Fn(&HiddenPair) -> bool) -> Vec<Arc<HiddenPair>> {
        self.pairs.iter().filter(|pair| wanted(pair)).cloned().collect()
    }

    fn points_of(&self, handoffs: &[HandoffId]) -> Vec<CutPoint> {
        handoffs
            .iter()
            .filter_map(|id| self.points.get(id).cloned())
            .collect()
    }

    /// Pairs next to these calls.
    fn beside(&self, calls: &[String]) -> Vec<HiddenPair> {
        let is_here = |pair: &HiddenPair| {
            pair.place
                .key()
                .is_some_and(|key| calls.iter().any(|call| call == key))
        };
        let here = self.listed_pairs(is_here).into_iter();
        here.map(|pair| (*pair).clone()).collect()
    }

    /// Stored records for a need.
    pub fn answer(&self, need: &Need, call: &AgentCall) -> Answer {
        match need {
            Need::Handoff(id) => Answer::Handoffs(self.handoff(*id).into_iter().collect()),
            Need::HandoffsBetween(first, last) => {
                let ids = self.handoffs.keys().copied();
                Answer::Ids(ids.filter(|id| (first..=last).contains(&id)).take(2).collect())
            }
            Need::Line(id) => {
                let before = |handoff: &Arc<Handoff>| self.handoff(handoff.parent?);
                Answer::Handoffs(std::iter::successors(self.handoff(*id), before).take(8).collect())
            }
            Need::ActiveIn(key) => Answer::Ids(self.record(key).active.into_iter().collect()),
            Need::NewestActive => {
                let all = self.handoffs.values();
                let active =
                    all.filter(|handoff| self.record(&handoff.conversation).active == Some(handoff.id));
                let mut ids: Vec<HandoffId> = active.map(|handoff| handoff.id).collect();
                ids.sort_by(|a, b| b.cmp(a));
                Answer::Ids(ids)
            }
            Need::Response(id) => Answer::Response(self.responses.get(id).cloned()),
            Need::Listed => Answer::Ids(Vec::new()),
            Need::CutPoints(ids) => Answer::CutPoints(self.points_of(ids)),
            Need::CutPointsAt(places) => {
                let here = self.points.values();
                let here = here.filter(|point| places.contains(&point.position.digest));
                Answer::CutPoints(here.cloned().collect())
            }
            Need::LeftOutIn(key) => Answer::Ids(self.record(key).left_out),
            Need::PairsAfter { from, .. } => {
                let calls = call.reading.call_names_back(*from);
                let calls: Vec<String> = calls.map(|(_, name)| sibling_key(&name).to_owned()).collect();
                Answer::PairsAfter(PairsAfter {
                    known: Vec::new(),
                    found: self.beside(&calls),
                })
            }
            Need::Pairs(ids) => {
                let found = self.listed_pairs(|pair| ids.contains(&pair.id)).into_iter();
                Answer::Pairs(found.map(|pair| (*pair).clone()).collect())
            }
            Need::InsertionsAt(_) => Answer::Insertions(Vec::new()),
            Need::SealKeys => Answer::SealKeys(self.keys()),
        }
    }

    /// Performs a write of a plan.
    pub fn perform(&mut self, key: &str, effect: PlanWrite, offer: &mut ToolOffer) {
        let record = self.record(key);
        match effect {
            PlanWrite::TakeOverCutPoint(point) => self.change(key, &RecordChange::LeftOut(point.handoff)),
            PlanWrite::KeepCutPoint(handoff) => self.change(key, &RecordChange::ReliedOn(handoff)),
            PlanWrite::TakeOverInsertions(_) => drop(self.checked.insert(key.to_owned())),
            PlanWrite::DecideTool(decision) => {
                let (from, to) = (record.tooled, decision.tooled());
                self.change(key, &RecordChange::Tooled { from, to });
                offer.set(decision.written(to));
            }
            PlanWrite::Follow(to) => {
                let from = record.active;
                self.change(key, &RecordChange::Followed { from, to });
            }
            PlanWrite::KnowPairs(_) | PlanWrite::LoseInsertions(_) => {}
        }
    }
}
