//! A shadow's answer: relayed byte for byte, and read on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame};

use super::effects::Answered;
use crate::exchange::{recording, value::Exchange};
use crate::proxy::download::{PolledFrame, UpstreamBody};
use crate::proxy::fault::Fault;
use crate::proxy::relay;
use crate::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::StreamMerge;
use baton_core::wire::StopReason;

/// Relays an answer as it comes, and counts it.
pub(super) async fn answer(answered: Answered, streamed: bool) -> Response<ResponseBody> {
    let Answered {
        exchange,
        parts,
        body,
        ..
    } = answered;
    if streamed {
        exchange.ctx.recorder.note(|e| e.streamed = true);
        let watched = WatchedBody {
            body,
            merge: exchange.merge(),
            exchange,
            counted: false,
        };
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

/// A streamed answer that is read on its way.
struct WatchedBody {
    body: UpstreamBody,
    merge: StreamMerge,
    exchange: Exchange,
    counted: bool,
}

impl WatchedBody {
    /// Takes in what was polled: `None` at the end.
    fn saw(&mut self, polled: Option<&Result<Frame<Bytes>, Fault>>) {
        if self.counted || self.merge.failed() {
            return;
        }
        // What the merge would show is not shown.
        match polled {
            None => self.merge.finish_leg(&mut Vec::new()),
            Some(Ok(frame)) => {
                let chunk = frame.data_ref().cloned().unwrap_or_default();
                self.merge.feed(chunk, &mut Vec::new());
            }
            Some(Err(_)) => {}
        }
        if polled.is_none() || self.merge.leg_ended() {
            self.counted = true;
            let report = self.merge.report();
            recording::count(&self.exchange, report);
            if report.stop != StopReason::Open {
                let outcome = ExchangeOutcome::of_end(report.stop);
                self.exchange.ctx.recorder.decide(outcome);
            }
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            self.saw(frame.as_ref());
        }
        polled
    }
}
