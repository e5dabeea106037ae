//! A user resumes a handoff: it is active again. A line for the user and the model states what has changed in the
//! repository since.

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

/// Time for git.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether a handoff was resumed, or a notice for the model is pending: two flags are read, for every request.
pub(super) fn is_resumed(offered: &PlannedExchange) -> bool {
    let live = offered.live.as_ref();
    offered.pin.resumed || live.is_some_and(|live| live.has_notice())
}

/// Notifies the model of what has moved since the handoff that a user resumed. With a user's line the repository is
/// compared while the request runs, and a later request has the notice.
pub(super) async fn notify(exchange: &mut Exchange) {
    let Exchange {
        app, ctx, offered, ..
    } = &*exchange;
    let (Some(active), Some(live)) = (offered.active_id(), offered.live.clone()) else {
        return;
    };
    if offered.pin.resumed {
        let (app, principal) = (Arc::clone(app), ctx.principal.clone());
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
        Ok(false) => live.set_notice(active, text),
        Err(error) => {
            tracing::error!(exchange = exchange.ctx.id, %error, "the notice of changes was not written: not sent");
        }
    }
}

/// The document of a handoff, compared with the repository; `None` without one.
pub(super) async fn drift(app: &App, principal: &str, handoff: HandoffId) -> Option<Drift> {
    let dir = app.config.repository()?.to_owned();
    let store = app.sessions.store();
    let compared = documents::compare_with_repository(store, principal, handoff, Some(dir), LIMIT).await;
    let drift = compared
        .inspect_err(|error| tracing::warn!(%handoff, %error, "not compared with the repository"))
        .ok()??;
    drift.compared.then_some(drift)
}
