//! Answers commands in the chat. Nothing goes upstream, and neither the command nor its answer is ever in the model's view.

mod hand_over;
mod pins;
mod reply;
mod resume;
mod topic;
mod undo;

use http::Response;

use self::hand_over::{HandoffTrigger, NONE_WAITS, restored_draft};
use self::pins::{CarriedTexts, pin, pins_listed, unpin};
use self::reply::{CommandReply, unanswered};
use self::resume::{resume, shown};
use self::topic::topic;
use self::undo::UndoSubject;
use super::Exchange;
use super::{record_writer, topic::note_topic};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::jobs::drafts::{DecisionFailure, DraftState};
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::commands::{ChatCommand, help, parse};
use baton_core::handoffs::carry::Receipt;
use baton_core::handoffs::draft::{DraftRequest, FLAGS};
use baton_core::limits::BYTES_PER_TOKEN;

/// Things that were looked up again, as many as the status names.
const SHOWN_LOOKUPS: usize = 5;

/// The outcome of a command.
enum CommandStep {
    Reply(CommandReply),
    HandOver(HandoffTrigger),
}

/// Answers a command: the request's last text.
pub(super) async fn answer(exchange: Exchange, text: String) -> Response<ResponseBody> {
    let app = exchange.app.clone();
    let prefix = app.config.commands.prefix.as_str();
    let Some(command) = parse(&text, prefix) else {
        return exchange.begin().await;
    };
    match step(&exchange, command, prefix).await {
        Ok(CommandStep::HandOver(trigger)) => hand_over::answer(exchange, trigger).await,
        Ok(CommandStep::Reply(reply)) => {
            tracing::info!(exchange = exchange.ctx.id, "a command was answered");
            exchange.reply(&reply).await
        }
        Err(error) => unanswered(&exchange, &error),
    }
}

/// Does what the command says. What it changes is written when this returns; a handoff is still to be made.
async fn step(
    exchange: &Exchange,
    command: ChatCommand<'_>,
    prefix: &str,
) -> Result<CommandStep, StoreError> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let live = || offered.agent.live();
    let reply = match command {
        ChatCommand::HandOver(words) => match DraftRequest::parse(words) {
            Ok(request) => return Ok(CommandStep::HandOver(HandoffTrigger::Draft(request))),
            Err(bad) => CommandReply::new(format!("{bad}.\n\n    {prefix}handoff {FLAGS}")),
        },
        ChatCommand::Accept(edited) => {
            let trigger = HandoffTrigger::Approval(edited.map(str::to_owned));
            return Ok(CommandStep::HandOver(trigger));
        }
        ChatCommand::Help => CommandReply::new(help(prefix, None)),
        ChatCommand::Unknown(word) => CommandReply::new(help(prefix, Some(word))),
        ChatCommand::Status => status(exchange, live()?).await?,
        ChatCommand::Pins => CommandReply::new(pins_listed(&CarriedTexts::of(exchange, live()?), prefix)),
        ChatCommand::Pin(text) => pin(&live()?.pins(), text, prefix),
        ChatCommand::Unpin(number) => unpin(&CarriedTexts::of(exchange, live()?), number, prefix),
        ChatCommand::Topic(name) => topic(ctx, live()?, name, prefix),
        ChatCommand::Undo(id) => {
            let subject = UndoSubject {
                app,
                ctx,
                agent: &offered.agent,
                pin: &offered.pin,
            };
            subject.undo(id).await?
        }
        ChatCommand::Resume(id) => resume(exchange, id).await?,
        ChatCommand::Cancel => {
            let cancelled = match restored_draft(exchange).await? {
                Some(draft) => is_done(app.drafting.cancel_in(app.sessions.store(), draft.id).await)?,
                None => false,
            };
            CommandReply::new(match cancelled {
                true => "the handoff that was being written was cancelled.",
                false => "no handoff is being written.",
            })
        }
        ChatCommand::Reject => {
            let rejected = match restored_draft(exchange).await? {
                Some(draft) => is_done(app.drafting.reject_in(app.sessions.store(), draft.id).await)?,
                None => false,
            };
            CommandReply::new(match rejected {
                true => "the draft was rejected, and nothing was changed.",
                false => NONE_WAITS,
            })
        }
    };
    let (change, now_ms) = (reply.change.clone(), app.clock.now_ms());
    app.sessions.command(live()?, change, now_ms).await?;
    note_topic(ctx, live()?);
    Ok(CommandStep::Reply(reply))
}

async fn status(exchange: &Exchange, live: &LiveConversation) -> Result<CommandReply, StoreError> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let tokens = offered.agent.request.len() as u64 / BYTES_PER_TOKEN;
    let sees = match &offered.pin.active {
        Some(active) => {
            let handoff = app.sessions.handoff(&ctx.principal, active.id).await?;
            let about = handoff.map(|h| shown(&h)).unwrap_or_default();
            let sent = baton_core::text::splice::len(&offered.plan(app).first(offered.offer.tooled).rope);
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
    let carried = carried_lines(exchange, live).await?;
    let draft = match restored_draft(exchange).await? {
        Some(draft) => format!("\n    {} ({}).", draft_state(draft.state), draft.id),
        None => String::new(),
    };
    Ok(CommandReply::new(format!(
        "{sees}{tool}\n    {pins}{carried}{draft}"
    )))
}

/// What the active handoff carried, and what was looked up again since: a line each.
async fn carried_lines(exchange: &Exchange, live: &LiveConversation) -> Result<String, StoreError> {
    let Exchange { app, offered, .. } = exchange;
    let active = offered.active_id().and_then(|id| app.sessions.known_handoff(id));
    let Some(active) = active else {
        return Ok(String::new());
    };
    let receipt = Receipt::of(&active.carried).line();
    let receipt = receipt.map(|receipt| format!("\n    Your rules, and open to-dos: {receipt}."));
    let pairs = app.sessions.pairs_of(live).await?;
    let again = record_writer::work(exchange, false).looked_up_again(active.id, &pairs);
    let again = first_of("Looked up again since", &again.unwrap_or_default());
    Ok(receipt.into_iter().chain(again).collect())
}

/// A line with the first things of a list; `None` where it is empty.
fn first_of(what: &str, all: &[String]) -> Option<String> {
    let more = match all.len().saturating_sub(SHOWN_LOOKUPS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = all.iter().take(SHOWN_LOOKUPS).cloned().collect::<Vec<_>>();
    (!all.is_empty()).then(|| format!("\n    {what}: {}{more}.", first.join(", ")))
}

/// Whether a decision was carried out; one that is refused changes nothing.
fn is_done<T>(decision: Result<T, DecisionFailure>) -> Result<bool, StoreError> {
    match decision {
        Ok(_) => Ok(true),
        Err(DecisionFailure::Refused(_)) => Ok(false),
        Err(DecisionFailure::Store(error)) => Err(error),
    }
}

/// How far a conversation's open draft is.
fn draft_state(state: DraftState) -> &'static str {
    match state {
        DraftState::Requested => "A handoff was requested; it is made with the next request",
        DraftState::Review => "A draft waits for your approval",
        DraftState::Accepted => "An accepted draft takes effect with the next request",
        _ => "A handoff is being written",
    }
}
