//! Answers commands in the chat. Nothing goes upstream, and neither the command nor its answer is ever in the model's view.

mod chat_commands;
mod hand_over;
mod pins;
mod reply;
mod resume;
mod undo;

use http::Response;

use self::chat_commands::ChatCommands;
use self::hand_over::{HandoffTrigger, NONE_WAITS};
use self::pins::{pin, pins_listed, unpin};
use self::reply::CommandReply;
use self::resume::shown;
pub(super) use self::undo::UndoSubject;
use super::Exchange;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::jobs::drafts::{DecisionFailure, DraftState};
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::commands::{ChatCommand, help, parse};
use baton_core::handoffs::draft::{DraftRequest, FLAGS};
use baton_core::limits::BYTES_PER_TOKEN;

/// A command that is answered with a reply alone.
enum ReplyCommand<'t> {
    Help(Option<&'t str>),
    Status,
    Pins,
    Pin(&'t str),
    Unpin(&'t str),
    Undo(Option<&'t str>),
    Resume(&'t str),
    Cancel,
    Reject,
}

/// What a command does.
enum CommandStep<'t> {
    Reply(ReplyCommand<'t>),
    HandOver(HandoffTrigger),
    /// The command's words cannot be read, for this reason.
    Unreadable(String),
}

impl<'t> CommandStep<'t> {
    fn of(command: ChatCommand<'t>, prefix: &str) -> Self {
        Self::Reply(match command {
            ChatCommand::HandOver(words) => {
                return match DraftRequest::parse(words) {
                    Ok(request) => Self::HandOver(HandoffTrigger::Draft(request)),
                    Err(bad) => Self::Unreadable(format!("{bad}.\n\n    {prefix}handoff {FLAGS}")),
                };
            }
            ChatCommand::Accept(edited) => {
                return Self::HandOver(HandoffTrigger::Approval(edited.map(str::to_owned)));
            }
            ChatCommand::Help => ReplyCommand::Help(None),
            ChatCommand::Unknown(word) => ReplyCommand::Help(Some(word)),
            ChatCommand::Status => ReplyCommand::Status,
            ChatCommand::Pins => ReplyCommand::Pins,
            ChatCommand::Pin(text) => ReplyCommand::Pin(text),
            ChatCommand::Unpin(number) => ReplyCommand::Unpin(number),
            ChatCommand::Undo(id) => ReplyCommand::Undo(id),
            ChatCommand::Resume(id) => ReplyCommand::Resume(id),
            ChatCommand::Cancel => ReplyCommand::Cancel,
            ChatCommand::Reject => ReplyCommand::Reject,
        })
    }
}

/// Answers the command that the request's last text is.
pub(super) async fn answer(exchange: Exchange) -> Response<ResponseBody> {
    let text = exchange.offered.pin.command.clone().unwrap_or_default();
    let app = exchange.app.clone();
    let prefix = app.config.commands.prefix.as_str();
    let Some(command) = parse(&text, prefix) else {
        return exchange.begin().await;
    };
    let reply = match CommandStep::of(command, prefix) {
        CommandStep::HandOver(trigger) => return hand_over::answer(exchange, trigger).await,
        CommandStep::Unreadable(why) => CommandReply::new(why),
        CommandStep::Reply(command) => match ChatCommands::of(&exchange).run(command, prefix).await {
            Ok(reply) => {
                tracing::info!(exchange = exchange.ctx.id, "a command was answered");
                reply
            }
            Err(error) => {
                tracing::error!(exchange = exchange.ctx.id, %error, "a command cannot be answered");
                return exchange.ctx.refuse(Fault::from(Code::STORE));
            }
        },
    };
    exchange.reply(&reply).await
}

impl ChatCommands<'_> {
    /// Does what the command says. What it changes is written when this returns.
    async fn run(&self, command: ReplyCommand<'_>, prefix: &str) -> Result<CommandReply, StoreError> {
        let live = self.offered.agent.live()?;
        let reply = match command {
            ReplyCommand::Help(unknown) => CommandReply::new(help(prefix, unknown)),
            ReplyCommand::Status => self.status(live).await?,
            ReplyCommand::Pins => CommandReply::new(pins_listed(&live.pins(), prefix)),
            ReplyCommand::Pin(text) => pin(&live.pins(), text, prefix),
            ReplyCommand::Unpin(number) => unpin(&live.pins(), number, prefix),
            ReplyCommand::Undo(id) => {
                let subject = UndoSubject {
                    app: self.app,
                    ctx: self.ctx,
                    agent: &self.offered.agent,
                    pin: &self.offered.pin,
                };
                subject.undo(id).await?
            }
            ReplyCommand::Resume(id) => self.resume(id).await?,
            ReplyCommand::Cancel => self.cancel(live).await?,
            ReplyCommand::Reject => self.reject(live).await?,
        };
        let (pinned, unpinned) = (reply.pinned.clone(), reply.unpinned.clone());
        let now_ms = self.app.clock.now_ms();
        self.app.sessions.command(live, pinned, unpinned, now_ms).await?;
        Ok(reply)
    }

    /// A person rejects the draft that waits.
    async fn reject(&self, live: &LiveConversation) -> Result<CommandReply, StoreError> {
        let open = self.restored_draft(live).await?;
        let store = self.app.sessions.store();
        let rejected = match open {
            Some(draft) => done(self.app.drafting.reject_in(store, draft.id).await)?,
            None => false,
        };
        Ok(CommandReply::new(match rejected {
            true => "the draft was rejected, and nothing was changed.",
            false => NONE_WAITS,
        }))
    }

    async fn cancel(&self, live: &LiveConversation) -> Result<CommandReply, StoreError> {
        let open = self.restored_draft(live).await?;
        let store = self.app.sessions.store();
        let cancelled = match open {
            Some(draft) => done(self.app.drafting.cancel_in(store, draft.id).await)?,
            None => false,
        };
        Ok(CommandReply::new(match cancelled {
            true => "the handoff that was being written is not made.",
            false => "no handoff is being written.",
        }))
    }

    async fn status(&self, live: &LiveConversation) -> Result<CommandReply, StoreError> {
        let offered = &self.offered;
        let tokens = offered.agent.request.len() as u64 / BYTES_PER_TOKEN;
        let sees = match &offered.pin.active {
            Some(active) => {
                let handoff = self.app.sessions.handoff(&self.ctx.principal, active.id).await?;
                let about = handoff.map(|h| shown(&h)).unwrap_or_default();
                let sent = baton_core::text::splice::len(&offered.first(self.app, offered.offer.tooled).rope);
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
        let draft = match self.restored_draft(live).await? {
            Some(draft) => format!("\n    {} ({}).", draft_state(draft.state), draft.id),
            None => String::new(),
        };
        Ok(CommandReply::new(format!("{sees}{tool}\n    {pins}{draft}")))
    }
}

/// Whether a decision was carried out; one that is refused changes nothing.
fn done<T>(decision: Result<T, DecisionFailure>) -> Result<bool, StoreError> {
    match decision {
        Ok(_) => Ok(true),
        Err(DecisionFailure::Refused(_)) => Ok(false),
        Err(DecisionFailure::Store(error)) => Err(error),
    }
}

/// How far a conversation's open draft is.
fn draft_state(state: DraftState) -> &'static str {
    match state {
        DraftState::Requested => "A handoff was asked for; it is made with the next request",
        DraftState::Review => "A draft waits for your yes",
        DraftState::Accepted => "An accepted draft takes effect with the next request",
        _ => "A handoff is being written",
    }
}
