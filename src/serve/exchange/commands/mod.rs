//! Answers commands in the chat. Nothing goes upstream, and neither the command nor its answer is ever in the model's view.

mod hand_over;
mod pins;
mod resume;
mod said;
mod undo;

use std::sync::Arc;

use http::Response;

use self::hand_over::{Asked, NONE_WAITS};
use self::pins::{pin, pins_told, unpin};
use self::resume::shown;
pub(super) use self::said::Said;
pub(super) use self::undo::UndoSubject;
use super::Exchange;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::jobs::drafts::DraftState;
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::commands::{ChatCommand, help, parse};
use baton_core::handoffs::draft::{DraftRequest, FLAGS};
use baton_core::limits::BYTES_PER_TOKEN;

impl Exchange {
    /// Answers the command that the request's last text is.
    pub(super) async fn answer_command(self) -> Response<ResponseBody> {
        let offered = Arc::clone(&self.offered);
        let text = offered.pin.command.as_deref().unwrap_or_default();
        let app = Arc::clone(&self.app);
        let prefix = app.config.commands.prefix.as_str();
        let Some(command) = parse(text, prefix) else {
            return self.begin().await;
        };
        match command {
            ChatCommand::HandOver(asked) => match DraftRequest::parse(asked) {
                Ok(ask) => return self.hand_over_now(Asked::Draft(ask)).await,
                Err(bad) => {
                    let said = Said::new(format!("{bad}.\n\n    {prefix}handoff {FLAGS}"));
                    return self.say_noted(&said).await;
                }
            },
            ChatCommand::Accept(edited) => {
                let edited = edited.map(str::to_owned);
                return self.hand_over_now(Asked::Accept(edited)).await;
            }
            _ => {}
        }
        match self.command(command, prefix).await {
            Ok(said) => {
                tracing::info!(exchange = self.ctx.id, "a command was answered");
                self.say_noted(&said).await
            }
            Err(error) => {
                tracing::error!(exchange = self.ctx.id, %error, "a command cannot be answered");
                self.ctx.refuse(Fault::from(Code::STORE))
            }
        }
    }

    /// Does what is asked. What it changes is written when this returns.
    async fn command(&self, command: ChatCommand<'_>, prefix: &str) -> Result<Said, StoreError> {
        let live = self.live()?;
        if matches!(
            command,
            ChatCommand::Status | ChatCommand::Cancel | ChatCommand::Reject
        ) {
            self.restored_draft(live).await?;
        }
        let said = match command {
            ChatCommand::Help => Said::new(help(prefix, None)),
            ChatCommand::Unknown(word) => Said::new(help(prefix, Some(word))),
            ChatCommand::Status => self.status(live).await?,
            ChatCommand::Pins => Said::new(pins_told(&live.pins(), prefix)),
            ChatCommand::Pin(text) => pin(&live.pins(), text, prefix),
            ChatCommand::Unpin(number) => unpin(&live.pins(), number, prefix),
            ChatCommand::Undo(id) => self.undo(id).await?,
            ChatCommand::Resume(id) => self.resume(id).await?,
            ChatCommand::Cancel => self.cancelled(live).await?,
            ChatCommand::Reject => self.rejected(live).await?,
            // Answered where it is written.
            ChatCommand::HandOver(_) | ChatCommand::Accept(_) => Said::new(help(prefix, None)),
        };
        let (pinned, unpinned) = (said.pinned.clone(), said.unpinned.clone());
        self.app
            .sessions
            .command(live, pinned, unpinned, self.app.clock.now_ms())
            .await?;
        Ok(said)
    }

    /// A person says no to the draft that waits.
    async fn rejected(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let drafting = &self.app.drafting;
        let open = drafting.open_in(live.key());
        let Some(draft) = open.and_then(|draft| drafting.reject(draft.id).ok()) else {
            return Ok(Said::new(NONE_WAITS));
        };
        let store = self.app.sessions.store();
        store.archive(&self.ctx.principal, draft.id, true).await?;
        Ok(Said::new("the draft was rejected, and nothing was changed."))
    }

    async fn cancelled(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let drafting = &self.app.drafting;
        let open = drafting.open_in(live.key());
        let Some(draft) = open.filter(|draft| drafting.cancel(draft.id).is_ok()) else {
            return Ok(Said::new("no handoff is being written."));
        };
        if draft.is_for_review() {
            let store = self.app.sessions.store();
            store.archive(&self.ctx.principal, draft.id, true).await?;
        }
        Ok(Said::new("the handoff that was being written is not made."))
    }

    async fn status(&self, live: &LiveConversation) -> Result<Said, StoreError> {
        let offered = &self.offered;
        let tokens = offered.agent.request.len() as u64 / BYTES_PER_TOKEN;
        let sees = match &offered.pin.active {
            Some(active) => {
                let handoff = self.app.sessions.handoff(&self.ctx.principal, active.id).await?;
                let about = handoff.map(|h| shown(&h)).unwrap_or_default();
                let sent =
                    baton_core::text::splice::len(&offered.first(&self.app, offered.offer.tooled).rope);
                format!(
                    "the model sees the handoff {}{about} and what came after it, about {} tokens of the {tokens} that the \
                     agent sends.",
                    active.id,
                    sent as u64 / BYTES_PER_TOKEN
                )
            }
            None => format!("the model sees the whole history, about {tokens} tokens."),
        };
        let tool = match offered.offer.untooled {
            None => "\n\n    It may hand over by itself.".to_owned(),
            Some(why) => format!("\n\n    It cannot hand over by itself here: {}.", why.name()),
        };
        let pins = match live.pins().len() {
            0 => "Nothing is pinned.".to_owned(),
            1 => "One text is pinned.".to_owned(),
            many => format!("{many} texts are pinned."),
        };
        let draft = match self.app.drafting.open_in(live.key()) {
            Some(draft) => format!("\n    {} ({}).", drafted(draft.state), draft.id),
            None => String::new(),
        };
        Ok(Said::new(format!("{sees}{tool}\n    {pins}{draft}")))
    }
}

/// How far a conversation's open draft is.
fn drafted(state: DraftState) -> &'static str {
    match state {
        DraftState::Requested => "A handoff was asked for; it is made with the next request",
        DraftState::Review => "A draft waits for your yes",
        DraftState::Accepted => "An accepted draft takes effect with the next request",
        _ => "A handoff is being written",
    }
}
