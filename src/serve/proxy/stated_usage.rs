//! Counts the usage that responses to relayed requests state: embeddings, responses that ran in the background and are
//! fetched later, and requests that baton cannot read.

use http::{Method, Response, header};
use tokio::sync::Mutex;

use super::answer_form::is_json;
use super::headers::Sending;
use super::response_body::{AgentResponse, ResponseBody, TeeBody};
use super::route::stored_response;
use super::unmodifiable::Unmodifiable;
use super::{Budget, RequestContext, download, headers};
use crate::state::clock::now_ms;
use crate::state::config::Config;
use crate::state::session::ledger_key;
use crate::state::store::SharedStore;
use crate::state::telemetry::Charge;
use baton_core::brake::{AccountKind, DAY_MS};
use baton_core::record::Amounts;
use baton_core::response::StreamMerge;
use baton_core::wire::{LegReport, ResponseWatch, Usage, View, stated_usage, wire};

/// Ends of paths without a transcript whose responses state usage.
const STATING: &[&str] = &[
    "/embeddings",
    "/completions",
    "/images/generations",
    "/images/edits",
    "/audio/transcriptions",
];

/// Circumstances of a relayed request: if its response may state usage, upstream must not compress it.
pub fn sending(ctx: &RequestContext) -> Sending {
    let path = ctx.target.split('?').next().unwrap_or_default();
    let states = ctx.operation.is_some() || STATING.iter().any(|end| path.ends_with(end));
    let may_state = states && ctx.method == Method::POST || stored_response(path).is_some();
    Sending {
        read: may_state && Unmodifiable::from_request(&ctx.target, &ctx.headers).is_none(),
        ..Sending::default()
    }
}

/// Returns the response to a relayed request, and counts its usage.
pub async fn counted(
    (config, bodies, store): (&Config, &Budget, &SharedStore),
    ctx: &RequestContext,
    response: AgentResponse,
) -> AgentResponse {
    let (parts, body) = response.into_parts();
    let is_plain = !parts.headers.contains_key(header::CONTENT_ENCODING);
    if !parts.status.is_success() || !is_plain || !sending(ctx).read {
        return Response::from_parts(parts, body);
    }
    let day = (now_ms() / DAY_MS).to_string();
    let key = ledger_key(&ctx.principal, AccountKind::Day.name(), &day);
    let has_budget = config.brake_of(&ctx.principal).day != Amounts::default();
    let keys = has_budget.then_some(key);
    let count = {
        let (ctx, store) = (ctx.clone(), store.clone());
        move |report: LegReport| count(ctx, store, keys.into_iter().collect(), report)
    };
    let body = match ctx.wire {
        Some(id) if headers::is_stream(&parts.headers) => {
            let machine = wire(id).machine(&View::empty(id), ResponseWatch::default());
            let merge = StreamMerge::new(machine, config.limits.frame_bytes, false);
            let over = |report: &LegReport| drop(tokio::spawn(count(report.clone())));
            ResponseBody::stream(TeeBody::new(body, merge, over))
        }
        id if is_json(&parts.headers) => {
            let all = match download::whole(body, config.limits.body_bytes, bodies).await {
                Ok(all) => all,
                Err(fault) => return ctx.refuse(fault),
            };
            let reply = |id| wire(id).reply(&View::empty(id), &all, ResponseWatch::default());
            if let Some(report) = id.and_then(reply).or_else(|| stated_usage(&all)) {
                count(report).await;
            }
            ResponseBody::whole(all)
        }
        _ => body,
    };
    Response::from_parts(parts, body)
}

/// Counts the usage of a response, and charges it to these ledgers.
async fn count(ctx: RequestContext, store: SharedStore, keys: Vec<String>, report: LegReport) {
    let stored = stored_response(&ctx.target);
    let is_new = match stored {
        None => report.usage != Usage::default(),
        // Unless the request ran in the background, its own response was counted.
        Some(_) => report.background.is_some() && is_first(&store, &ctx.principal, &report).await,
    };
    if !is_new {
        return;
    }
    ctx.count_leg(&report);
    ctx.recorder.note(|e| {
        let charge = Charge {
            principal: ctx.principal.clone(),
            keys,
            is_fetched: stored.is_some(),
            ..Charge::default()
        };
        e.charge = Some(charge.into());
        e.model = e.served.last().cloned().flatten().map(|served| served.model);
    });
}

/// Marks the usage of a background response as counted, if it states any. Returns whether it was not before.
pub async fn is_first(store: &SharedStore, principal: &str, report: &LegReport) -> bool {
    /// Held from the look-up to the mark, because two first fetches may run at once.
    static MARKING: Mutex<()> = Mutex::const_new(());
    let _held = MARKING.lock().await;
    let mark = format!("usage of {}", report.id);
    report.usage != Usage::default()
        && matches!(store.response_id(principal, &mark).await, Ok(None))
        && store.put_response_id(principal, &mark, "").await.is_ok()
}
