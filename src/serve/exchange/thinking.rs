//! Thinking that upstream refuses to take back on a pinned request: left out of a second try, and of the later requests of the
//! stretch.
//!
//! Anthropic documents two remedies: the beta setting `drop_block`, and leaving the thinking out. The second one it is. With
//! `drop_block` the API drops all later thinking, too, for as long as the refused blocks are sent; thinking that is left out from
//! the front of the stretch leaves what the model thinks afterwards valid. And it needs no beta, which gateways may not pass on.
//! <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>

use std::sync::Arc;

use super::placed::Placed;
use super::{Exchange, is_model_call};
use baton_core::record::ThinkingOmission;
use baton_core::rewrite::{ChangeReason, RewriteOutcome, positions, thinking};

/// The turn up to which a pinned request leaves thinking out, since an earlier one of the stretch was refused with it.
pub(super) fn omitted_until(placed: &Placed) -> Option<usize> {
    let (live, active) = (placed.agent.live.as_ref()?, placed.pin.active.as_ref()?);
    let omissions = live.omissions(active.id);
    if omissions.is_empty() {
        return None;
    }
    let view = placed.agent.request.view();
    thinking::omitted_until(view, &omissions)
}

impl Exchange {
    /// The request without any thinking behind its cut; `None` where it has none that was sent.
    pub(super) fn leave_thinking_out(&mut self, sent: &RewriteOutcome) -> Option<RewriteOutcome> {
        let offered = Arc::make_mut(&mut self.offered);
        offered.places.omitted = Some(offered.agent.request.view().turns.len());
        let tooled = offered.offer.tooled;
        let again = self.offered.first(&self.app, tooled);
        (left_out(&again) > left_out(sent)).then_some(again)
    }

    /// Notes that upstream took the request without its thinking: every later request of the stretch has the same view. A side
    /// call is no request of the stretch, and what upstream holds of a transcript cannot be left out.
    pub(super) async fn remember_omission(&self) {
        let (offered, view) = (&self.offered, self.offered.agent.request.view());
        let is_of_stretch = is_model_call(self.ctx.endpoint)
            && !offered.agent.side_call
            && view.tools.is_some_and(|tools| tools.client)
            && view.facts.previous.is_none();
        let (Some(live), Some(active)) = (&offered.agent.live, &offered.pin.active) else {
            return;
        };
        if !is_of_stretch {
            return;
        }
        let omission = ThinkingOmission {
            handoff: active.id,
            position: positions::of(view),
        };
        let now = self.app.clock.now_ms();
        if let Err(error) = self.app.sessions.omit_thinking(live, omission, now).await {
            tracing::error!(exchange = self.ctx.id, %error, "omitted thinking not written: the next request is refused once more");
        }
    }
}

/// Bytes of thinking that a request leaves out.
fn left_out(rewritten: &RewriteOutcome) -> usize {
    let changes = rewritten.changes.iter();
    changes
        .filter(|change| change.why == ChangeReason::Thinking)
        .map(|change| change.removed)
        .sum()
}
