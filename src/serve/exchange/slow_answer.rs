//! Sends keep-alives to the agent while an answer takes long to begin.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use serde_json::Value;

use super::keepalive::KeepAlive;
use super::value::Exchange;
use super::{heavy, local_answer};
use crate::serve::proxy::answer_form::content_type;
use crate::serve::proxy::download::{PolledFrame, StreamFault};
use crate::serve::proxy::response_body::ResponseBody;
use baton_core::wire::{Framing, LegMachine, OwnError};

/// Bytes of an error answer that are reported in a stream.
const ERROR_BYTES: usize = 64 << 10;

type ResponseWork = super::heavy::OffloadedFuture<Response<ResponseBody>>;

/// The answer of `work`. A streamed one that has not begun after the time in which a keep-alive is due begins without it,
/// and `work`'s own answer is its continuation.
pub(super) async fn answered(
    exchange: Exchange,
    work: impl Future<Output = Response<ResponseBody>> + Send + 'static,
) -> Response<ResponseBody> {
    let mut work: ResponseWork = Box::pin(work);
    if !exchange.offered.agent.request.view().facts.stream {
        return work.await;
    }
    // It may outlive this function: then its polls are offloaded, too.
    work = heavy::offloaded(exchange.offered.agent.weight, work);
    let every = exchange.app.config.handoff.keepalive;
    let answered = tokio::select! {
        biased;
        response = &mut work => Some(response),
        () = begun(&exchange) => None,
        () = tokio::time::sleep(every) => None,
    };
    let answered = match answered {
        Some(response) if exchange.begun_draft().is_none() => return response,
        answered => answered,
    };
    let framing = exchange.form().framing();
    // If something was already shown, a keep-alive is not due yet.
    let quiet = match exchange.begun_draft() {
        Some(_) => KeepAlive::new(every),
        None => KeepAlive::at_once(every),
    };
    let mut waiting = WaitingBody {
        machine: exchange.machine(exchange.hidden()),
        phase: WaitPhase::Waits(work),
        quiet,
        framing,
        exchange,
    };
    if let Some(response) = answered {
        waiting.begun(response);
    }
    local_answer::of_kind(content_type(framing), ResponseBody::stream(waiting))
}

/// Is done when something of a draft is shown.
async fn begun(exchange: &Exchange) {
    match &exchange.shown {
        Some(shown) => shown.begun().await,
        None => std::future::pending().await,
    }
}

struct WaitingBody {
    exchange: Exchange,
    /// Its keep-alives are those of a stream that has not begun.
    machine: LegMachine,
    phase: WaitPhase,
    quiet: KeepAlive,
    framing: Framing,
}

enum WaitPhase {
    Waits(ResponseWork),
    /// The answer's own body.
    Goes(Box<ResponseBody>),
    /// An error answer is read, to be reported as an event.
    Fails(Pin<Box<dyn Future<Output = Bytes> + Send>>),
    Over,
}

impl WaitingBody {
    /// The part of a draft to send now.
    fn shown(&self) -> Option<Bytes> {
        self.exchange.shown.as_ref()?.line().take()
    }

    /// The answer is there.
    fn begun(&mut self, response: Response<ResponseBody>) {
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            self.phase = WaitPhase::Goes(Box::new(body));
            return;
        }
        let (framing, status) = (self.framing, parts.status);
        let wire = self.exchange.offered.agent.wire();
        let begun = self.exchange.begun_draft().is_some();
        self.phase = WaitPhase::Fails(Box::pin(async move {
            let read = http_body_util::Limited::new(body, ERROR_BYTES).collect().await;
            let body = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let error: Option<Value> = serde_json::from_slice(&body).ok();
            let error = error.map_or_else(
                || wire.error_body(OwnError::unreadable(status.as_u16())),
                |error| error.to_string(),
            );
            wire.stream_error(framing, &error, begun).into()
        }));
    }
}

impl Body for WaitingBody {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        loop {
            if let Some(shown) = self.shown() {
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            match &mut self.phase {
                WaitPhase::Waits(work) => {
                    if let Poll::Ready(response) = work.as_mut().poll(cx) {
                        self.begun(response);
                        continue;
                    }
                    if let Some(shown) = self.shown() {
                        self.quiet.sent();
                        return Poll::Ready(Some(Ok(Frame::data(shown))));
                    }
                    ready!(self.quiet.poll(cx));
                    let shown = self.exchange.shown.as_ref();
                    if shown.is_some_and(|shown| shown.line().keep_alive()) {
                        continue;
                    }
                    let mut out = Vec::new();
                    self.machine.keepalive(&mut out);
                    if !out.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(out.concat().into()))));
                    }
                }
                WaitPhase::Goes(body) => return Pin::new(&mut **body).poll_frame(cx),
                WaitPhase::Fails(event) => {
                    let Poll::Ready(event) = event.as_mut().poll(cx) else {
                        return Poll::Pending;
                    };
                    self.phase = WaitPhase::Over;
                    return Poll::Ready(Some(Ok(Frame::data(event))));
                }
                WaitPhase::Over => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.phase {
            WaitPhase::Goes(body) => body.is_end_stream() && self.exchange.shown.is_none(),
            WaitPhase::Over => true,
            WaitPhase::Waits(_) | WaitPhase::Fails(_) => false,
        }
    }
}
