//! Handoffs that the model did not start: a draft is written, and the conversation continues after it.
//!
//! ```text
//! a draft is requested ─► the document: given | oneshot | bundle | local ─► write the handoff ─► its sentinel, then the next leg
//!                             └► failed, empty, cancelled: the request goes upstream unchanged
//! ```

mod drafter;
mod legs;

use super::answer::after_handoff;
use super::value::Exchange;
use crate::proxy::response_body::AgentResponse;
use crate::state::jobs::drafts::DraftJob;
use baton_core::handoffs::draft::{DraftEnd, DraftRequest, not_made, still_waits, waits_for_approval};
use baton_core::nudge::NudgeOutcome;
use baton_core::plan::{DueHandoff, OpenDraft};
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::response::AnswerOpening;

pub(super) use self::drafter::{hand_over, handoff_report, local_prompt};
use crate::state::files::saved_prompts;
use std::sync::Arc;
use uuid::Uuid;

/// Answers a request that starts a draft: with the leg after the handoff, or as if no draft had been requested.
pub(super) async fn run(exchange: Exchange, job: DraftJob) -> AgentResponse {
    let mut exchange = exchange.showing();
    super::local_answer::answered(exchange.clone(), async move {
        let (id, origin) = (job.id, job.wanted.ask.origin);
        let made = hand_over(&exchange, job).await;
        match made {
            Ok(handoff) => {
                save(&exchange, id, &handoff);
                let report = handoff_report(&exchange, &handoff);
                exchange.opening = exchange.opening.reporting(&report);
                // The stream has begun with the draft, so the report goes into the same stream.
                if let Some(shown) = exchange.begun_draft() {
                    let opening = &exchange.opening;
                    shown.end(&opening.with_sentinel(&exchange.sentinel(&handoff)));
                }
                after_handoff(exchange, &handoff).await
            }
            Err(end) => {
                let prefix = &exchange.app.config.commands.prefix;
                let said = match end {
                    DraftEnd::Review => waits_for_approval(prefix),
                    end => {
                        tracing::warn!(exchange = exchange.ctx.id, draft = %id, end = end.name(), why = %end, "failed to make a handoff; continuing without it");
                        // No other automatic draft begins until the context has grown further.
                        if let Some(branch) = &exchange.branch {
                            branch.draft_failed();
                        }
                        if origin == HandoffOrigin::Auto {
                            exchange.ctx.note_nudge(NudgeOutcome::AutoFailed);
                        }
                        not_made(&end, prefix)
                    }
                };
                let told = exchange.opening.followed_by(&said);
                let is_command = !matches!(origin, HandoffOrigin::Auto | HandoffOrigin::Api);
                if let Some(shown) = exchange.begun_draft() {
                    shown.end(told.before_model().unwrap_or_default());
                    // The stream has shown the text already.
                    exchange.opening = AnswerOpening::None;
                } else if is_command {
                    exchange.opening = told;
                }
                // Otherwise nobody asked for this handoff in the chat, so the response does not mention its failure.
                exchange.begin().await
            }
        }
    })
    .await
}

/// Returns the draft that waits for a request of this conversation.
pub(super) fn waiting_job(exchange: &Exchange) -> Option<DraftJob> {
    let live = exchange.offered.live.as_ref()?;
    exchange.app.drafting.take(live.key())
}

/// Returns a notice that a draft awaits approval, for a user who continues the conversation without deciding.
///
/// It is shown once. Its note keeps it out of the model's view.
pub(super) fn pending_notice(exchange: &Exchange) -> Option<AnswerOpening> {
    let (app, live) = (&exchange.app, exchange.offered.live.as_ref()?);
    let is_elsewhere = app.drafting.planned_in(live.key()) == Some(OpenDraft::Elsewhere);
    if !is_elsewhere || !exchange.plan().is_safe_point() {
        return None;
    }
    let draft = app.drafting.pending_once(live.key())?;
    tracing::info!(exchange = exchange.ctx.id, %draft, "a draft awaits approval; continuing the conversation");
    let text = still_waits(&app.config.commands.prefix);
    Some(AnswerOpening::notice(&text))
}

/// Begins the draft of a handoff that a threshold triggers. The conversation continues after it in the same response.
/// Returns `None` if another draft is open.
pub(in crate::exchange) fn automatic_job(exchange: &Exchange, due: DueHandoff) -> Option<DraftJob> {
    let live = exchange.offered.live.as_ref()?;
    let request = DraftRequest {
        reason: Some(due.reason),
        method: due.method,
        ..DraftRequest::automatic()
    };
    let drafting = &exchange.app.drafting;
    let begun = drafting.begin(live.key(), live.principal(), request.into());
    let begun = begun.ok()?;
    if let (Some(cut), Some(branch)) = (due.cut, &exchange.branch) {
        tracing::info!(
            exchange = exchange.ctx.id,
            why = cut.reason.name(),
            tokens = cut.tokens,
            dollars = cut.saved,
            "handing off at no cost"
        );
        branch.ledger(|ledger| ledger.cut(&cut));
    }
    Some(begun)
}

/// Saves the prompt of an automatic handoff as a file, if a directory is configured.
pub(super) fn save(exchange: &Exchange, draft: Uuid, handoff: &Handoff) {
    let app = &exchange.app;
    let directory = &app.config.handoff.save_dir;
    let directory = directory.clone();
    let Some(directory) = directory.filter(|_| handoff.origin == HandoffOrigin::Auto) else {
        return;
    };
    let text = format!("{}\n", app.redactor.text(&handoff.prompt).trim_end());
    let (place, drafting) = ((directory, handoff.created_ms), Arc::clone(&app.drafting));
    let saved = move |path| drafting.saved(draft, path);
    saved_prompts::keep(place, text, exchange.ctx.id.clone(), saved);
}
