//! Handoffs that a user resumes, which makes them active again.
//!
//! One line tells the user and the model how the repository has changed since.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::context;
use super::request::PlannedExchange;
use super::value::Exchange;
use crate::app::App;
use crate::state::files::documents;
use baton_core::handoffs::yaml::Drift;
use baton_core::plan::is_model_call;
use baton_core::record::HandoffId;

/// Timeout for git.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether a handoff was resumed, or a notice for the model is pending. Cheap, because every request needs it.
pub(super) fn is_resumed(offered: &PlannedExchange) -> bool {
    let live = offered.live.as_ref();
    offered.pin.resumed || live.is_some_and(|live| live.has_notice())
}

/// Notifies the model of changes since the handoff that a user resumed.
///
/// The request with the user's resume line only starts the comparison with the repository, and a later
/// request has the notice.
pub(super) async fn notify(exchange: &mut Exchange) {
    let (app, ctx, offered) = (&exchange.app, &exchange.ctx, &exchange.offered);
    let (Some(active), Some(live)) = (offered.active_id(), offered.live.clone()) else {
        return;
    };
    if offered.pin.resumed {
        let (app, principal) = (Arc::clone(app), ctx.principal.clone());
        // The request must not wait for git.
        tokio::spawn(async move {
            if let Some(drift) = drift(&app, &principal, active).await {
                tracing::info!(handoff = %active, "resumed: {}", drift.line());
                live.set_notice(active, drift.for_the_model());
            }
        });
        return;
    }
    if !is_model_call(ctx.operation) || offered.call.side_call {
        return;
    }
    let Some(text) = live.take_notice(active) else {
        return;
    };
    match context::append(exchange, &text).await {
        Ok(true) => {}
        // This request has no room for the notice, so a later one gets it.
        Ok(false) => live.set_notice(active, text),
        Err(error) => {
            tracing::error!(exchange = exchange.ctx.id, %error, "failed to store the notice of changes; sending the request without it");
        }
    }
}

/// Compares the document of a handoff with the repository. Returns `None` without a document.
pub(super) async fn drift(app: &App, principal: &str, handoff: HandoffId) -> Option<Drift> {
    let dir = app.config.repository().map(Path::to_owned);
    let store = app.sessions.store();
    let compared = documents::compare_with_repository(store, principal, handoff, dir, LIMIT).await;
    let drift = compared
        .inspect_err(|error| tracing::warn!(%handoff, %error, "failed to compare the handoff with the repository; reporting no changes"))
        .ok()??;
    drift.compared.then_some(drift)
}
