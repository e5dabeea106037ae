//! What the proxy saw of the work that is handed over: behind the carry-over prompt (`handoff.facts`), and in the packet.

use std::sync::Arc;

use bytes::Bytes;

use super::offer::Offered;
use super::{Exchange, heavy};
use crate::serve::proxy::App;
use crate::state::config::FactsPolicy;
use crate::state::files::documents::{StoredHandoff, TranscriptReader};
use crate::state::telemetry::FactsOutcome;
use baton_core::handoffs::document::fields::HandoffSize;
use baton_core::handoffs::draft::{DraftIndex, Whereabouts};
use baton_core::mark::sentinel;
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::text::splice;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;

/// Tokens of what stands behind a carry-over prompt.
pub(crate) const FACTS_TOKENS: usize = 200;

/// How much more work it is to read a transcript down to its texts than to rewrite it.
const READING: usize = 8;

impl Exchange {
    /// The prompt with what was seen behind it, where the config wants that for handoffs which this one began. It
    /// becomes part of the prompt, so that the store, the seal and every later request have the same. Also what came of it,
    /// where it was wanted.
    pub(super) fn with_facts(&self, prompt: String, origin: HandoffOrigin) -> (String, Option<FactsOutcome>) {
        if !wants_facts(self.app.config.handoff.facts, origin) {
            return (prompt, None);
        }
        let weight = self.offered.agent.weight.saturating_mul(READING);
        // A later leg that hands over at once has done nothing but that.
        let block = match self.fired.is_empty() {
            true => heavy::work(weight, || self.facts()),
            false => None,
        };
        let Some(block) = block else {
            return (prompt, Some(FactsOutcome::Nothing));
        };
        // Commands may hold what looks like a mark of ours.
        let whole = sentinel::normalised(&format!("{}\n\n{block}", prompt.trim_end()));
        (whole, Some(FactsOutcome::Written))
    }

    fn facts(&self) -> Option<String> {
        let body = model_view(&self.offered, &self.app, self.tooled);
        let view = self.offered.agent.wire.read(&body, Operation::Generate).ok()?;
        let transcript = Transcript::of(&view);
        let settings = self
            .app
            .config
            .draft_settings(self.carry_over(), self.app.redactor.clone());
        let mut index = DraftIndex::new(settings);
        index.extend(&transcript);
        index
            .seen(&Whereabouts::of(&transcript))
            .block(FACTS_TOKENS, self.offered.count())
    }

    /// The carry-over prompt that the transcript begins with.
    fn carry_over(&self) -> Option<String> {
        self.offered
            .pin
            .active
            .as_ref()
            .map(|active| active.prompt.clone())
    }

    /// Has the handoff's packet written behind it.
    pub(super) fn packet(&self, handoff: &Handoff, bytes: HandoffSize) {
        if !self.app.packets.is_on() {
            return;
        }
        let (app, offered, tooled) = (Arc::clone(&self.app), Arc::clone(&self.offered), self.tooled);
        // A later leg that hands over at once has done nothing but that.
        let transcript: TranscriptReader = match self.fired.is_first(handoff.id) {
            true => Box::new(move || Some(model_view(&offered, &app, tooled))),
            false => Box::new(|| None),
        };
        self.app.packets.handoff(StoredHandoff {
            handoff: handoff.clone(),
            carry_over: self.carry_over(),
            exchange: Some(self.ctx.id.clone()),
            bytes,
            transcript,
        });
    }
}

/// Whether what was seen stands behind the prompt of a handoff that this one began.
pub(crate) fn wants_facts(policy: FactsPolicy, origin: HandoffOrigin) -> bool {
    match policy {
        FactsPolicy::All => true,
        FactsPolicy::Drafts => !matches!(origin, HandoffOrigin::Model | HandoffOrigin::Person),
        FactsPolicy::Off => false,
    }
}

/// The request as the model was sent it: cut at the active handoff.
fn model_view(offered: &Offered, app: &App, tooled: bool) -> Bytes {
    splice::flat(offered.first(app, tooled).rope)
}
