//! Makes a handoff on command, from the transcript before the command.

use std::sync::Arc;

use crate::exchange::local_answer::unanswered;
use crate::exchange::{drafts, local_answer, value::Exchange};
use crate::proxy::response_body::AgentResponse;
use crate::state::jobs::drafts::DraftRecord;
use crate::state::store::StoreResult;
use baton_core::commands::CommandReply;
use baton_core::handoffs::draft::{DraftEnd, DraftRequest, frees_little, not_made, waits_for_approval};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::marker::note;
use baton_core::record::Handoff;
use baton_core::rewrite::notes;

/// Reply if no draft awaits approval.
pub(super) const NONE_WAITS: &str = "no draft waits for approval.";

/// Trigger of a handoff on command.
pub(in crate::exchange) enum HandoffTrigger {
    /// Draft a handoff.
    Draft(DraftRequest),
    /// Approve the waiting draft, with another document in its place if one is given.
    Approval(Option<String>),
}

/// Returns the conversation's open draft. If it awaits approval, another process may have written it.
pub(super) async fn restored_draft(exchange: &Exchange) -> StoreResult<Option<DraftRecord>> {
    let (app, offered) = (&exchange.app, &exchange.offered);
    let key = offered.live()?.key();
    app.drafting.restored_in(app.sessions.store(), key).await
}

/// Makes a handoff and answers with its outcome. Until then the agent gets keep-alives.
pub(super) async fn answer(exchange: Exchange, trigger: HandoffTrigger) -> AgentResponse {
    let exchange = match &trigger {
        HandoffTrigger::Draft(_) => exchange.showing(),
        // An approval calls no model, so there is no progress to show.
        HandoffTrigger::Approval(_) => exchange,
    };
    local_answer::answered(exchange.clone(), async move {
        let reply = match run(&exchange, trigger).await {
            Ok(reply) => reply,
            Err(error) => return unanswered(&exchange, &error),
        };
        let response = exchange.reply(&reply).await;
        response.map(|body| body.on_sent(exchange.completed()))
    })
    .await
}

/// Makes the handoff from the transcript before the command.
async fn run(exchange: &Exchange, trigger: HandoffTrigger) -> StoreResult<CommandReply> {
    let (app, offered) = (&exchange.app, &exchange.offered);
    let live = offered.live()?;
    if offered.view().facts.previous.is_some() {
        return Ok(CommandReply::new(
            "no handoff was made: the provider holds this transcript, and baton sees only what is new in it.",
        ));
    }
    let Some(before) = without_command(exchange) else {
        return Ok(CommandReply::new("nothing to hand off yet."));
    };
    if let Some(handoff) = made_before(exchange).await? {
        exchange.answer.fired().push(handoff.id);
        return Ok(reported(exchange, &before, &handoff));
    }
    restored_draft(exchange).await?;
    // Without a stated focus, the user may not know that a handoff would free little.
    if let HandoffTrigger::Draft(ask) = &trigger
        && !ask.force
        && ask.focus.trim().is_empty()
    {
        let fixed = before.offered.view().fixed_bytes() as u64 / BYTES_PER_TOKEN;
        let conversation = before.conversation_tokens(before.view_bytes(None));
        if let Some(why) = frees_little(conversation, fixed, &app.config.commands.prefix) {
            return Ok(CommandReply::new(why));
        }
    }
    let (drafting, key) = (&app.drafting, live.key());
    let job = match trigger {
        HandoffTrigger::Draft(ask) => {
            let begun = drafting.begin(key, live.principal(), ask.into());
            begun.map_err(|open| open.to_string())
        }
        HandoffTrigger::Approval(edited) => {
            drafting.approve(key, edited).ok_or_else(|| NONE_WAITS.to_owned())
        }
    };
    let job = match job {
        Ok(job) => job,
        Err(why) => return Ok(CommandReply::new(why)),
    };
    Ok(match drafts::hand_over(&before, job).await {
        Ok(handoff) => reported(exchange, &before, &handoff),
        Err(DraftEnd::Review) => {
            let draft = drafting.open_in(key);
            let document = draft.and_then(|draft| draft.result.document).unwrap_or_default();
            let waits = waits_for_approval(&app.config.commands.prefix);
            CommandReply::new(format!("{waits}\n\n{}", note::quoted(&document)))
        }
        Err(end) => CommandReply::new(not_made(&end, &app.config.commands.prefix)),
    })
}

/// Returns the handoff that an identical request has made, if its response was interrupted. Agents then repeat the
/// request.
async fn made_before(exchange: &Exchange) -> StoreResult<Option<Arc<Handoff>>> {
    let (app, offered) = (&exchange.app, &exchange.offered);
    let now = app.clock.now_ms();
    match offered.live()?.take_repeat(offered.hash(), &exchange.answer, now) {
        Some(id) => app.sessions.handoff(&exchange.ctx.principal, id).await,
        None => Ok(None),
    }
}

/// Reports a handoff that was made from the request `before` the command.
fn reported(exchange: &Exchange, before: &Exchange, handoff: &Handoff) -> CommandReply {
    let report = drafts::handoff_report(before, handoff);
    CommandReply::of_handoff(&report, handoff.id, exchange.sentinel(handoff))
}

/// Returns the exchange without the command that ends it.
pub(super) fn without_command(exchange: &Exchange) -> Option<Exchange> {
    let look = exchange.app.config.note_search();
    let left = notes::without_last(&exchange.offered.reading, look)?;
    let mut before = exchange.clone();
    before.offered_mut().remove_command(left);
    Some(before)
}
