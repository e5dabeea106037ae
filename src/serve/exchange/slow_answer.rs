//! Keep-alives for an agent whose response takes long to begin.

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

/// Maximum bytes of an error response that a stream reports.
const ERROR_BYTES: usize = 64 << 10;

type ResponseWork = crate::heavy::OffloadedFuture<Response<ResponseBody>>;

/// Returns the response of `work`.
///
/// If a streamed response has not begun when a keep-alive is due, the stream begins without it, and the
/// response of `work` continues the stream.
pub(super) async fn answered(
    exchange: Exchange,
    work: impl Future<Output = Response<ResponseBody>> + Send + 'static,
) -> Response<ResponseBody> {
    let mut work: ResponseWork = Box::pin(work);
    if !exchange.offered.view().facts.stream {
        return work.await;
    }
    // The future may outlive this function, and its polls are then offloaded as well.
    work = heavy::offloaded(exchange.offered.weight, work);
    let every = exchange.app.config.handoff.keepalive;
    let answered = tokio::select! {
        // Biased, because a response that is ready can be sent with its own status.
        biased;
        response = &mut work => Some(response),
        () = begun(&exchange) => None,
        () = tokio::time::sleep(every) => None,
    };
    let is_begun = exchange.begun_draft().is_some();
    if let Some(response) = answered {
        // Nothing was shown yet, so the response is sent as it is.
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

/// Body that continues a stream begun without it. In a stream, an error is an event.
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

/// Waits until the agent sees something of a draft.
async fn begun(exchange: &Exchange) {
    match &exchange.shown {
        Some(shown) => shown.begun().await,
        None => std::future::pending().await,
    }
}
