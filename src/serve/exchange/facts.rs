//! The observed facts of the work that is handed over: after the carry-over prompt (`handoff.facts`), and in the document.

use std::sync::Arc;

use bytes::Bytes;

use super::heavy;
use super::offer::Offered;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::state::config::FactsPolicy;
use crate::state::files::documents::{StoredHandoff, TranscriptReader};
use crate::state::telemetry::{ExchangeEvent, FactsOutcome};
use baton_core::handoffs::document::fields::HandoffSize;
use baton_core::handoffs::draft::{DraftIndex, Whereabouts};
use baton_core::mark::sentinel;
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::text::splice;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;

/// Tokens of the facts after a carry-over prompt.
pub(crate) const FACTS_TOKENS: usize = 200;

/// How much more work it is to read a transcript down to its texts than to rewrite it.
const READING: usize = 8;

/// A carry-over prompt with the facts appended to it.
pub(super) struct WithFacts {
    pub(super) prompt: String,
    /// `None`: the config wants no facts for this handoff.
    pub(super) outcome: Option<FactsOutcome>,
}

/// A request whose observed work is handed over.
#[derive(Clone)]
pub(super) struct HandedOverWork {
    pub(super) app: Arc<App>,
    pub(super) offered: Arc<Offered>,
    /// Whether the model was sent the tool.
    pub(super) tooled: bool,
    /// Whether the leg that hands over has done more than that: a later leg that does so at once has done nothing.
    pub(super) has_work: bool,
}

impl HandedOverWork {
    /// Appends the facts to a prompt, where the config wants that for a handoff of this origin. They become part of the
    /// prompt, so that the store, the seal and every later request have the same.
    pub(super) fn with_facts(&self, prompt: String, origin: HandoffOrigin) -> WithFacts {
        if !wants_facts(self.app.config.handoff.facts, origin) {
            return WithFacts {
                prompt,
                outcome: None,
            };
        }
        let weight = self.offered.agent.weight.saturating_mul(READING);
        let block = self
            .has_work
            .then(|| heavy::work(weight, || self.facts()))
            .flatten();
        let Some(block) = block else {
            let outcome = Some(FactsOutcome::Nothing);
            return WithFacts { prompt, outcome };
        };
        // Commands may hold what looks like a mark of ours.
        WithFacts {
            prompt: sentinel::normalised(&format!("{}\n\n{block}", prompt.trim_end())),
            outcome: Some(FactsOutcome::Written),
        }
    }

    fn facts(&self) -> Option<String> {
        let body = self.model_view();
        let view = self.offered.agent.wire.read(&body, Operation::Generate).ok()?;
        let transcript = Transcript::of(&view);
        draft_index(&self.app, &self.offered, &transcript)?
            .seen(&Whereabouts::of(&transcript))
            .block(FACTS_TOKENS, self.offered.count())
    }

    /// Has the handoff's document written.
    pub(super) fn write_document(self, ctx: &RequestContext, handoff: &Handoff, bytes: HandoffSize) {
        if !self.app.documents.is_on() {
            return;
        }
        let app = Arc::clone(&self.app);
        let carry_over = self.offered.carry_over();
        let transcript: TranscriptReader = Box::new(move || self.has_work.then(|| self.model_view()));
        app.documents.handoff(StoredHandoff {
            handoff: handoff.clone(),
            carry_over,
            exchange: Some(ctx.id.clone()),
            topic: ctx.recorder.read(|e| e.topic.clone()),
            context_tokens: ctx.recorder.read(ExchangeEvent::context_tokens),
            bytes,
            transcript,
        });
    }

    /// The request as the model was sent it: cut at the active handoff.
    fn model_view(&self) -> Bytes {
        splice::flat(self.offered.first(&self.app, self.tooled).rope)
    }
}

/// The index of a transcript as the model sees it. `None`: the request has no conversation.
pub(super) fn draft_index(app: &App, offered: &Offered, transcript: &Transcript<'_>) -> Option<DraftIndex> {
    offered.agent.live.as_ref()?;
    let settings = app
        .config
        .draft_settings(offered.carry_over(), app.redactor.clone());
    Some(DraftIndex::of(settings, transcript))
}

/// Whether the facts are appended to the prompt of a handoff of this origin.
pub(crate) fn wants_facts(policy: FactsPolicy, origin: HandoffOrigin) -> bool {
    match policy {
        FactsPolicy::All => true,
        FactsPolicy::Drafts => !matches!(origin, HandoffOrigin::Model | HandoffOrigin::Person),
        FactsPolicy::Off => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_go_with_handoffs_that_the_policy_covers() {
        use HandoffOrigin::{Api, Auto, Bundle, Local, Model, Oneshot, Person};
        let all = [Model, Oneshot, Bundle, Local, Person, Auto, Api];
        let covered = |policy| all.map(|origin| wants_facts(policy, origin));
        assert_eq!(covered(FactsPolicy::All), [true; 7]);
        assert_eq!(covered(FactsPolicy::Off), [false; 7]);
        // A person's and the model's own text stay as they are.
        assert_eq!(
            covered(FactsPolicy::Drafts),
            [false, true, true, true, false, true, true]
        );
    }
}
