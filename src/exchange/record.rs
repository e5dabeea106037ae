//! What is written down when a call of ours was seen: before anything of it is shown.

use uuid::Uuid;

use super::answer::Exchange;
use super::prepare::Active;
use super::{heavy, now_ms};
use crate::course::{Refused, place_beside};
use crate::record::{CutPoint, Handoff, HandoffId, HiddenPair, Origin, Place};
use crate::rewrite::{flattened, left_out};
use crate::store::StoreError;
use crate::telemetry::HandoffEvent;
use crate::text::splice;
use crate::wire::{Ending, LegReport};

/// Marks a response behind which nothing of upstream's stands, but a handoff.
const HANDOFF: &str = "handoff:";

/// The handoff that a response ended with, by what was written behind its id.
pub(super) fn handoff_behind(written: &str) -> Option<HandoffId> {
    written.strip_prefix(HANDOFF)?.parse().ok()
}

impl Exchange {
    /// Writes the handoff; when this has returned, its sentinel may be shown.
    pub(super) async fn write_handoff(
        &self,
        prompt: String,
        reason: Option<String>,
        parent: Option<HandoffId>,
    ) -> Result<Handoff, StoreError> {
        let live = self.live()?;
        let now = now_ms();
        let handoff = Handoff {
            id: Uuid::now_v7(),
            principal: self.ctx.principal.clone(),
            conversation: live.key().to_owned(),
            wire: self.prepared.wire.id(),
            head: self.prepared.head_for(&self.app, &prompt),
            prompt,
            reason,
            parent,
            model: self.prepared.reading.view.facts.model.clone(),
            created_ms: now,
            history_bytes: self.text.len() as u64,
            origin: Origin::Model,
            archived: false,
        };
        let point = self.cut_point(&handoff);
        self.fired.add(handoff.id);
        self.app.sessions.fire(live, handoff.clone(), point, now).await?;
        live.remember_repeat(self.hash(), handoff.id, &self.answer, now);
        self.tell(&handoff);
        Ok(handoff)
    }

    /// Tells of a handoff that is written.
    fn tell(&self, handoff: &Handoff) {
        let before = self.ctx.meter.read(|e| e.sent_bytes.last().copied());
        let before = before.flatten().unwrap_or_default();
        let after = splice::len(&self.fresh(&handoff.head).rope) as u64;
        let event = HandoffEvent::of(handoff, &self.ctx.id, (before, after), &self.app.redactor);
        match self.app.config.log.json {
            true => event.log(),
            false => event.log_line(),
        }
        self.app.journal.handoff(&event);
        self.ctx.meter.note(|e| {
            e.fired.push(event.id.clone());
            e.handoffs.push(event);
        });
    }

    /// Where the handoff stands in the agent's transcript: behind all that this request holds. `None` where it holds
    /// nothing but the system's word, the rest being upstream: no place that could be found again.
    fn cut_point(&self, handoff: &Handoff) -> Option<CutPoint> {
        let view = &self.prepared.reading.view;
        let since = self.prepared.active.as_ref().and_then(Active::turn);
        let ((turns, digest), texts) = heavy::work(self.prepared.weight, || {
            (
                left_out::of(view),
                flattened::texts(self.prepared.wire, view, since.unwrap_or_default()),
            )
        });
        (turns > 0).then(|| CutPoint {
            handoff: handoff.id,
            principal: handoff.principal.clone(),
            conversation: handoff.conversation.clone(),
            turns,
            digest,
            texts,
            created_ms: handoff.created_ms,
        })
    }

    /// Writes the pairs of a mixed batch, each beside its sibling.
    pub(super) async fn write_beside(&self, all: Vec<Refused>, report: &LegReport) -> Result<(), StoreError> {
        let refused = all.iter().filter(|r| r.answer.is_error()).count();
        let pairs = all.into_iter().filter_map(|r| {
            let place = place_beside(report, &r.call)?;
            Some(self.pair(Uuid::now_v7(), r, place))
        });
        let pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;
        self.ctx
            .meter
            .note(|e| e.refused_calls += u32::try_from(refused).unwrap_or_default());
        self.app.sessions.add_pairs(self.live()?, pairs, now_ms()).await
    }

    /// Writes the pair of a refused call; its id is the aside's.
    pub(super) async fn write_aside(&self, refused: Refused) -> Result<HiddenPair, StoreError> {
        let pair = self.pair(Uuid::now_v7(), refused, Place::Aside)?;
        self.ctx.meter.note(|e| e.refused_calls += 1);
        self.app
            .sessions
            .add_pairs(self.live()?, vec![pair.clone()], now_ms())
            .await?;
        Ok(pair)
    }

    /// What stands behind the id that the agent knows the response by, on wires that can go on from it.
    pub(super) fn behind(&self, ending: Ending, shown: Option<&Handoff>, last: String) -> Option<String> {
        if !self.prepared.wire.goes_on_by_id() {
            return None;
        }
        match (ending, shown) {
            (Ending::Stopped { .. } | Ending::Lost { .. }, Some(handoff)) => {
                Some(format!("{HANDOFF}{}", handoff.id))
            }
            _ => Some(last).filter(|id| !id.is_empty()),
        }
    }

    /// Writes that down. Without it a request that goes on by the id fails upstream, and says so.
    pub(super) async fn write_id(&self, shown: &str, behind: &str) {
        let store = self.app.sessions.store();
        if let Err(error) = store.put_response_id(&self.ctx.principal, shown, behind).await {
            tracing::error!(exchange = self.ctx.id, %error, "the response's id was not written");
        }
    }

    fn pair(&self, id: Uuid, refused: Refused, place: Place) -> Result<HiddenPair, StoreError> {
        Ok(HiddenPair {
            id,
            principal: self.ctx.principal.clone(),
            conversation: self.live()?.key().to_owned(),
            wire: self.prepared.wire.id(),
            call: self.prepared.wire.hidden_call(&refused.call),
            call_id: refused.call.id,
            answer: refused.answer,
            place,
            pending: refused.pending,
            created_ms: now_ms(),
        })
    }
}
