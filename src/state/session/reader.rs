//! Reads the records that a plan lacks, from memory or from the store, and makes the plan's writes.
//!
//! Reads requested together are sent together, which is one round trip to a shared store.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::{join, join_all, join3};

use super::truncated_ids::is_unguessable;
use super::{CallsAfterCut, LiveConversation, NewCalls, Sessions};
use crate::store::records::Lookup;
use crate::store::seals::Seals;
use crate::store::{HandoffFilter, StoreError, StoreResult};
use baton_core::plan::{
    AgentCall, Answer, ListedRecords, MissingRecords, Need, PairsAfter, Plan, PlanWrite, Records,
};
use baton_core::record::{Handoff, HandoffId, HiddenPair};
use baton_core::text::Span;

/// Maximum reads for one plan. Each may reveal the need for another one.
const MAX_READS: usize = 32;

/// Number of newest handoffs searched for the active one of a conversation without a name.
const MAX_ACTIVE: usize = 32;

/// Maximum handoffs between two in a transcript, whose responses the agent omitted.
const MAX_LEFT_OUT: usize = 8;

/// Weight of a byte under a seal, which is unescaped and hashed, twice at most.
const SEALING: usize = 16;

/// The records that were read for a request.
pub struct Reader<'a> {
    sessions: &'a Sessions,
    seals: &'a Seals,
    principal: &'a str,
    now_ms: u64,
    /// Key of the request's conversation, if known.
    key: Option<String>,
    pub records: Records,
    /// The conversation. `None` while the store cannot be reached.
    pub live: Option<Arc<LiveConversation>>,
    /// The latest walk over the transcript's calls whose pairs were requested.
    calls: Option<(Need, NewCalls)>,
    /// Results of the walk before that.
    before: Option<(Vec<String>, Vec<HiddenPair>)>,
    reads: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader that has not read anything yet.
    pub fn new(sessions: &'a Sessions, seals: &'a Seals, principal: &'a str, now_ms: u64) -> Self {
        Self {
            sessions,
            seals,
            principal,
            now_ms,
            key: None,
            records: Records::default(),
            live: None,
            calls: None,
            before: None,
            reads: 0,
        }
    }

    /// Sets the request's conversation, for a reader that does not open it.
    #[must_use]
    pub fn within(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Opens the conversation, and reads with it the records that its request most likely needs.
    ///
    /// The request may turn out not to need all of them. A record that cannot be read is requested again later.
    pub async fn open(&mut self, call: &AgentCall, needs: MissingRecords) {
        let (sessions, principal) = (self.sessions, self.principal);
        self.key = Some(call.key.clone());
        // Walked with the conversation in memory, so that all reads go out in one round trip.
        self.walk_calls(call, &sessions.peek(&call.key, principal), &needs);
        let opened = sessions.open(&call.key, principal, self.now_ms);
        // On one connection in this order: pairs read after the record are never older than the record.
        let (opened, found) = join(opened, self.read_all(&needs)).await;
        for (need, answer) in needs.into_iter().zip(found) {
            if let Ok(answer) = answer {
                self.records.add(need, answer);
            }
        }
        let opened = opened.inspect_err(
            |error| tracing::error!(%error, "failed to open the conversation; planning without its record"),
        );
        let Ok(live) = opened else { return };
        // Another process may have written pairs.
        let calls = self.calls.as_ref();
        if calls.is_some_and(|(_, calls)| !live.is_current(calls)) {
            self.forget_calls();
        }
        let mut known = live.known();
        known.listed = self.listed(&live).await.ok();
        self.records.conversation = Some(known);
        self.live = Some(live);
    }

    /// Reads the records that a plan of this request lacks.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn read_for(&mut self, call: &AgentCall, needs: MissingRecords) -> StoreResult<()> {
        if let Some(live) = self.live.clone() {
            self.walk_calls(call, &live, &needs);
        }
        self.read(needs).await
    }

    /// Reads missing records.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn read(&mut self, needs: MissingRecords) -> StoreResult<()> {
        self.reads += 1;
        if self.reads > MAX_READS {
            return Err(StoreError::new(format!(
                "too many reads for one request: {needs:?}"
            )));
        }
        if let (true, Some(live)) = (needs.contains(&Need::Listed), &self.live) {
            let listed = self.listed(live).await?;
            if let Some(conversation) = &mut self.records.conversation {
                conversation.listed = Some(listed);
            }
        }
        let found = self.read_all(&needs).await;
        for (need, answer) in needs.into_iter().zip(found) {
            self.records.add(need, answer?);
        }
        Ok(())
    }

    /// Makes the writes of a plan. Returns how many insertions have lost their anchor since the previous
    /// request.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written and the request cannot be served without the write.
    pub async fn write(&mut self, plan: &mut Plan) -> StoreResult<usize> {
        let (sessions, now_ms, mut lost) = (self.sessions, self.now_ms, 0);
        let effects = std::mem::take(&mut plan.effects);
        let Some(live) = &self.live else {
            return Ok(lost);
        };
        for effect in effects {
            match effect {
                // Boxed, like all rare writes: they would otherwise enlarge the future of every request.
                PlanWrite::TakeOverCutPoint(point) => {
                    Box::pin(sessions.take_over(live, point, now_ms)).await?
                }
                PlanWrite::KeepCutPoint(handoff) => {
                    Box::pin(sessions.keep_cut_point(live, handoff, now_ms)).await?
                }
                PlanWrite::KnowPairs(found) => {
                    if let Some((_, calls)) = self.calls.take() {
                        live.record_lookup(calls, &found);
                    }
                }
                PlanWrite::TakeOverInsertions(found) => {
                    live.copy_checked();
                    Box::pin(sessions.take_over_insertions(live, found, now_ms)).await?;
                }
                PlanWrite::LoseInsertions(all) => lost = live.newly_lost(&all),
                PlanWrite::DecideTool(decision) => {
                    let written = Box::pin(sessions.decide_tooled(live, decision.tooled(), now_ms)).await;
                    plan.offer.set(match written {
                        Ok(stands) => decision.written(stands),
                        Err(error) => {
                            // Without a record the next request might decide differently.
                            let why = decision.unwritten();
                            tracing::error!(%error, tool = why.is_none(), "failed to store whether the conversation gets the tool; deciding for this request only");
                            why
                        }
                    });
                }
                PlanWrite::Follow(active) => sessions.follow(live, active, now_ms),
            }
        }
        Ok(lost)
    }

    /// Returns the weight of verifying the seals in a transcript, if the plan verifies any.
    pub fn sealing_weight(&self, text: usize) -> usize {
        match self.records.has(&Need::SealKeys) {
            true => text * SEALING * self.seals.now().count(),
            false => 0,
        }
    }

    async fn read_all(&self, needs: &MissingRecords) -> Vec<StoreResult<Answer>> {
        join_all(needs.iter().map(|need| self.answer(need))).await
    }

    async fn answer(&self, need: &Need) -> StoreResult<Answer> {
        let (sessions, principal) = (self.sessions, self.principal);
        let store = sessions.store();
        Ok(match need {
            Need::Handoff(id) => {
                let found = sessions.handoff(principal, *id).await?;
                Answer::Handoffs(found.into_iter().collect())
            }
            Need::HandoffsBetween(first, last) => Answer::Ids(self.between((*first, *last)).await?),
            Need::Line(id) => Answer::Handoffs(self.line(*id).await?),
            Need::ActiveIn(key) => Answer::Ids(self.active_in(key).await?.into_iter().collect()),
            Need::NewestActive => Answer::Ids(self.newest_active().await?),
            Need::Response(id) => Answer::Response(store.response_id(principal, id).await?),
            // `read` has added the listed records to the conversation, so there is nothing to return.
            Need::Listed => Answer::Ids(Vec::new()),
            Need::CutPoints(ids) => Answer::CutPoints(store.placed(principal, Lookup::Ids(ids)).await?),
            Need::CutPointsAt(places) => {
                Answer::CutPoints(store.placed(principal, Lookup::Places(places)).await?)
            }
            Need::LeftOutIn(key) => {
                let left_out = store.conversation(key).await?.map(|found| found.left_out);
                Answer::Ids(left_out.unwrap_or_default())
            }
            Need::PairsAfter { .. } => Answer::PairsAfter(self.pairs_after().await?),
            Need::Pairs(ids) => Answer::Pairs(store.placed(principal, Lookup::Ids(ids)).await?),
            Need::InsertionsAt(places) => {
                Answer::Insertions(store.placed(principal, Lookup::Places(places)).await?)
            }
            Need::SealKeys => Answer::SealKeys(self.seals.now()),
        })
    }

    /// Returns the records that this conversation's record lists.
    async fn listed(&self, live: &LiveConversation) -> StoreResult<ListedRecords> {
        let (sessions, now) = (self.sessions, self.now_ms);
        let (cut_points, insertions) = (sessions.left_out(live, now), sessions.insertions_of(live, now));
        let (pairs, cut_points, insertions) =
            join3(sessions.pairs_of(live, now), cut_points, insertions).await;
        let (insertions, lost_insertions) = insertions?;
        Ok(ListedRecords {
            pairs: pairs?,
            cut_points: cut_points?,
            insertions,
            lost_insertions,
        })
    }

    /// Returns a handoff and its ancestors, newest first.
    async fn line(&self, id: HandoffId) -> StoreResult<Vec<Arc<Handoff>>> {
        let (mut line, mut next) = (Vec::new(), Some(id));
        // Bounded, because a chain of ancestors may be as long as the session.
        while let Some(id) = next.filter(|_| line.len() < MAX_LEFT_OUT) {
            let Some(handoff) = self.sessions.handoff(self.principal, id).await? else {
                break;
            };
            next = handoff.parent;
            line.push(handoff);
        }
        Ok(line)
    }

    /// Returns up to two handoffs that an id may refer to, which may be truncated.
    ///
    /// If several users reach the proxy, the id of another conversation's handoff must contain random bits.
    async fn between(&self, ids: (HandoffId, HandoffId)) -> StoreResult<Vec<HandoffId>> {
        let limits = self.sessions.truncated_ids.as_ref().filter(|_| ids.0 != ids.1);
        if limits.is_some_and(|limits| !limits.may_look_up(self.principal, ids, self.now_ms)) {
            return Ok(Vec::new());
        }
        let filter = HandoffFilter {
            principal: Some(self.principal.to_owned()),
            ids: Some(ids),
            archived: true,
            // Two are enough to show that the id is ambiguous.
            limit: 2,
            ..HandoffFilter::default()
        };
        let mut found = self.sessions.store().handoffs(&filter).await?;
        if let Some(limits) = limits {
            let is_own = |handoff: &Handoff| self.key.as_ref() == Some(&handoff.conversation);
            found.retain(|handoff| is_unguessable(ids) || is_own(handoff));
            if found.is_empty() {
                limits.note_unknown(self.principal, ids, self.now_ms);
            }
        }
        Ok(found.iter().map(|handoff| handoff.id).collect())
    }

    /// Returns the handoff at which this conversation's newest request was cut.
    async fn active_in(&self, key: &str) -> StoreResult<Option<HandoffId>> {
        let (sessions, now) = (self.sessions, self.now_ms);
        Ok(sessions.open(key, self.principal, now).await?.active())
    }

    /// Returns the newest handoffs that are active in their conversations.
    async fn newest_active(&self) -> StoreResult<Vec<HandoffId>> {
        let filter = HandoffFilter {
            principal: Some(self.principal.to_owned()),
            // An archived handoff may still be active in its conversation.
            archived: true,
            limit: MAX_ACTIVE,
            ..HandoffFilter::default()
        };
        let mut active = Vec::new();
        for handoff in self.sessions.store().handoffs(&filter).await? {
            if self.active_in(&handoff.conversation).await? == Some(handoff.id) {
                active.push(handoff.id);
            }
        }
        Ok(active)
    }

    /// Walks the calls whose pairs are requested, until it reaches calls with cached pairs.
    fn walk_calls(&mut self, call: &AgentCall, live: &LiveConversation, needs: &MissingRecords) {
        let after = needs.iter().find(|need| matches!(need, Need::PairsAfter { .. }));
        let Some(need @ &Need::PairsAfter { cut, from, .. }) = after else {
            return;
        };
        self.forget_calls();
        let (reading, view) = (&call.reading, &call.reading.view);
        let begin = view.turns.get(from).map_or(view.list.end, |t| t.span.start);
        let transcript = CallsAfterCut {
            newest_first: reading.call_names_back(from),
            up_to: &|turn| view.text(Span::new(begin, view.turns[turn].span.end)),
        };
        let calls = live.unknown_calls(cut, transcript, self.now_ms);
        self.calls = Some((need.clone(), calls));
    }

    /// Drops the walk, because a new one is needed. Keeps its results, which may suffice for the new walk.
    fn forget_calls(&mut self) {
        if let Some((need, calls)) = self.calls.take()
            && let Some(Answer::PairsAfter(PairsAfter { found, .. })) = self.records.take(&need)
        {
            self.before = Some((calls.calls().to_vec(), found));
        }
    }

    /// Returns the pairs next to the calls of the walk.
    async fn pairs_after(&self) -> StoreResult<PairsAfter> {
        let Some((_, calls)) = &self.calls else {
            return Ok(PairsAfter::default());
        };
        let before = self.before.as_ref();
        let found = match before.and_then(|before| beside(before, calls.calls())) {
            Some(found) => found,
            None if calls.calls().is_empty() => Vec::new(),
            None => {
                let store = self.sessions.store();
                let places = Lookup::Places(calls.calls());
                store.placed(self.principal, places).await?
            }
        };
        Ok(PairsAfter {
            known: calls.known().to_vec(),
            found,
        })
    }
}

/// Returns the pairs next to these calls, if all of them were requested before.
fn beside((asked, found): &(Vec<String>, Vec<HiddenPair>), calls: &[String]) -> Option<Vec<HiddenPair>> {
    let asked: HashSet<&String> = asked.iter().collect();
    let is_here = |pair: &&HiddenPair| {
        let key = pair.place.key();
        key.is_some_and(|key| calls.iter().any(|call| call == key))
    };
    let all = calls.iter().all(|call| asked.contains(call));
    all.then(|| found.iter().filter(is_here).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::pair;

    #[test]
    fn a_pair_is_found_by_the_part_of_its_fingerprint_that_stays() {
        let key = "~517c731ae14265a9.32f6252f3ec207eb".to_owned();
        let found = pair("local", "c", Some(&format!("{key};-.toolu_1")));
        let before = (vec![key.clone()], vec![found.clone()]);
        assert_eq!(beside(&before, &[key]), Some(vec![found]));
        assert_eq!(beside(&before, &["another".to_owned()]), None);
        assert_eq!(beside(&before, &[]), Some(Vec::new()));
    }
}
