//! Responses in shadow mode: relayed byte for byte, and parsed on the way.

use http::Response;

use super::effects::Answered;
use crate::exchange::recording;
use crate::proxy::relay;
use crate::proxy::response_body::ResponseBody;
use crate::proxy::tee_body::TeeBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::wire::{LegReport, StopReason};

/// Relays a response unchanged, and counts it.
pub(super) async fn answer(answered: Answered, streamed: bool) -> Response<ResponseBody> {
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
