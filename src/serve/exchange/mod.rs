//! One request whose transcript the proxy reads: planned, sent, and its answer shown to the agent. Each stage is a value
//! that the next one consumes.
//!
//! ```text
//! read ─► planned (reader ⇄ core::plan, effects) ─► send ─► answer (stream | whole), which drives the course
//! Received Offered                                  Sent    Answered      └► effects (write, send a later leg)
//! ```

mod ahead;
mod answer;
mod answer_form;
mod app;
mod carry;
mod clock;
mod commands;
mod context;
mod drafts;
mod heavy;
mod insertions;
mod keepalive;
mod local_answer;
mod offer;
mod once;
mod opening;
mod planned;
mod read;
mod reader;
mod record_writer;
mod recording;
mod request;
mod resumed;
mod send;
mod shadow;
mod shown;
mod slow_answer;
mod thinking;
mod topic;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use http::Response;
use uuid::Uuid;

use self::answer_form::AnswerForm;
use self::context::ContextThread;
use self::offer::Offered;
use self::opening::AnswerOpening;
use self::send::FirstLeg;
use self::shown::ShownDraft;
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::headers::Sending;
use crate::serve::proxy::response_body::ResponseBody;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::{Answering, RequestContext, TranscriptHandler, relay};
use crate::state::config::HandoffMode;
use crate::state::journal::PackedHeaders;
use crate::state::session::AnswerId;
use crate::state::sync::locked;
use baton_core::mark::note;
use baton_core::plan::{AnsweredBy, Decision, DraftAtHand, Planned, Situation, is_model_call};
use baton_core::record::{Handoff, HandoffId};

pub use self::app::App;
pub use self::clock::Clock;

/// One agent request from its offer on, and what its legs share.
#[derive(Clone)]
struct Exchange {
    app: Arc<App>,
    ctx: RequestContext,
    offered: Arc<Offered>,
    leg: LegState,
    /// The agent's headers, while the request is spilled.
    spilled_headers: Option<PackedHeaders>,
    record: AnswerRecord,
    /// What the answer begins with.
    opening: AnswerOpening,
    /// What the agent sees while a draft is made.
    shown: Option<Arc<ShownDraft>>,
    /// The conversation's thread, where the model may get notices of how full its context is.
    thread: Option<ContextThread>,
}

/// The present leg.
#[derive(Clone, Copy)]
struct LegState {
    /// Whether the tool was offered in what upstream answered.
    tooled: bool,
    /// Whether the leg starts after a handoff of this very answer.
    fresh: bool,
}

/// The answer as it is recorded.
#[derive(Clone, Default)]
struct AnswerRecord {
    /// Identifies this answer among those to the same request.
    id: AnswerId,
    /// The handoffs that the answer shows.
    fired: Fired,
}

/// The handoffs of one answer, shared by all clones of its exchange.
#[derive(Clone, Default)]
struct Fired(Arc<Mutex<Vec<HandoffId>>>);

impl Fired {
    fn add(&self, handoff: HandoffId) {
        locked(&self.0).push(handoff);
    }

    fn all(&self) -> Vec<HandoffId> {
        locked(&self.0).clone()
    }

    /// The one that is shown last.
    fn last(&self) -> Option<HandoffId> {
        locked(&self.0).last().copied()
    }

    /// Whether the answer shows none so far.
    fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }

    /// Whether the answer shows no handoff before this one.
    fn is_first(&self, handoff: HandoffId) -> bool {
        locked(&self.0).first().is_none_or(|first| *first == handoff)
    }

    fn take(&self) -> Vec<HandoffId> {
        std::mem::take(&mut locked(&self.0))
    }
}

impl Exchange {
    fn new(app: Arc<App>, ctx: RequestContext, offered: Offered) -> Self {
        Self {
            app,
            ctx,
            leg: LegState {
                tooled: offered.offer.tooled,
                fresh: false,
            },
            offered: Arc::new(offered),
            spilled_headers: None,
            record: AnswerRecord::default(),
            opening: AnswerOpening::None,
            shown: None,
            thread: None,
        }
    }

    /// The form in which the answer is expected.
    fn form(&self) -> AnswerForm {
        self.offered.agent.form(&self.ctx.target)
    }

    /// Whether responses stop at a handoff.
    fn stops(&self) -> bool {
        self.app.config.handoff.mode == HandoffMode::Stop
    }

    /// The sentinel of a handoff as it is shown.
    fn sentinel(&self, handoff: &Handoff) -> String {
        self.plan().sentinel(handoff, || self.app.seals.now())
    }

    /// The plan, under the present policy.
    fn plan(&self) -> Planned<'_> {
        self.offered.plan(&self.app)
    }

    /// An answer of this text alone.
    fn local_answer(&self, text: &str, handoff: Option<HandoffId>) -> Response<ResponseBody> {
        local_answer::answer(self, Uuid::now_v7(), text, handoff)
    }

    /// Sends the first leg, and answers with what follows from it.
    async fn begin(self) -> Response<ResponseBody> {
        match send::send(self).await {
            FirstLeg::Sent(sent) => answer::first(sent).await,
            FirstLeg::Refused(response) => response,
        }
    }

    /// Answers a repeated request: its handoff's sentinel, then the leg after it.
    async fn go_on(self, id: HandoffId) -> Response<ResponseBody> {
        let found = self.app.sessions.handoff(&self.ctx.principal, id).await;
        let found = found.unwrap_or_else(|error| {
            tracing::error!(exchange = self.ctx.id, %error, "a repeated request runs its first leg again");
            None
        });
        let Some(handoff) = found else {
            return Box::pin(self.begin()).await;
        };
        self.record.fired.add(handoff.id);
        answer::after_handoff(self, &handoff).await
    }

    /// The handoff after which a repeated request continues at once.
    fn repeated(&self) -> Option<HandoffId> {
        // Where responses stop at a handoff, only the agent's next request follows it.
        if self.stops() {
            return None;
        }
        let agent = &self.offered.agent;
        let live = agent.live.as_ref();
        let live = live.filter(|l| is_model_call(self.ctx.operation) && l.may_repeat())?;
        live.take_repeat(agent.hash(), &self.record.id, self.app.clock.now_ms())
    }

    /// Decides what answers a request that is for the model. Enters the request's thread.
    fn decide(&mut self) -> Decision {
        let repeated = self.repeated();
        let entered = context::enter(self);
        self.thread = entered.as_ref().map(|entered| entered.thread.clone());
        let thread = entered
            .filter(|entered| entered.is_new)
            .map(|entered| entered.thread);
        let costs = thread.as_ref().and_then(ContextThread::costs);
        let ready = costs.and_then(|_| drafts::kept_draft(self));
        let state = thread.as_ref().and_then(|thread| thread.state(ready.as_deref()));
        self.plan().answered_by(&Situation {
            repeated,
            thread: state.as_ref(),
            draft: drafts::open_draft(self),
            at_hand: DraftAtHand {
                ready: ready.as_deref(),
                cost: drafts::draft_cost(&self.app),
            },
            free: self.app.config.handoff.free,
            now_ms: self.app.clock.now_ms(),
        })
    }
}

impl TranscriptHandler for App {
    fn answer(self: Arc<Self>, ctx: RequestContext, body: RequestBody) -> Answering {
        let text = body.text().map_or(&[][..], |text| text);
        let weight = heavy::weight(text);
        heavy::offloaded(weight, Box::pin(run(self, ctx, body, weight)))
    }
}

async fn run(app: Arc<App>, ctx: RequestContext, body: RequestBody, weight: usize) -> Response<ResponseBody> {
    let Some(received) = read::receive(&app, &ctx, &body, weight) else {
        return untouched(&ctx, body).await;
    };
    // The exchange owns the body from here on, and drops it while the response streams.
    drop(body);
    if app.is_shadow(&ctx) {
        return Box::pin(shadow::relayed(app, ctx, received)).await;
    }
    let mut offered = match planned::plan(&app, &ctx, received).await {
        Ok(offered) => offered,
        Err(fault) => return ctx.refuse(fault),
    };
    let original = offered.pin.taken_out.original.take();
    let mut exchange = Exchange::new(app, ctx, offered);
    recording::begin(&exchange, original);
    let by = match exchange.offered.pin.answered_by() {
        Some(by) => by,
        None => {
            // In a box, like all that is rare: what is awaited here is as large as its largest branch.
            if resumed::is_resumed(&exchange.offered) {
                Box::pin(resumed::notify(&mut exchange)).await;
            }
            let Decision { by, nudge } = exchange.decide();
            if let (Some(text), Some(thread)) = (nudge, exchange.thread.clone()) {
                Box::pin(thread.nudge(&mut exchange, &text)).await;
            }
            by
        }
    };
    answer_by(exchange, by).await
}

/// Has a request answered.
async fn answer_by(mut exchange: Exchange, by: AnsweredBy) -> Response<ResponseBody> {
    let job = match by {
        AnsweredBy::Unresolved(why) => return local_answer::unresolved_handoff(&exchange, why),
        AnsweredBy::Command(text) => return Box::pin(commands::answer(exchange, text)).await,
        AnsweredBy::AfterHandoff(id) => return Box::pin(exchange.go_on(id)).await,
        AnsweredBy::Offer(text) => {
            if let Some(thread) = &exchange.thread {
                thread.offered_cut();
            }
            return exchange.local_answer(&note::answer(&text, Uuid::now_v7()), None);
        }
        AnsweredBy::HandOff(due) => drafts::automatic_job(&exchange, due),
        AnsweredBy::WaitingDraft => drafts::waiting_job(&exchange),
        AnsweredBy::Model => None,
    };
    if let Some(job) = job {
        return Box::pin(drafts::run(exchange, job)).await;
    }
    if let Some(notice) = drafts::pending_notice(&exchange) {
        exchange.opening = notice;
    }
    exchange.begin().await
}

/// Sends the collected body on as it came and relays the answer.
async fn untouched(ctx: &RequestContext, body: RequestBody) -> Response<ResponseBody> {
    let rope = RopeBody::from(body.as_it_came().cloned().unwrap_or_default());
    drop(body);
    relay::send(ctx, Sending::default(), rope).await
}
