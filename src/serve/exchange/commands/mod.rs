//! Answers chat commands. Nothing goes upstream, and the model sees neither a command nor its answer.

mod hand_over;

use std::time::Duration;

use uuid::Uuid;

use self::hand_over::{HandoffTrigger, NONE_WAITS, restored_draft};
use super::brake::{self, BrakeAnswer};
use super::context::window_of;
use super::local_answer::unanswered;
use super::resumed::drift;
use super::value::Exchange;
use crate::proxy::response_body::AgentResponse;
use crate::state::files::documents;
use crate::state::jobs::drafts::DecisionFailure;
use crate::state::session::{LiveConversation, Reader};
use crate::state::store::{StoreResult, write_failure};
use baton_core::commands::{
    CarriedTexts, ChatCommand, CommandReply, Status, help, misused, parse, pin, pins_listed, topic, unknown,
    unpin,
};
use baton_core::handoffs::carry::Receipt;
use baton_core::handoffs::draft::{DraftRequest, FLAGS};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::plan::{Known, Records, UndoQuery, handoff_to_resume, resumed_text};
use baton_core::record::{HandoffId, HandoffStatus};
use baton_core::response::AnswerOpening;
use baton_core::rewrite::untooled::ToolOmission;

/// Maximum wait of an undo for the document of the handoff.
const DOCUMENT_WAIT: Duration = Duration::from_secs(2);

/// Outcome of a command.
pub(super) enum CommandStep {
    Reply(CommandReply),
    HandOver(HandoffTrigger),
    /// The agent may continue. This is the reply if the request has nothing to send to the model.
    GoOn(CommandReply),
}

/// Result of answering a command.
pub(super) enum CommandEnd {
    Answered(Box<AgentResponse>),
    /// The request without the command, which goes to the model.
    ForModel(Exchange),
}

/// Answers the command in the request's last text.
pub(super) async fn answer(exchange: Exchange, text: String) -> CommandEnd {
    let app = exchange.app.clone();
    let prefix = app.config.commands.prefix.as_str();
    // Not a command: the model answers.
    let Some(command) = parse(&text, prefix) else {
        return CommandEnd::Answered(Box::new(exchange.begin().await));
    };
    let response = match step(&exchange, command, prefix).await {
        Ok(CommandStep::HandOver(trigger)) => {
            brake::charge_unchecked(&exchange);
            hand_over::answer(exchange, trigger).await
        }
        Ok(CommandStep::GoOn(reply)) => match hand_over::without_command(&exchange).filter(is_unanswered) {
            Some(mut before) => {
                // The response begins with the reply. The note in it lets later requests drop the command.
                before.opening = AnswerOpening::notice(&reply.text);
                return CommandEnd::ForModel(before);
            }
            None => exchange.reply(&reply).await,
        },
        Ok(CommandStep::Reply(reply)) => {
            tracing::info!(exchange = exchange.ctx.id, "answered a chat command");
            exchange.reply(&reply).await
        }
        Err(error) => unanswered(&exchange, &error),
    };
    CommandEnd::Answered(Box::new(response))
}

/// Whether a transcript ends with something that the model has not answered.
fn is_unanswered(before: &Exchange) -> bool {
    let view = before.offered.view();
    let last = view.last_spoken().and_then(|turn| view.turns.get(turn));
    last.is_some_and(|turn| !turn.role.may_be_models())
}

/// Performs a command.
///
/// Its changes are stored when this returns. A handoff is only requested: the caller makes it.
pub(super) async fn step(
    exchange: &Exchange,
    command: ChatCommand<'_>,
    prefix: &str,
) -> StoreResult<CommandStep> {
    let (app, ctx, offered) = (&exchange.app, &exchange.ctx, &exchange.offered);
    let live = || offered.live();
    let reply = match command {
        ChatCommand::HandOver(words) => match DraftRequest::parse(words) {
            Ok(request) => return Ok(CommandStep::HandOver(HandoffTrigger::Draft(request))),
            Err(bad) => CommandReply::new(format!("{bad}.\n\n    {prefix}handoff {FLAGS}")),
        },
        ChatCommand::Accept(edited) => {
            let trigger = HandoffTrigger::Approval(edited.map(str::to_owned));
            return Ok(CommandStep::HandOver(trigger));
        }
        ChatCommand::Go(words) => match brake::go(exchange, words).await? {
            BrakeAnswer::GoOn(reply) => return Ok(CommandStep::GoOn(reply)),
            BrakeAnswer::Reply(reply) => reply,
        },
        ChatCommand::Stop => brake::stop(exchange).await?,
        ChatCommand::Help => CommandReply::new(help(prefix)),
        ChatCommand::Misused(rest) => CommandReply::new(misused(prefix, rest)),
        ChatCommand::Unknown(word) => CommandReply::new(unknown(prefix, word)),
        ChatCommand::Status => status(exchange, live()?).await?,
        ChatCommand::Pins => CommandReply::new(pins_listed(&carried_texts(exchange, live()?), prefix)),
        ChatCommand::Pin(text) => pin(&live()?.pins(), text, prefix),
        ChatCommand::Unpin(number) => unpin(&carried_texts(exchange, live()?), number, prefix),
        ChatCommand::Topic(name) => {
            let declared = ctx.declared_topic();
            topic(name, live()?.topic(declared).as_deref(), declared, prefix)
        }
        ChatCommand::Undo(id) => undo(exchange, id).await?,
        ChatCommand::Resume(id) => resume(exchange, id).await?,
        ChatCommand::Cancel => {
            let cancel = async |id| app.drafting.cancel_in(app.sessions.store(), id).await;
            CommandReply::new(match decided(exchange, cancel).await? {
                true => "the handoff that was being written was cancelled.",
                false => "no handoff is being written.",
            })
        }
        ChatCommand::Reject => {
            let reject = async |id| app.drafting.reject_in(app.sessions.store(), id).await;
            CommandReply::new(match decided(exchange, reject).await? {
                true => "the draft was rejected, and nothing was changed.",
                false => NONE_WAITS,
            })
        }
    };
    let live = live()?;
    // Written before the reply reports it.
    if let Some(change) = reply.change.clone() {
        app.sessions.change(live, change, app.clock.now_ms()).await?;
    }
    ctx.note_topic(live);
    Ok(CommandStep::Reply(reply))
}

/// Undoes a handoff, or reverts its undo.
async fn undo(exchange: &Exchange, id: Option<&str>) -> StoreResult<CommandReply> {
    let (ctx, plan) = (&exchange.ctx, exchange.plan());
    let window = window_without(exchange, plan.undo_target(id)).await;
    let undo = |records: &Records| {
        plan.undo(&UndoQuery {
            id,
            principal: &ctx.principal,
            records,
            window,
        })
    };
    let mut reply = by_records(exchange, undo).await?;
    ctx.recorder.note(|e| e.undo = reply.undo);
    let undone = (reply.note, HandoffStatus::Undone);
    // After the reversal of an undo this is the same handoff.
    let in_force = (reply.in_force, HandoffStatus::Active);
    for (handoff, status) in [undone, in_force] {
        if let Some(handoff) = handoff
            && let Err(why) = set_status(exchange, handoff, status).await
        {
            reply.text += &why;
        }
    }
    Ok(reply)
}

/// Window of the request's model, for the history before a handoff.
///
/// A history that the provider accepted before the handoff fits, even if the known window is smaller.
async fn window_without(exchange: &Exchange, target: Option<HandoffId>) -> Option<u64> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let model = exchange.offered.view().facts.model.clone().unwrap_or_default();
    let window = window_of(app, ctx, &model)?;
    let Some(target) = target.filter(|_| app.documents.is_on()) else {
        return Some(window);
    };
    // The document of a handoff is written after it, and an undo may follow at once.
    app.documents.flush(DOCUMENT_WAIT).await;
    let record = documents::find(app.sessions.store(), &ctx.principal, target).await;
    let document = record
        .ok()
        .flatten()
        .and_then(|record| documents::document_of(&record));
    let document = document.filter(|document| document.model.as_deref() == Some(&*model));
    let accepted = document
        .and_then(|document| document.context)
        .map(|context| context.used);
    match accepted {
        Some(accepted) if accepted > window => app.config.handoff.windows.holding(&model, accepted),
        _ => Some(window),
    }
}

/// Continues after the handoff that a user names, which makes it active again.
///
/// With the model's next request, a notice lists the changes in the repository.
async fn resume(exchange: &Exchange, id: &str) -> StoreResult<CommandReply> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    let found = by_records(exchange, |records| handoff_to_resume(id, records)).await?;
    let handoff = match found {
        Ok(handoff) => handoff,
        Err(why) => return Ok(CommandReply::new(why)),
    };
    let id = handoff.id;
    let set = set_status(exchange, id, HandoffStatus::Active).await;
    let drift = drift(app, &ctx.principal, id).await;
    if let (Some(drift), Some(live)) = (&drift, &exchange.offered.live) {
        live.set_notice(id, drift.for_the_model());
    }
    let before = set.as_ref().ok().copied().flatten();
    let text = resumed_text(&handoff, before, drift.as_ref()) + &set.err().unwrap_or_default();
    Ok(CommandReply::of_handoff(&text, id, exchange.sentinel(&handoff)))
}

/// Sets the status of a handoff's document. Returns the previous one, or `None` if there is no document.
///
/// # Errors
/// A paragraph for the user: the command takes effect by the transcript, but lists of handoffs show the earlier status.
async fn set_status(
    exchange: &Exchange,
    id: HandoffId,
    status: HandoffStatus,
) -> Result<Option<HandoffStatus>, String> {
    let (app, ctx) = (&exchange.app, &exchange.ctx);
    if !app.documents.is_on() {
        return Ok(None);
    }
    let changed = documents::set_status(app.sessions.store(), &ctx.principal, id, status).await;
    let status = status.name();
    let changed = changed.map_err(|error| {
        tracing::warn!(exchange = ctx.id, handoff = %id, %error, status, "failed to set the status of a document; leaving it unchanged");
        format!(
            "\n\nLists of handoffs do not show it as {status}: the store cannot be written ({}).",
            write_failure(error.is_full)
        )
    })?;
    Ok(changed.map(|changed| changed.before))
}

/// Returns the decision of `decide`. Reads the records that it lacks, and calls it again with them.
async fn by_records<T>(exchange: &Exchange, decide: impl Fn(&Records) -> Known<T>) -> StoreResult<T> {
    let (app, principal) = (&exchange.app, &exchange.ctx.principal);
    let mut reader = Reader::new(&app.sessions, &app.seals, principal, app.clock.now_ms());
    if let Ok(live) = exchange.offered.live() {
        // In its own session a shorter beginning of an id is enough.
        reader = reader.within(live.key());
    }
    loop {
        match decide(&reader.records) {
            Ok(decided) => return Ok(decided),
            Err(needs) => reader.read(needs).await?,
        }
    }
}

/// Pins and rules that later handoffs carry.
fn carried_texts(exchange: &Exchange, live: &LiveConversation) -> CarriedTexts {
    let rules = exchange.carried_rules();
    CarriedTexts {
        pins: live.pins(),
        rules: rules.into_iter().map(|rule| rule.text).collect(),
    }
}

async fn status(exchange: &Exchange, live: &LiveConversation) -> StoreResult<CommandReply> {
    let (app, offered) = (&exchange.app, &exchange.offered);
    let mut status = Status {
        tokens: exchange.conversation_tokens(offered.len()),
        fixed_tokens: offered.view().fixed_bytes() as u64 / BYTES_PER_TOKEN,
        is_stored: offered.view().facts.previous.is_some(),
        untooled: offered.offer.untooled.map(ToolOmission::name),
        pins: live.pins().len(),
        budgets: brake::status(exchange).await?,
        ..Status::default()
    };
    if let Some(id) = offered.active_id().or(exchange.chained_handoff()) {
        let handoff = app.sessions.handoff(&exchange.ctx.principal, id).await?;
        let about = handoff.as_ref().map(|handoff| handoff.about());
        let sent = exchange.conversation_tokens(exchange.view_bytes(None));
        status.sees = Some((id, about.unwrap_or_default(), sent));
        if let Some(active) = handoff {
            status.carried = Receipt::new(&active.carried).line();
            let pairs = app.sessions.pairs_of(live, app.clock.now_ms()).await?;
            let again = exchange.looked_up_again(id, &pairs);
            status.again = again.unwrap_or_default();
        }
    }
    let draft = restored_draft(exchange).await?;
    status.draft = draft.map(|draft| (draft.state.in_words(), draft.id));
    Ok(CommandReply::new(status.text()))
}

/// Decides on the open draft. Returns `false` if there is none, or if the decision is refused and changes
/// nothing.
async fn decided<T>(
    exchange: &Exchange,
    decide: impl AsyncFnOnce(Uuid) -> Result<T, DecisionFailure>,
) -> StoreResult<bool> {
    let Some(draft) = restored_draft(exchange).await? else {
        return Ok(false);
    };
    match decide(draft.id).await {
        Ok(_) => Ok(true),
        Err(DecisionFailure::Refused(_)) => Ok(false),
        Err(DecisionFailure::Store(error)) => Err(error),
    }
}
