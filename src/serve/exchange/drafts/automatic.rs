//! Handoffs that a threshold triggers.
//!
//! When the context is full enough, a draft is written, and the conversation continues after it in the same
//! response.

use std::sync::Arc;

use uuid::Uuid;

use crate::exchange::value::Exchange;
use crate::state::files::saved_prompts;
use crate::state::jobs::drafts::DraftJob;
use baton_core::handoffs::draft::DraftRequest;
use baton_core::plan::DueHandoff;
use baton_core::record::{Handoff, HandoffOrigin};

/// Begins the draft of an automatic handoff. Returns `None` if another draft is open.
pub(in crate::exchange) fn automatic_job(exchange: &Exchange, due: DueHandoff) -> Option<DraftJob> {
    let live = exchange.offered.live.as_ref()?;
    let request = DraftRequest {
        reason: Some(due.reason),
        method: due.method,
        ..DraftRequest::automatic()
    };
    let drafting = &exchange.app.drafting;
    let begun = drafting
        .begin(live.key(), live.principal(), request.into())
        .ok()?;
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
    let Some(directory) = directory
        .clone()
        .filter(|_| handoff.origin == HandoffOrigin::Auto)
    else {
        return;
    };
    let text = format!("{}\n", app.redactor.text(&handoff.prompt).trim_end());
    let (place, drafting) = ((directory, handoff.created_ms), Arc::clone(&app.drafting));
    let saved = move |path| drafting.saved(draft, path);
    saved_prompts::keep(place, text, exchange.ctx.id.clone(), saved);
}
