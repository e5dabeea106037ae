//! Thinking that upstream refuses: left out of the retry, and of later requests up to the next cut.
//!
//! It is bound to a prefix that the request no longer has. A handoff that was undone leaves such thinking. So does a
//! stretch in which the store was offline: the model had no tool then, and did not see the hidden calls.
//!
//! Anthropic documents two remedies: the beta setting `drop_block`, and leaving the thinking out. baton does the
//! second. With `drop_block` the API drops all later thinking, too, for as long as the refused blocks are sent. If
//! thinking is left out from the front of the stretch, later thinking stays valid. Leaving it out also needs no beta,
//! which gateways may not pass on. <https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>

use super::Exchange;
use super::offer::Offered;
use crate::serve::exchange::app::App;
use baton_core::record::ThinkingOmission;
use baton_core::rewrite::{ChangeReason, RewriteOutcome, positions};

/// The request without any thinking after its cut; `None` where it has none that was sent.
pub(super) fn leave_out(app: &App, offered: &mut Offered, sent: &RewriteOutcome) -> Option<RewriteOutcome> {
    offered.places.omitted = Some(offered.agent.request.view().turns.len());
    let again = offered.plan(app).first(offered.offer.tooled);
    (left_out(&again) > left_out(sent)).then_some(again)
}

/// Notes that upstream took the request without its thinking: every later request of the stretch has the same view. A side
/// call is no request of the stretch, and what upstream stores of a transcript cannot be left out.
pub(super) async fn remember_omission(exchange: &Exchange) {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let is_of_stretch = offered.agent.is_of_the_loop() && !offered.agent.call.side_call;
    let Some(live) = offered.agent.live.as_ref().filter(|_| is_of_stretch) else {
        return;
    };
    let omission = ThinkingOmission {
        handoff: offered.pin.stretch(),
        position: positions::of(offered.agent.request.view()),
    };
    if let Err(error) = app
        .sessions
        .omit_thinking(live, omission, app.clock.now_ms())
        .await
    {
        tracing::error!(exchange = ctx.id, %error, "omitted thinking not written: the next request will be refused again");
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
