//! A person resumes a handoff: it is active again. A line for the person and the model states what has changed in the
//! repository since.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::context;
use super::request::Offered;
use super::value::Exchange;
use crate::state::files::documents;
use crate::state::store::{SharedStore, StoreError};
use baton_core::commands::CommandReply;
use baton_core::handoffs::yaml::Drift;
use baton_core::mark::pasted;
use baton_core::plan::is_model_call;
use baton_core::record::{HandoffId, HandoffStatus};

/// Time for git.
const LIMIT: Duration = Duration::from_secs(2);

/// Continues after the handoff that a person names by a command, which makes it active again. The model is notified of what has
/// changed in the repository with its next request.
pub(super) async fn resume(exchange: &Exchange, id: &str) -> Result<CommandReply, StoreError> {
    let Exchange { app, ctx, .. } = exchange;
    let (store, principal) = (app.sessions.store(), &ctx.principal);
    let found = match pasted::id_range(id) {
        Some(ids) => app.sessions.between(principal, ids).await?,
        None => Vec::new(),
    };
    let handoff = match found[..] {
        [only] => app.sessions.handoff(principal, only).await?,
        [] => None,
        _ => {
            return Ok(CommandReply::new(
                "more than one handoff has an id that begins like this: give more of it.",
            ));
        }
    };
    let Some(handoff) = handoff else {
        return Ok(CommandReply::new(
            "this handoff is not known here. `baton handoffs list` shows the handoffs of this store; give the id, or at \
             least its first 13 characters.",
        ));
    };
    let (id, about) = (handoff.id, handoff.about());
    let mut text = format!("from here on the model knows the handoff {id}{about}.");
    if app.documents.is_on() {
        match documents::set_status(store, principal, id, HandoffStatus::Active).await {
            Ok(Some(changed)) if changed.before != HandoffStatus::Active => {
                text += &format!(" The handoff was {}; it is active again.", changed.before.name());
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(exchange = ctx.id, handoff = %id, %error, "document not made active");
            }
        }
    }
    if let Some(dir) = app.config.repository()
        && let Some(drift) = drift(store, principal, id, dir.to_owned()).await
    {
        text += &format!("\n\n{}.", drift.line());
        if let Some(live) = &exchange.offered.live {
            live.set_notice(id, drift.for_the_model());
        }
    }
    Ok(CommandReply::of_handoff(&text, id, exchange.sentinel(&handoff)))
}

/// Whether a handoff was resumed, or a notice for the model is pending: two flags are read, for every request.
pub(super) fn is_resumed(offered: &Offered) -> bool {
    let live = offered.live.as_ref();
    offered.pin.resumed || live.is_some_and(|live| live.has_notice())
}

/// Notifies the model of what has moved since the handoff that a person resumed. With a person's line the repository is
/// compared while the request runs, and a later request has the notice.
pub(super) async fn notify(exchange: &mut Exchange) {
    let Exchange {
        app, ctx, offered, ..
    } = &*exchange;
    let (Some(active), Some(live)) = (offered.active_id(), offered.live.clone()) else {
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
async fn drift(store: &SharedStore, principal: &str, handoff: HandoffId, dir: PathBuf) -> Option<Drift> {
    let compared = documents::compare_with_repository(store, principal, handoff, Some(dir), LIMIT).await;
    let report = compared
        .inspect_err(|error| tracing::warn!(%handoff, %error, "not compared with the repository"))
        .ok()??;
    report.repository.then_some(report.drift)
}
