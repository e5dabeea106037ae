//! One request whose transcript baton reads: planned, sent, and its response shown to the agent.
//!
//! Each stage is a value that the next one consumes.
//!
//! ```text
//! read ─► planned (reader ⇄ core::plan, effects) ─► send ─► answer (stream | whole), which drives the response machine
//! ParsedRequest   PlannedExchange                   Sent    Answered      └► effects (write, send a later leg)
//! ```

mod answer;
mod brake;
mod chain;
mod commands;
mod context;
mod drafts;
mod interjected;
mod local_answer;
mod read;
mod record_writer;
mod recording;
mod request;
mod resumed;
mod send;
mod value;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use self::brake::charge;
use self::commands::CommandEnd;
use self::read::{ParsedRequest, ScannedBody};
use self::request::PlannedExchange;
use self::value::Exchange;
use crate::app::App;
use crate::heavy;
use crate::proxy::body::RequestBody;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::response_body::AgentResponse;
use crate::proxy::upload::RopeBody;
use crate::proxy::{Answering, RequestContext, TranscriptHandler, relay, stated_usage};
use baton_core::commands::CommandReply;
use baton_core::nudge::{NudgeOutcome, ShadowMoment};
use baton_core::plan::{Decision, Plan, RespondInput, Responder, ShadowDecision, is_model_call};
use baton_core::record::HandoffId;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::wire::RequestFacts;

impl Exchange {
    /// Returns the handoff after which a repeated request continues at once.
    fn repeated(&self) -> Option<HandoffId> {
        // If responses stop at a handoff, only the agent's next request follows it.
        if self.stops() {
            return None;
        }
        let live = self.offered.live.as_ref();
        // The body is hashed only if the request may be a repetition.
        let live = live.filter(|l| is_model_call(self.ctx.operation) && l.may_repeat())?;
        live.take_repeat(self.offered.hash(), &self.answer, self.app.clock.now_ms())
    }

    /// Decides who answers a request for the model, and enters the request's branch.
    fn decide(&mut self) -> Decision {
        let repeated = self.repeated();
        let branch = context::enter(self);
        let state = branch.as_ref().and_then(|t| t.state());
        self.plan().answered_by(&RespondInput {
            repeated,
            branch: state.as_ref(),
            draft: self
                .offered
                .live
                .as_ref()
                .and_then(|live| self.app.drafting.planned_in(live.key())),
            free: self.app.config.handoff.when_cache_cold,
            now_ms: self.app.clock.now_ms(),
        })
    }
}

impl TranscriptHandler for App {
    fn answer(self: Arc<Self>, ctx: RequestContext, body: RequestBody) -> Answering {
        // Scanned before parsing, because the number of candidate markers is part of the weight.
        let searched = ScannedBody::new(body);
        heavy::offloaded(searched.weight, Box::pin(run(self, ctx, searched)))
    }
}

async fn run(app: Arc<App>, mut ctx: RequestContext, searched: ScannedBody) -> AgentResponse {
    ctx.open = match app.spill.open(&ctx.principal, searched.body.len()) {
        Ok(open) => open,
        Err(fault) => return ctx.refuse(fault),
    };
    let Some(mut received) = read::receive(&app, &ctx, &searched) else {
        return match ctx.check_unread(&app.config) {
            Ok(()) => untouched(&app, &ctx, searched.body).await,
            Err(fault) => ctx.refuse(fault),
        };
    };
    if let Err(fault) = check_owner(&app, &ctx, &received.call.reading.view.facts).await {
        return ctx.refuse(fault);
    }
    let chain = match chain::enter(&app, &ctx, &mut received).await {
        Ok(chain) => chain.map(Arc::new),
        Err(error) => return ctx.refuse(request::store_down(error)),
    };
    // The exchange owns the body from here on, and drops it while the response streams.
    drop(searched);
    if app.is_shadow(&ctx) {
        return Box::pin(relayed(app, ctx, received)).await;
    }
    let mut offered = match request::plan(&app, &ctx, received).await {
        Ok(offered) => offered,
        Err(fault) => return ctx.refuse(fault),
    };
    // Only the journal needs the original transcript, so the exchange does not keep it.
    let original = offered.pin.taken_out.original.take();
    let mut exchange = Exchange::new(app, ctx, offered);
    exchange.chain = chain;
    recording::begin(&exchange, original);
    match exchange.offered.pin.answered_by() {
        // Commands and unresolved handoffs are for baton, whatever the state of the conversation.
        Some(by) => answer_by(exchange, by).await,
        None => answer_for_model(exchange).await,
    }
}

/// Responds to a request that is for the model.
async fn answer_for_model(mut exchange: Exchange) -> AgentResponse {
    // Boxed: rare branches would otherwise enlarge every future of this function.
    if brake::is_on(&exchange)
        && let Some(ended) = Box::pin(brake::check(&mut exchange)).await
    {
        return ended;
    }
    if resumed::is_resumed(&exchange.offered) {
        Box::pin(resumed::notify(&mut exchange)).await;
    }
    let Decision { by, nudge } = exchange.decide();
    if let (Some(text), Some(branch)) = (nudge, exchange.branch.clone()) {
        Box::pin(context::nudge(&branch, &mut exchange, &text)).await;
    }
    answer_by(exchange, by).await
}

/// Checks that a request continues no stored conversation or response of another client.
///
/// # Errors
/// Returns a fault if it does, or if the store cannot be read.
async fn check_owner(app: &App, ctx: &RequestContext, facts: &RequestFacts) -> Result<(), Fault> {
    if facts.names_conversation && ctx.owns_responses() {
        return Err(Fault::because(
            Code::PATH,
            "the provider's conversations belong to all clients",
        ));
    }
    match &facts.previous {
        Some(previous) => ctx.check_response(&**app.sessions.store(), &previous.id).await,
        None => Ok(()),
    }
}

/// Dispatches a request to its responder.
async fn answer_by(mut exchange: Exchange, by: Responder) -> AgentResponse {
    let is_for_model = matches!(
        by,
        Responder::Model | Responder::HandOff(_) | Responder::WaitingDraft
    );
    if is_for_model && !exchange.offered.pin.interjected.is_empty() {
        return Box::pin(interjected::answer(exchange)).await;
    }
    let job = match by {
        Responder::Unresolved(why) => return Box::pin(exchange.unresolved_handoff(why)).await,
        Responder::Command(text) => match Box::pin(commands::answer(exchange, text)).await {
            CommandEnd::Answered(response) => return *response,
            CommandEnd::ForModel(exchange) => return Box::pin(answer_for_model(exchange)).await,
        },
        Responder::AfterHandoff(id) => return Box::pin(exchange.go_on(id)).await,
        Responder::Offer(text) => {
            if let Some(branch) = &exchange.branch {
                // The user gets one offer between two responses of the model.
                branch.offered_cut();
            }
            return Box::pin(exchange.reply(&CommandReply::new(text))).await;
        }
        Responder::HandOff(due) => drafts::automatic_job(&exchange, due),
        Responder::WaitingDraft => drafts::waiting_job(&exchange),
        Responder::Model => None,
    };
    if let Some(job) = job {
        return Box::pin(drafts::run(exchange, job)).await;
    }
    if let Some(notice) = drafts::pending_notice(&exchange) {
        exchange.opening = notice;
    }
    exchange.begin().await
}

/// Sends the collected body unchanged, relays the response and counts its usage.
async fn untouched(app: &App, ctx: &RequestContext, body: RequestBody) -> AgentResponse {
    let rope = RopeBody::from(body.raw().cloned().unwrap_or_default());
    // Frees the decoded text before the response streams.
    drop(body);
    let response = relay::send(ctx, stated_usage::sending(ctx), rope).await;
    let parts = (&*app.config, &app.bodies, app.sessions.store());
    stated_usage::counted(parts, ctx, response).await
}

/// Relays a request and its response in shadow mode, byte for byte, and records where a handoff would have been due. The
/// agent's history stays whole, so these moments are those of a session without baton.
async fn relayed(app: Arc<App>, ctx: RequestContext, received: ParsedRequest) -> AgentResponse {
    let call = &received.call;
    let opened = app.sessions.open(&call.key, &ctx.principal, app.clock.now_ms());
    let opened = opened.await.inspect(|live| ctx.note_topic(live));
    let opened = opened.inspect_err(
        |error| tracing::error!(%error, "failed to read the store; relaying without its records"),
    );
    // An empty plan sends the request unchanged.
    let mut plan = Plan::default();
    plan.offer
        .set(Some(call.forbidden.unwrap_or(ToolOmission::Shadow)));
    let mut exchange = Exchange::new(app, ctx, PlannedExchange::new(received, opened.ok(), plan));
    recording::begin(&exchange, None);
    brake::charge_unchecked(&exchange);
    note_moment(&mut exchange);
    exchange.begin().await
}

/// Records the decision that baton would have made about this request, and the text that it would have sent.
fn note_moment(exchange: &mut Exchange) {
    let Some(branch) = context::enter(exchange) else {
        return;
    };
    let now_ms = exchange.app.clock.now_ms();
    let state = branch.state();
    let moment = state.and_then(|state| exchange.plan().watched_moment(&state, now_ms));
    let Some(ShadowDecision {
        outcome,
        notice,
        saved,
    }) = moment
    else {
        return;
    };
    match outcome {
        NudgeOutcome::WouldNotify => branch.notified(),
        // As after a failed draft, the next automatic handoff is due only when the context has grown further.
        NudgeOutcome::WouldHandOver => branch.draft_failed(),
        _ => {}
    }
    let text = notice.or_else(|| drafts::local_prompt(exchange));
    let text = text.unwrap_or_default();
    exchange.ctx.note_nudge(outcome);
    let what = outcome.name().to_owned();
    let moment = ShadowMoment { what, text, saved };
    exchange.ctx.recorder.note(|e| e.shadow = Some(moment));
}
