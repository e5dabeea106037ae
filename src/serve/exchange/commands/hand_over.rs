//! Makes a handoff now, from the transcript before the command.

use std::sync::Arc;

use http::Response;

use super::reply::{CommandReply, ReplySentinel, unanswered};
use crate::serve::exchange::drafts::approval_commands;
use crate::serve::exchange::request::Request;
use crate::serve::exchange::{Exchange, free_cut, slow_answer};
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::jobs::drafts::{AcceptedDraft, DraftJob, DraftOrder, DraftQueue, DraftRecord, DraftState};
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::handoffs::draft::{DraftEnd, DraftRequest};
use baton_core::mark::note;
use baton_core::record::Handoff;
use baton_core::rewrite::notes;

/// The reply if no draft is waiting.
pub(super) const NONE_WAITS: &str = "no draft waits for approval.";

/// What makes a handoff now.
pub(super) enum HandoffTrigger {
    /// A draft.
    Draft(DraftRequest),
    /// Approval of the waiting draft, with another text in its place if one is given.
    Approval(Option<String>),
}

/// The conversation's open draft: one that waits for a person may have been written by another process.
pub(super) async fn restored_draft(exchange: &Exchange) -> Result<Option<DraftRecord>, StoreError> {
    let Exchange { app, offered, .. } = exchange;
    let key = offered.agent.live()?.key();
    app.drafting.restored_in(app.sessions.store(), key).await
}

/// Has a handoff written. Keep-alives go to the agent until that has ended, which is the answer.
pub(super) async fn answer(exchange: Exchange, trigger: HandoffTrigger) -> Response<ResponseBody> {
    let exchange = match &trigger {
        HandoffTrigger::Draft(request) => exchange.showing(request),
        HandoffTrigger::Approval(_) => exchange,
    };
    slow_answer::answered(exchange.clone(), async move {
        let reply = match (HandOver { exchange: &exchange }).run(trigger).await {
            Ok(reply) => reply,
            Err(error) => return unanswered(&exchange, &error),
        };
        let response = exchange.reply(&reply).await;
        match exchange.when_ended() {
            Some(then) => response.map(|body| body.when_handed_over(then)),
            None => response,
        }
    })
    .await
}

/// A command that makes a handoff of the transcript in front of it.
struct HandOver<'e> {
    exchange: &'e Exchange,
}

impl HandOver<'_> {
    async fn run(&self, trigger: HandoffTrigger) -> Result<CommandReply, StoreError> {
        let Exchange { app, offered, .. } = self.exchange;
        let live = offered.agent.live()?;
        let Some(before) = self.without_command() else {
            return Ok(CommandReply::new("nothing to hand off yet."));
        };
        if let Some(handoff) = self.made_before().await? {
            self.exchange.record.fired.add(handoff.id);
            return Ok(self.reported(&before, &handoff));
        }
        if offered.agent.request.view().facts.previous.is_some() {
            return Ok(CommandReply::new(
                "no handoff was made: the provider holds this transcript, and baton sees only what is new in it.",
            ));
        }
        restored_draft(self.exchange).await?;
        let ready = match &trigger {
            HandoffTrigger::Draft(ask) if ask.is_plain() => free_cut::ready(&before),
            _ => None,
        };
        let job = match job(&app.drafting, live, trigger, ready) {
            Ok(job) => job,
            Err(why) => return Ok(CommandReply::new(why)),
        };
        Ok(match before.drafter().hand_over(job).await {
            Ok(handoff) => self.reported(&before, &handoff),
            Err(DraftEnd::Review) => {
                let draft = app.drafting.open_in(live.key());
                let document = draft.and_then(|draft| draft.document).unwrap_or_default();
                let prefix = &app.config.commands.prefix;
                let waits = format!(
                    "the draft waits for your approval: {}.",
                    approval_commands(prefix)
                );
                CommandReply::new(match self.exchange.begun_draft() {
                    Some(_) => waits,
                    None => format!("{waits}\n\n{}", note::quoted(&document)),
                })
            }
            Err(end) => CommandReply::new(format!("no handoff was made: {end}.")),
        })
    }

    /// The handoff of an answer to the same request that broke off: agents then repeat the request.
    async fn made_before(&self) -> Result<Option<Arc<Handoff>>, StoreError> {
        let Exchange {
            app,
            ctx,
            offered,
            record,
            ..
        } = self.exchange;
        let live = offered.agent.live()?;
        let id = match live.may_repeat() {
            true => live.take_repeat(offered.agent.hash(), &record.id, app.clock.now_ms()),
            false => None,
        };
        match id {
            Some(id) => app.sessions.handoff(&ctx.principal, id).await,
            None => Ok(None),
        }
    }

    /// The report of a handoff that was made of the request `before` the command.
    fn reported(&self, before: &Exchange, handoff: &Handoff) -> CommandReply {
        let report = before.drafter().report(handoff);
        CommandReply {
            sentinel: Some(ReplySentinel {
                handoff: handoff.id,
                text: self.exchange.sentinel(handoff),
            }),
            ..CommandReply::new(report.strip_prefix(note::BEGINS).unwrap_or(&report))
        }
    }

    /// The same exchange without the command that it ends with.
    fn without_command(&self) -> Option<Exchange> {
        let look = self.exchange.app.note_search();
        let offered = &self.exchange.offered;
        let reading = offered.agent.request.reading();
        let left = notes::without_last(offered.agent.wire, reading, look)?;
        let removed = offered.agent.request.len().saturating_sub(left.view.body.len());
        let body = RequestBody::Plain(left.view.body.clone());
        let hash = offered.agent.hash();
        let mut before = self.exchange.clone();
        let offered = Arc::make_mut(&mut before.offered);
        offered.agent.request = Request::new(body, left);
        offered.pin.taken_out.add(removed);
        offered.pin.command = None;
        offered.agent.original_hash = Some(hash);
        Some(before)
    }
}

/// The draft to be made, of a `ready` document where there is one, or the one that waits.
///
/// # Errors
/// Why there is none, for the person.
fn job(
    drafting: &Arc<DraftQueue>,
    live: &LiveConversation,
    trigger: HandoffTrigger,
    ready: Option<AcceptedDraft>,
) -> Result<DraftJob, String> {
    match trigger {
        HandoffTrigger::Draft(ask) => {
            let order = DraftOrder { ask, prompt: None };
            let begun = drafting.begin(live.key(), live.principal(), order, ready);
            begun.map_err(|busy| match busy.state {
                DraftState::Review => format!("a draft already waits for your approval ({}).", busy.id),
                _ => format!("a handoff is already being written ({}).", busy.id),
            })
        }
        HandoffTrigger::Approval(edited) => {
            let open = drafting.open_in(live.key());
            let accepted = open.and_then(|draft| drafting.accept(draft.id, edited).ok());
            let job = accepted.and_then(|_| drafting.take(live.key()));
            job.ok_or_else(|| NONE_WAITS.to_owned())
        }
    }
}
