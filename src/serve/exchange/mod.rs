//! One request whose transcript the proxy reads: prepared, sent, and its answer shown to the agent.
//!
//! ```text
//! read ─► pin ─► place ─► offer ─► send ─► stream | whole, which drive the course
//!                                            └─► effects (write, send a later leg)
//! ```

mod active_handoff;
mod automatic;
mod coalesce;
mod commands;
mod draft_legs;
mod drafts;
mod effects;
mod facts;
mod first_leg;
mod flattened;
mod heavy;
mod insertions;
mod left_out;
mod local_answer;
mod nudges;
mod offer;
mod opening;
mod pairs;
mod pin;
mod pinned_to;
mod place;
mod placed;
mod read;
mod read_ahead;
mod recording;
mod request;
mod resumed;
mod send;
mod shown;
mod slow_answer;
mod store_writes;
mod stream;
mod thinking;
mod tool_offer;
mod undo;
mod whole;

use std::sync::{Arc, Mutex, PoisonError};

use http::response::Parts;
use http::{Response, StatusCode, header};

use self::nudges::Due;
use self::offer::Offered;
use self::opening::AnswerOpening;
use crate::serve::proxy::body::{Collected, RequestBody};
use crate::serve::proxy::headers::{self, Sending};
use crate::serve::proxy::response_body::ResponseBody;
use crate::serve::proxy::route::Endpoint;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::{Answering, App, RequestContext, relay};
use crate::state::journal::PackedHeaders;
use crate::state::session::AnswerId;
use baton_core::record::HandoffId;

pub(crate) use self::facts::{FACTS_TOKENS, wants_facts};

/// One agent request and everything its legs share.
#[derive(Clone)]
struct Exchange {
    app: Arc<App>,
    ctx: RequestContext,
    offered: Arc<Offered>,
    /// Whether the tool was offered in what upstream answered.
    tooled: bool,
    /// Whether the present leg starts behind a handoff of this very answer.
    fresh: bool,
    /// The agent's headers, while the request is spilled.
    spilled_headers: Option<PackedHeaders>,
    /// Identifies this answer among those to the same request.
    answer: AnswerId,
    /// The handoffs that the answer shows.
    fired: Fired,
    /// What the answer begins with.
    opening: AnswerOpening,
    /// The draft that the agent sees while it is written.
    shown: Option<Arc<shown::ShownDraft>>,
    /// Its thread, where the model may be told how full its context is.
    thread: Option<nudges::InThread>,
}

/// The handoffs of one answer, shared by all clones of its exchange.
#[derive(Clone, Default)]
struct Fired(Arc<Mutex<Vec<HandoffId>>>);

impl Fired {
    fn add(&self, handoff: HandoffId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handoff);
    }

    fn all(&self) -> Vec<HandoffId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one that is shown last.
    fn last(&self) -> Option<HandoffId> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last()
            .copied()
    }

    /// Whether the answer shows none so far.
    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether the answer shows no handoff before this one.
    fn is_first(&self, handoff: HandoffId) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.first().is_none_or(|first| *first == handoff)
    }

    fn take(&self) -> Vec<HandoffId> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Exchange {
    fn new(app: Arc<App>, ctx: RequestContext, offered: Offered) -> Self {
        Self {
            app,
            ctx,
            tooled: offered.offer.tooled,
            fresh: false,
            offered: Arc::new(offered),
            spilled_headers: None,
            answer: AnswerId::default(),
            fired: Fired::default(),
            opening: AnswerOpening::None,
            shown: None,
            thread: None,
        }
    }
}

/// Answers one agent request: what [`App::new`] wants as its handler.
pub fn handle(app: Arc<App>, ctx: RequestContext, body: Collected) -> Answering {
    let text = body.body.text().map_or(&[][..], |text| text);
    let weight = heavy::weight(text, &body.scan.known.prescan);
    heavy::offloaded(weight, Box::pin(run(app, ctx, body, weight)))
}

async fn run(
    app: Arc<App>,
    ctx: RequestContext,
    collected: Collected,
    weight: usize,
) -> Response<ResponseBody> {
    let Collected {
        body,
        scan,
        beginnings,
    } = collected;
    let Some(received) = read::receive(&app, &ctx, &body, &scan, weight).await else {
        return untouched(&ctx, body).await;
    };
    let pending = received.agent.live.as_ref().and_then(|live| live.pending_undo());
    let after = match pending {
        // In a box, like all that is rare: what is awaited here is as large as its largest branch.
        Some(asked) => Box::pin(undo::pin_with_undo(&app, &ctx, received, asked)).await,
        None => {
            let pinned = pin::pin(&app, &ctx, received, None).await;
            pinned.map(|pinned| undo::AfterUndo {
                pinned,
                first_words: None,
            })
        }
    };
    let (pinned, first_words) = match after {
        Ok(after) => (after.pinned, after.first_words),
        Err(fault) => return ctx.refuse(fault),
    };
    let mut offered = match place::place(&app, &ctx, pinned).await {
        Ok(placed) => offer::offer(&app, &ctx, placed).await,
        Err(fault) => return ctx.refuse(fault),
    };
    // The exchange holds it from here on, and lets go of it while the response streams.
    drop((body, scan));
    let original = offered.pin.taken_out.original.take();
    let mut exchange = Exchange::new(app, ctx, offered);
    if let Some(words) = first_words {
        exchange.opening = AnswerOpening::Undo(words);
    }
    exchange.note(beginnings, original);
    if let Some(why) = exchange.offered.pin.unresolved {
        return exchange.unresolved_handoff(why);
    }
    if exchange.offered.pin.command.is_some() {
        return Box::pin(exchange.answer_command()).await;
    }
    if exchange.is_resumed() {
        Box::pin(exchange.tell_drift()).await;
    }
    if let Some(reminder) = exchange.app.reminder.clone() {
        Box::pin(exchange.remind(&reminder)).await;
    }
    // In a box, like all that is rare: what is awaited here is as large as its largest branch.
    match exchange.due() {
        Some(Due::Nudge(text)) => Box::pin(exchange.nudge(&text)).await,
        Some(Due::HandOff(job)) => return Box::pin(drafts::run(exchange, job)).await,
        None => {}
    }
    match exchange.repeated() {
        Some(handoff) => Box::pin(exchange.go_on(handoff)).await,
        // What waits for a request beside an undo waits for the next one.
        None if exchange.app.drafting.is_idle() || exchange.opening.undo().is_some() => {
            exchange.begin().await
        }
        None => match exchange.waiting_draft() {
            Some(job) => Box::pin(drafts::run(exchange, job)).await,
            None => exchange.noting_pending().begin().await,
        },
    }
}

/// Sends the collected body on as it came and relays the answer.
async fn untouched(ctx: &RequestContext, body: RequestBody) -> Response<ResponseBody> {
    let rope = RopeBody::from(body.as_it_came().cloned().unwrap_or_default());
    drop(body);
    relay::send(ctx, Sending::default(), rope).await
}

fn is_model_call(endpoint: Endpoint) -> bool {
    endpoint == Endpoint::Generate
}

/// A response of our own body with upstream's status and headers.
fn shaped(status: StatusCode, upstream: &http::HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
    let mut out = Response::new(body);
    *out.status_mut() = status;
    *out.headers_mut() = headers::back(upstream, true);
    out
}

fn is_json(parts: &Parts) -> bool {
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok());
    kind.is_some_and(|k| {
        k.split(';')
            .next()
            .is_some_and(|k| k.trim().eq_ignore_ascii_case("application/json"))
    })
}

fn is_untyped(parts: &Parts) -> bool {
    !parts.headers.contains_key(header::CONTENT_TYPE)
}
