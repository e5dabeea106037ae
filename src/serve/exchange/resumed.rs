//! A person goes on from a handoff: its packet is active again, and what has moved in the repository since is told in a line, to
//! the person and to the model.

use std::sync::Arc;
use std::time::Duration;

use super::{Exchange, is_model_call};
use crate::state::files::documents::{self, DriftReport};
use crate::state::store::SharedStore;
use baton_core::handoffs::yaml::Drift;
use baton_core::record::{HandoffId, HandoffStatus};
use baton_core::rewrite::insertions;

/// Time for git.
const LIMIT: Duration = Duration::from_secs(2);

impl Exchange {
    /// What the person is told who resumes a handoff by a command, behind what else is said. The model is told with its next
    /// request.
    pub(super) async fn resumed_by_command(&self, handoff: HandoffId) -> String {
        let mut told = String::new();
        let (store, principal) = (self.app.sessions.store(), &self.ctx.principal);
        if self.app.packets.is_on() {
            match documents::set_status(store, principal, handoff, HandoffStatus::Active).await {
                Ok(Some(changed)) if changed.before != HandoffStatus::Active => {
                    told = format!(" The handoff was {}; it is active again.", changed.before.name());
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(exchange = self.ctx.id, %handoff, %error, "packet not made active");
                }
            }
        }
        let Some(dir) = self.app.config.repository() else {
            return told;
        };
        if let Some(drift) = drift(store, principal, handoff, dir.to_owned()).await {
            told = format!("{told}\n\n{}.", drift.line());
            if let Some(live) = &self.offered.agent.live {
                live.set_notice(handoff, for_the_model(&drift));
            }
        }
        told
    }

    /// Whether a handoff was resumed, or the model is to be told of one: a look at two flags, for every request.
    pub(super) fn is_resumed(&self) -> bool {
        self.offered.pin.resumed
            || self
                .offered
                .agent
                .live
                .as_ref()
                .is_some_and(|live| live.has_notice())
    }

    /// Tells the model what has moved since the handoff that a person resumed. After a person's line that is found out beside
    /// the request, which has no place for it, and told with a later one.
    pub(super) async fn tell_drift(&mut self) {
        let active = self.offered.pin.active.as_ref().map(|active| active.id);
        let (Some(active), Some(live)) = (active, self.offered.agent.live.clone()) else {
            return;
        };
        if self.offered.pin.resumed {
            if let Some(dir) = self.app.config.repository().map(ToOwned::to_owned) {
                let (app, principal) = (Arc::clone(&self.app), self.ctx.principal.clone());
                tokio::spawn(async move {
                    let drift = drift(app.sessions.store(), &principal, active, dir).await;
                    if let Some(drift) = drift {
                        tracing::info!(handoff = %active, "resumed: {}", drift.line());
                        live.set_notice(active, for_the_model(&drift));
                    }
                });
            }
            return;
        }
        let last = insertions::last(self.offered.agent.request.view());
        let has_place = last.is_some_and(|turn| turn >= self.kept_from());
        if !is_model_call(self.ctx.endpoint) || self.offered.agent.side_call || !has_place {
            return;
        }
        let Some(text) = live.take_notice(active) else {
            return;
        };
        match self.insert_behind(&text).await {
            Ok(true) => {}
            Ok(false) => live.set_notice(active, text),
            Err(error) => {
                tracing::error!(exchange = self.ctx.id, %error, "what has moved since was not written: not sent");
            }
        }
    }
}

/// The packet of a handoff, compared with the repository; `None` without one.
async fn drift(
    store: &SharedStore,
    principal: &str,
    handoff: HandoffId,
    dir: std::path::PathBuf,
) -> Option<Drift> {
    match documents::compare_with_repository(store, principal, handoff, Some(dir), LIMIT).await {
        Ok(Some(DriftReport {
            drift,
            repository: true,
        })) => Some(drift),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%handoff, %error, "not compared with the repository");
            None
        }
    }
}

/// One line for the model, which is asked to pass it on where something has moved.
fn for_the_model(drift: &Drift) -> String {
    let then = match drift.is_drift() {
        true => {
            " Look at these again before you rely on what the handoff says of them, and tell the user in one line."
        }
        false => "",
    };
    format!(
        "<since-handoff>\nThis comes from the session's proxy, not from the user. The handoff was compared with the repository. {}.{then}\n\
         </since-handoff>",
        drift.line()
    )
}
