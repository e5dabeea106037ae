//! The work that is handed over: what its carry-over prompt lacks (`handoff.carry`), and its document.

use std::sync::Arc;

use bytes::Bytes;

use super::heavy;
use super::offer::Offered;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::files::documents::{StoredHandoff, TranscriptReader};
use baton_core::handoffs::carry::{self, Carried, CarryPolicy, CarryScope, Rule};
use baton_core::handoffs::document::HandoffSize;
use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings, SeenFacts};
use baton_core::plan::RuleQuery;
use baton_core::record::{Handoff, HandoffId, HiddenPair};
use baton_core::text::splice;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;

/// How much more work it is to read a transcript down to its sentences than to rewrite it (`cargo bench --bench core -- carry`).
const READING: usize = 60;

/// A request whose observed work is handed over.
#[derive(Clone)]
pub(super) struct HandedOverWork {
    pub(super) app: Arc<App>,
    pub(super) offered: Arc<Offered>,
    /// Whether the model was sent the tool.
    pub(super) tooled: bool,
    /// Whether the leg that hands over has done more than that: a later leg that does so at once has done nothing.
    pub(super) has_work: bool,
    /// Whether the user's texts are a person's: a subagent's are its parent model's.
    pub(super) by_person: bool,
}

impl HandedOverWork {
    /// Puts behind a prompt what it lacks. It becomes part of the prompt, so that the store, the seal and every later request
    /// have the same. `parent`: the handoff before.
    pub(super) fn carried(&self, prompt: &str, parent: Option<HandoffId>) -> Carried {
        let policy = CarryPolicy {
            scope: self.app.config.handoff.carry,
            tokens: self.app.config.handoff.carry_tokens,
        };
        let weight = self.offered.agent.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let rules = self.rules(parent);
            let may_see = self.has_work && policy.scope == CarryScope::All;
            let seen = may_see.then(|| self.seen()).flatten();
            carry::carry(prompt, &rules, seen.as_ref(), policy)
        })
    }

    /// The rules that a handoff would carry, newest first.
    pub(super) fn carried_rules(&self) -> Vec<Rule> {
        let weight = self.offered.agent.weight.saturating_mul(READING);
        heavy::work(weight, || self.rules(None))
    }

    /// The rules of the person that hold, newest first: of the whole history that the agent sends, and of the handoff before.
    fn rules(&self, parent: Option<HandoffId>) -> Vec<Rule> {
        let (config, agent) = (&self.app.config, &self.offered.agent);
        if config.handoff.carry == CarryScope::Off {
            return Vec::new();
        }
        let pinned = agent
            .live
            .as_ref()
            .map(|live| (live.pins(), live.dropped_rules()));
        let (mut without, dropped) = pinned.unwrap_or_default();
        without.extend(dropped);
        let parent = parent.or(self.offered.active_id());
        let earlier = parent.and_then(|id| self.app.sessions.known_handoff(id));
        self.offered.plan(&self.app).rules(&RuleQuery {
            earlier: earlier.as_deref(),
            by_person: self.by_person,
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
        let weight = self.offered.agent.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let transcript = Transcript::of(self.offered.agent.request.view());
            let calls = carry::called_again(&transcript, handoff);
            carry::looked_up_again(calls, pairs.iter().map(AsRef::as_ref), &self.app.redactor)
        })
    }

    fn seen(&self) -> Option<SeenFacts> {
        let body = self.model_view();
        let view = self.offered.agent.wire.read(&body, Operation::Generate).ok()?;
        let settings = draft_settings(&self.app, &self.offered)?;
        Some(SeenFacts::of_work(settings, &Transcript::of(&view)))
    }

    /// Has the handoff's document written.
    pub(super) fn write_document(self, ctx: &RequestContext, handoff: &Handoff, bytes: HandoffSize) {
        if !self.app.documents.is_on() {
            return;
        }
        let app = Arc::clone(&self.app);
        let carry_over = self.offered.pin.carry_over();
        let transcript: TranscriptReader = Box::new(move || self.has_work.then(|| self.model_view()));
        app.documents.handoff(StoredHandoff {
            handoff: handoff.clone(),
            carry_over,
            exchange: Some(ctx.id.clone()),
            topic: ctx.recorder.read(|e| e.topic.clone()),
            context_tokens: ctx.recorder.read(|e| e.context_tokens()),
            bytes,
            transcript,
        });
    }

    /// The request as the model was sent it: cut at the active handoff.
    fn model_view(&self) -> Bytes {
        splice::flat(self.offered.plan(&self.app).first(self.tooled).rope)
    }
}

/// The index of a transcript as the model sees it. `None`: the request has no conversation.
pub(super) fn draft_index(app: &App, offered: &Offered, transcript: &Transcript<'_>) -> Option<DraftIndex> {
    Some(DraftIndex::of(draft_settings(app, offered)?, transcript))
}

fn draft_settings(app: &App, offered: &Offered) -> Option<DraftIndexSettings> {
    offered.agent.live.as_ref()?;
    let redactor = app.redactor.clone();
    Some(app.config.draft_settings(offered.pin.carry_over(), redactor))
}
