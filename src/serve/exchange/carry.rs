//! The work that is handed over: what its carry-over prompt lacks (`handoff.carry`), and its document.

use std::sync::Arc;

use bytes::Bytes;

use super::heavy;
use super::record_writer::PreparedHandoff;
use super::value::Exchange;
use crate::serve::proxy::headers;
use crate::state::files::documents::{StoredHandoff, TranscriptReader};
use baton_core::handoffs::carry::{self, Carried, CarryScope, Rule};
use baton_core::handoffs::draft::{DraftIndexSettings, SeenFacts};
use baton_core::plan::RuleQuery;
use baton_core::record::{HandoffId, HiddenPair};
use baton_core::text::splice;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;

/// How much more work it is to read a transcript down to its sentences than to rewrite it (`cargo bench --bench core -- carry`).
const READING: usize = 60;

impl Exchange {
    /// Puts behind a prompt what it lacks. It becomes part of the prompt, so that the store, the seal and every later request
    /// have the same. `parent`: the handoff before. `has_work`: the leg that hands over has also worked.
    pub(super) fn carried(&self, prompt: &str, parent: Option<HandoffId>, has_work: bool) -> Carried {
        let policy = self.app.config.carry_policy();
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let rules = self.rules(parent);
            let may_see = has_work && policy.scope == CarryScope::All;
            let seen = may_see
                .then(|| self.of_view(self.plan().first(self.tooled).rope, SeenFacts::of_work))
                .flatten();
            carry::carry(prompt, &rules, seen.as_ref(), policy)
        })
    }

    /// The rules that a handoff would carry, newest first.
    pub(super) fn carried_rules(&self) -> Vec<Rule> {
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || self.rules(None))
    }

    /// The rules of the person that hold, newest first: of the whole history that the agent sends, and of the handoff before.
    fn rules(&self, parent: Option<HandoffId>) -> Vec<Rule> {
        let (config, offered) = (&self.app.config, &self.offered);
        if config.handoff.carry == CarryScope::Off {
            return Vec::new();
        }
        let pinned = offered
            .live
            .as_ref()
            .map(|live| (live.pins(), live.dropped_rules()));
        let (mut without, dropped) = pinned.unwrap_or_default();
        without.extend(dropped);
        let parent = parent.or(self.offered.active_id());
        let earlier = parent.and_then(|id| self.app.sessions.known_handoff(id));
        self.plan().rules(&RuleQuery {
            earlier: earlier.as_deref(),
            // A subagent's user is its parent model.
            by_person: !headers::is_of_subagent(&self.ctx.headers),
            without: &without,
            markers: &config.draft.markers,
            redactor: &self.app.redactor,
        })
    }

    /// What the model looked up again after a handoff. `pairs`: the hidden calls since.
    pub(super) fn looked_up_again(
        &self,
        handoff: HandoffId,
        pairs: &[Arc<HiddenPair>],
    ) -> Option<Vec<String>> {
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let transcript = Transcript::of(self.offered.view());
            let calls = carry::called_again(&transcript, handoff);
            carry::looked_up_again(calls, pairs.iter().map(AsRef::as_ref), &self.app.redactor)
        })
    }

    /// Has the handoff's document written.
    pub(super) fn write_document(&self, prepared: &PreparedHandoff) {
        if !self.app.documents.is_on() {
            return;
        }
        let (app, offered, tooled) = (Arc::clone(&self.app), Arc::clone(&self.offered), self.tooled);
        let has_work = prepared.has_work;
        let transcript: TranscriptReader =
            Box::new(move || has_work.then(|| splice::flat(offered.plan(&app).first(tooled).rope)));
        let recorder = &self.ctx.recorder;
        self.app.documents.handoff(StoredHandoff {
            handoff: prepared.handoff.clone(),
            carry_over: self.offered.pin.carry_over(),
            exchange: Some(self.ctx.id.clone()),
            topic: recorder.read(|e| e.topic.clone()),
            context_tokens: recorder.read(|e| e.context_tokens()),
            bytes: prepared.bytes,
            transcript,
        });
    }

    /// Makes something of a rewritten request, as drafts read it. `None`: it has no conversation.
    pub(super) fn of_view<T>(
        &self,
        rope: Vec<Bytes>,
        make: impl FnOnce(DraftIndexSettings, &Transcript<'_>) -> T,
    ) -> Option<T> {
        let (body, offered) = (splice::flat(rope), &self.offered);
        offered.live.as_ref()?;
        let view = offered.wire().read(&body, Operation::Generate).ok()?;
        let (carry_over, redactor) = (self.offered.pin.carry_over(), self.app.redactor.clone());
        let settings = self.app.config.draft_settings(carry_over, redactor);
        Some(make(settings, &Transcript::of(&view)))
    }
}
