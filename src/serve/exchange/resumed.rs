//! A person resumes a handoff: it is active again. A line for the person and the model states what has changed in the
//! repository since.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::context;
use super::request::Offered;
use super::value::Exchange;
use crate::state::files::documents;
use crate::state::store::SharedStore;
use baton_core::handoffs::yaml::Drift;
use baton_core::plan::is_model_call;
use baton_core::record::{HandoffId, HandoffStatus};

/// Time for git.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes the handoff that a person resumes by a command active again. Returns what the answer states of that and of the
/// repository. The model is notified with its next request.
pub(super) async fn resume(exchange: &Exchange, handoff: HandoffId) -> String {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let mut text = String::new();
    let (store, principal) = (app.sessions.store(), &ctx.principal);
    if app.documents.is_on() {
        match documents::set_status(store, principal, handoff, HandoffStatus::Active).await {
            Ok(Some(changed)) if changed.before != HandoffStatus::Active => {
                text = format!(" The handoff was {}; it is active again.", changed.before.name());
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(exchange = ctx.id, %handoff, %error, "document not made active");
            }
        }
    }
    let Some(dir) = app.config.repository() else {
        return text;
    };
    if let Some(drift) = drift(store, principal, handoff, dir.to_owned()).await {
        text = format!("{text}\n\n{}.", drift.line());
        if let Some(live) = &offered.agent.live {
            live.set_notice(handoff, drift.for_the_model());
        }
    }
    text
}

/// Whether a handoff was resumed, or a notice for the model is pending: two flags are read, for every request.
pub(super) fn is_resumed(offered: &Offered) -> bool {
    let live = offered.agent.live.as_ref();
    offered.pin.resumed || live.is_some_and(|live| live.has_notice())
}

/// Notifies the model of what has moved since the handoff that a person resumed. With a person's line the repository is
/// compared while the request runs, and a later request has the notice.
pub(super) async fn notify(exchange: &mut Exchange) {
    let Exchange {
        app, ctx, offered, ..
    } = &*exchange;
    let (Some(active), Some(live)) = (offered.active_id(), offered.agent.live.clone()) else {
        return;
    };
    if offered.pin.resumed {
        if let Some(dir) = app.config.repository().map(ToOwned::to_owned) {
            let (app, principal) = (Arc::clone(app), ctx.principal.clone());
            tokio::spawn(async move {
                let drift = drift(app.sessions.store(), &principal, active, dir).await;
                if let Some(drift) = drift {
                    tracing::info!(handoff = %active, "resumed: {}", drift.line());
                    live.set_notice(active, drift.for_the_model());
                }
            });
        }
        return;
    }
    if !is_model_call(ctx.operation) || offered.agent.call.side_call {
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
async fn drift(store: &SharedStore, principal: &str, handoff: HandoffId, dir: PathBuf) -> Option<Drift> {
    let compared = documents::compare_with_repository(store, principal, handoff, Some(dir), LIMIT).await;
    let report = compared
        .inspect_err(|error| tracing::warn!(%handoff, %error, "not compared with the repository"))
        .ok()??;
    report.repository.then_some(report.drift)
}
