//! Last stage of an exchange: shows the agent a response, streamed or in one piece.
//!
//! Both forms drive the same response machine. This module also handles the consequences of the agent reading
//! the end.

mod effects;
mod stream;
mod whole;

use std::time::Duration;

use http::{Response, header};

use self::effects::Answered;
use super::send::{self, Sent};
use super::value::Exchange;
use crate::exchange::recording;
use crate::proxy::download::UpstreamBody;
use crate::proxy::response_body::{AgentResponse, ResponseBody, TeeBody};
use crate::proxy::{headers, relay, stated_usage};
use crate::state::telemetry::ExchangeOutcome;
use baton_core::plan::{NextLeg, RetryPolicy, is_model_call};
use baton_core::record::{Handoff, HandoffId};
use baton_core::response::{ResponseMachine, ResponseOptions, StreamMerge, VerdictInput};
use baton_core::rewrite::RewriteOutcome;
use baton_core::tools::ToolNames;
use baton_core::wire::{LegMachine, LegReport, ResponseWatch, StopReason};

/// Maximum sum of the pauses between retries while the agent receives nothing.
const SILENT_PAUSES: Duration = Duration::from_secs(60);

impl Exchange {
    /// Sends the first leg, and builds the response from its result.
    pub(in crate::exchange) async fn begin(self) -> AgentResponse {
        let sent = match send::send(self).await {
            Ok(sent) => sent,
            Err(response) => return response,
        };
        let Sent {
            exchange,
            request,
            response,
        } = sent;
        // Errors, and responses to calls that do not generate, have nothing to hide or to join.
        if !response.status().is_success() || !is_model_call(exchange.ctx.operation) {
            let response = relay::answer(&exchange.ctx, Ok(response));
            let (app, ctx) = (&exchange.app, &exchange.ctx);
            // A model writes a compaction as well.
            return stated_usage::counted((&app.config, &app.bodies, app.sessions.store()), ctx, response)
                .await;
        }
        let first = verdict_input(&exchange, &request);
        show(exchange, response, first, None).await
    }

    /// Answers a repeated request with its handoff's sentinel and the leg after it.
    pub(in crate::exchange) async fn go_on(self, id: HandoffId) -> AgentResponse {
        let found = self.app.sessions.handoff(&self.ctx.principal, id).await;
        let found = found.unwrap_or_else(|error| {
            tracing::error!(exchange = self.ctx.id, %error, "failed to read the handoff of a repeated request; running its first leg again");
            None
        });
        let Some(handoff) = found else {
            return Box::pin(self.begin()).await;
        };
        self.answer.fired().push(handoff.id);
        after_handoff(self, &handoff).await
    }

    /// Settings for finding calls of these tools in a response.
    pub(super) fn watch(&self, hide: ToolNames) -> ResponseWatch {
        ResponseWatch {
            hide,
            buffered_bytes: self.app.config.limits.tool_arguments_bytes,
        }
    }

    /// baton's tools that the current leg was offered.
    pub(super) fn hidden(&self) -> ToolNames {
        self.plan().offered(self.tooled(), self.fresh)
    }

    /// Creates the reader and writer of a streamed response. Calls of these tools are hidden.
    pub(super) fn machine(&self, hide: ToolNames) -> LegMachine {
        let mut machine = self.offered.wire().machine(self.offered.view(), self.watch(hide));
        machine.frame_as(self.form().framing());
        machine
    }

    /// Creates the merge of a streamed response.
    pub(super) fn merge(&self) -> StreamMerge {
        self.merge_hiding(self.hidden(), self.tooled())
    }

    /// Creates a merge that hides calls of these tools. If `keep`, each leg's output is kept for a follow-up.
    pub(super) fn merge_hiding(&self, hide: ToolNames, keep: bool) -> StreamMerge {
        StreamMerge::new(self.machine(hide), self.app.config.limits.frame_bytes, keep)
    }

    /// Creates the response machine, whose first leg is being read.
    fn response_machine(
        &self,
        first: VerdictInput,
        after: Option<&Handoff>,
        streamed: bool,
    ) -> ResponseMachine {
        let (offered, policy) = (&self.offered, &self.app.config.handoff);
        let pauses = match streamed {
            true => policy.retry_pauses,
            // Without keep-alives, agents give up on a silent response.
            false => policy.retry_pauses.min(SILENT_PAUSES),
        };
        ResponseMachine::new(ResponseOptions {
            first,
            stops: self.stops(),
            goes_on_by_id: !offered.resends(),
            records_ids: self.ctx.owns_responses() || self.chain.is_some(),
            retry: RetryPolicy {
                retries: policy.retries,
                pauses,
            },
            active: offered.active_id().or(self.chained_handoff()),
            opening: after.map(|handoff| NextLeg {
                kept_from: self.plan().kept_from(handoff),
                ..NextLeg::after(handoff.id, handoff.head.clone(), handoff.routed.clone())
            }),
            opens_with_text: self.opening.before_model().is_some(),
        })
    }

    /// Handles a completed response.
    ///
    /// Returns a callback to call within the runtime when the server has taken the end. It takes effect when
    /// the agent counts as having read the end.
    pub(super) fn completed(&self) -> impl FnOnce() + Send + use<> {
        let (app, answer) = (self.app.clone(), self.answer.clone());
        let live = self.offered.live.clone();
        let live = live.filter(|live| live.may_repeat() || !answer.fired().is_empty());
        move || {
            let Some(live) = live else { return };
            let wait = app.config.limits.waits.unread;
            if wait.is_zero() {
                return app.sessions.answer_read(&live, &answer);
            }
            let due = tokio::time::sleep(wait);
            tokio::spawn(async move {
                due.await;
                app.sessions.answer_read(&live, &answer);
            });
        }
    }
}

/// Answers with a handoff's sentinel and the leg after it, or only with the sentinel if responses stop there.
pub(super) async fn after_handoff(mut exchange: Exchange, handoff: &Handoff) -> AgentResponse {
    exchange.fresh = true;
    if exchange.stops() {
        return match exchange.begun_draft() {
            Some(shown) => exchange.end_shown(shown, Some(handoff)),
            None => {
                let text = exchange.opening.with_sentinel(&exchange.sentinel(handoff));
                exchange.local_answer(&text, Some(handoff.id)).await
            }
        };
    }
    let (app, offered) = (&exchange.app, &exchange.offered);
    let fresh = || offered.plan(app).fresh(handoff).cut_at(Some(handoff.id));
    let response = match send::later_or_own(&exchange, fresh).await {
        Ok(response) => response,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    exchange.ctx.recorder.first_byte();
    if !response.status().is_success() {
        return relay::answer(&exchange.ctx, Ok(response));
    }
    let first = VerdictInput {
        // The handoff counts as the first leg.
        legs: 2,
        pending: None,
        ..verdict_input(&exchange, &offered.plan(app).first(true))
    };
    show(exchange, response, first, Some(handoff)).await
}

/// Shows a streamed or complete response, and relays any other one unchanged.
///
/// `after` is the handoff whose sentinel begins the response.
async fn show(
    exchange: Exchange,
    response: Response<UpstreamBody>,
    first: VerdictInput,
    after: Option<&Handoff>,
) -> AgentResponse {
    let (parts, body) = response.into_parts();
    let branch = exchange.branch.as_ref();
    if let Some(branch) = branch.filter(|_| exchange.app.config.handoff.nudge_limit) {
        let now_ms = exchange.app.clock.now_ms();
        // Providers state in these headers how much of a subscription's limit is left.
        branch.note_limits(&headers::limits(&parts.headers, now_ms), now_ms);
    }
    let is_shadow = exchange.app.is_shadow(&exchange.ctx);
    // Shadow mode relays bytes unchanged, so it does not decode a body that upstream compressed without being asked.
    let readable = match is_shadow && parts.headers.contains_key(header::CONTENT_ENCODING) {
        true => Err(body),
        false => send::readable(&exchange, &parts, body),
    };
    let (body, streamed) = match (readable, exchange.form().streams(&parts.headers)) {
        (Ok(body), Some(streamed)) => (body, streamed),
        (Ok(body) | Err(body), _) => {
            return relay::answer(&exchange.ctx, Ok(Response::from_parts(parts, body)));
        }
    };
    let opening = match after {
        Some(handoff) => Some(exchange.opening.with_sentinel(&exchange.sentinel(handoff))),
        None => exchange.opening.before_model().map(str::to_owned),
    };
    let answered = Answered {
        machine: exchange.response_machine(first, after, streamed),
        exchange,
        parts,
        body,
        opening,
    };
    // Boxed: a request waits in a future as large as the largest of them, and writes all of it before
    // anything is sent.
    match streamed {
        _ if is_shadow => Box::pin(relayed(answered, streamed)).await,
        true => stream::answer(answered),
        false => Box::pin(whole::answer(answered)).await,
    }
}

fn verdict_input(exchange: &Exchange, first: &RewriteOutcome) -> VerdictInput {
    let offered = &exchange.offered;
    if let Some(live) = offered.live.as_ref().filter(|_| !offered.call.side_call) {
        live.spoken.saw(first.messages);
    }
    let max_chain = exchange.app.config.handoff.max_chain.max(1);
    VerdictInput::new(&exchange.plan(), first, exchange.tooled(), max_chain)
}

/// Relays a response unchanged, and counts it.
async fn relayed(answered: Answered, streamed: bool) -> AgentResponse {
    let Answered {
        exchange,
        parts,
        body,
        ..
    } = answered;
    if streamed {
        exchange.ctx.recorder.note(|e| e.streamed = true);
        let watched = TeeBody::new(body, exchange.merge(), move |report: &LegReport| {
            recording::count(&exchange, report);
            if report.stop != StopReason::Open {
                let outcome = ExchangeOutcome::of_end(report.stop);
                exchange.ctx.recorder.decide(outcome);
            }
        });
        return relay::headed(&parts, false, ResponseBody::stream(watched));
    }
    let body = match exchange.collect(body).await {
        Ok(body) => body,
        Err(fault) => return exchange.ctx.refuse(fault),
    };
    if let Some(report) = exchange.read_reply(&body, exchange.hidden()) {
        recording::count(&exchange, &report);
    }
    relay::headed(&parts, false, ResponseBody::whole(body))
}
