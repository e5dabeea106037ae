//! Sends keep-alives to the agent while an answer takes long to begin.

use std::future::Future;

use http::Response;
use http_body_util::BodyExt;
use serde_json::Value;

use super::value::Exchange;
use crate::heavy;
use crate::proxy::answer_form;
use crate::proxy::response_body::ResponseBody;
use crate::proxy::waiting::WaitingBody;
use baton_core::wire::ProxyError;

/// Bytes of an error answer that are reported in a stream.
const ERROR_BYTES: usize = 64 << 10;

type ResponseWork = crate::heavy::OffloadedFuture<Response<ResponseBody>>;

/// The answer of `work`. A streamed one that has not begun after the time in which a keep-alive is due begins without it,
/// and `work`'s own answer is its continuation.
pub(super) async fn answered(
    exchange: Exchange,
    work: impl Future<Output = Response<ResponseBody>> + Send + 'static,
) -> Response<ResponseBody> {
    let mut work: ResponseWork = Box::pin(work);
    if !exchange.offered.view().facts.stream {
        return work.await;
    }
    // It may outlive this function: then its polls are offloaded, too.
    work = heavy::offloaded(exchange.offered.weight, work);
    let every = exchange.app.config.handoff.keepalive;
    let answered = tokio::select! {
        biased;
        response = &mut work => Some(response),
        () = begun(&exchange) => None,
        () = tokio::time::sleep(every) => None,
    };
    let is_begun = exchange.begun_draft().is_some();
    if let Some(response) = answered {
        if !is_begun {
            return response;
        }
        work = Box::pin(std::future::ready(response));
    }
    let (_, kind) = exchange.form().own_shape();
    let (shown, machine) = (exchange.shown.clone(), exchange.machine(exchange.hidden()));
    let waiting = WaitingBody::new(shown, machine, every, continuation(exchange, work));
    answer_form::own_response(kind, ResponseBody::stream(waiting))
}

/// The body of an answer whose stream has begun without it. An error is an event there.
async fn continuation(exchange: Exchange, work: ResponseWork) -> ResponseBody {
    let (parts, body) = work.await.into_parts();
    if parts.status.is_success() {
        return body;
    }
    let read = http_body_util::Limited::new(body, ERROR_BYTES).collect().await;
    let body = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let error: Option<Value> = serde_json::from_slice(&body).ok();
    let wire = exchange.offered.wire();
    let error = error.map_or_else(
        || wire.error_body(ProxyError::unreadable(parts.status.as_u16())),
        |error| error.to_string(),
    );
    let is_begun = exchange.begun_draft().is_some();
    ResponseBody::whole(wire.stream_error(exchange.form().framing(), &error, is_begun))
}

/// Is done when something of a draft is shown.
async fn begun(exchange: &Exchange) {
    match &exchange.shown {
        Some(shown) => shown.begun().await,
        None => std::future::pending().await,
    }
}
