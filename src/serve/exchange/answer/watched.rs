//! A shadow's answer: relayed byte for byte, and read on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, header};
use hyper::body::{Body, Frame, SizeHint};

use crate::serve::exchange::{Exchange, record_writer, send};
use crate::serve::proxy::download::{PolledFrame, StreamFault, UpstreamBody};
use crate::serve::proxy::relay;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::StreamMerge;
use baton_core::wire::StopReason;

/// Relays an answer as it comes, and counts it.
pub(super) async fn answer(exchange: Exchange, response: Response<UpstreamBody>) -> Response<ResponseBody> {
    let (parts, body) = response.into_parts();
    let form = exchange.form();
    let (streamed, whole) = (form.is_stream(&parts.headers), form.is_whole(&parts.headers));
    // What is compressed, though that was not asked for, would have to be changed to be read.
    if parts.headers.contains_key(header::CONTENT_ENCODING) || !(streamed || whole) {
        return relay::answer(&exchange.ctx, Ok(Response::from_parts(parts, body)));
    }
    let body = match send::readable(&exchange, &parts, body) {
        Ok(body) => body,
        Err(body) => return relay::answer(&exchange.ctx, Ok(Response::from_parts(parts, body))),
    };
    if streamed {
        exchange.ctx.recorder.note(|e| e.streamed = true);
        let merge = exchange.merge();
        let watched = WatchedBody {
            body,
            merge,
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
        record_writer::count(&exchange, &report);
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
    fn saw(&mut self, chunk: Bytes) {
        if self.counted || self.merge.failed() {
            return;
        }
        // What the merge would show is not shown.
        self.merge.feed(chunk, &mut Vec::new());
        if self.merge.leg_ended() {
            self.count();
        }
    }

    fn ended(&mut self) {
        if !self.counted && !self.merge.failed() {
            self.merge.finish_leg(&mut Vec::new());
            self.count();
        }
    }

    fn count(&mut self) {
        self.counted = true;
        let report = self.merge.report();
        record_writer::count(&self.exchange, report);
        if report.stop != StopReason::Open {
            self.exchange
                .ctx
                .recorder
                .decide(ExchangeOutcome::of_end(report.stop));
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = StreamFault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(chunk) = Frame::data_ref(frame) {
                    self.saw(chunk.clone());
                }
            }
            Poll::Ready(None) => self.ended(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
