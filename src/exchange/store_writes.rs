//! Writes handoffs, hidden pairs and response ids to the store, before anything of them is shown.

use uuid::Uuid;

use super::active::Active;
use super::answer::Exchange;
use super::{heavy, now_ms};
use crate::course::{Behind, Refused};
use crate::record::{CutPoint, Handoff, HandoffId, HiddenPair, Origin, Place};
use crate::rewrite::{flattened, left_out};
use crate::store::StoreError;
use crate::telemetry::HandoffEvent;
use crate::text::splice;

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
            model: self.prepared.request.view().facts.model.clone(),
            created_ms: now,
            history_bytes: self.prepared.request.len() as u64,
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
        let before = self.ctx.recorder.read(|e| e.sent_bytes.last().copied());
        let before = before.flatten().unwrap_or_default();
        let after = splice::len(&self.fresh(&handoff.head).rope) as u64;
        let event = HandoffEvent::of(handoff, &self.ctx.id, (before, after), &self.app.redactor);
        match self.app.config.log.json {
            true => event.log(),
            false => event.log_line(),
        }
        self.app.journal.handoff(&event);
        self.ctx.recorder.note(|e| {
            e.fired.push(event.id.clone());
            e.handoffs.push(event);
        });
    }

    /// Where the handoff stands in the agent's transcript: behind all that this request holds. `None` where it holds
    /// nothing but the system's word, the rest being upstream: no place that could be found again.
    fn cut_point(&self, handoff: &Handoff) -> Option<CutPoint> {
        let view = self.prepared.request.view();
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

    /// Writes the pairs of a mixed batch, each beside its sibling; those without a place are left out.
    pub(super) async fn write_beside(&self, all: Vec<(Refused, Option<Place>)>) -> Result<(), StoreError> {
        let refused = all.iter().filter(|(call, _)| call.answer.is_error()).count();
        let placed = all.into_iter().filter_map(|(call, place)| Some((call, place?)));
        let pairs = placed.map(|(call, place)| self.pair(Uuid::now_v7(), call, place));
        let pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;
        self.ctx
            .recorder
            .note(|e| e.refused_calls += u32::try_from(refused).unwrap_or_default());
        self.write_pairs(pairs).await
    }

    /// The pair of a refused call; its id is the aside's.
    pub(super) fn aside(&self, refused: Refused) -> Result<HiddenPair, StoreError> {
        self.ctx.recorder.note(|e| e.refused_calls += 1);
        self.pair(Uuid::now_v7(), refused, Place::Aside)
    }

    /// Writes pairs; when this has returned, what stands for them may be shown.
    pub(super) async fn write_pairs(&self, pairs: Vec<HiddenPair>) -> Result<(), StoreError> {
        self.app.sessions.add_pairs(self.live()?, pairs, now_ms()).await
    }

    /// Writes what stands behind the id that the agent knows the response by.
    pub(super) async fn write_id(&self, shown: &str, behind: Behind) -> Result<(), StoreError> {
        let behind = match behind {
            Behind::Response(id) => id,
            Behind::Handoff(id) => format!("{HANDOFF}{id}"),
        };
        let store = self.app.sessions.store();
        store.put_response_id(&self.ctx.principal, shown, &behind).await
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
