//! Fifth stage: sends a request's first leg upstream. Later legs and the requests for drafts go through the same sender.

mod refusal;
mod retry;
mod sender;
mod sent;

use http::StatusCode;

use super::{Exchange, recording};

use self::refusal::refuses_model;
pub(super) use self::sender::{later_or_own, later_to, readable};
pub(super) use self::sent::{FirstLeg, Sent};

/// Sends the first leg, and retries it once if upstream's refusal has a remedy.
pub(super) async fn send(exchange: Exchange) -> FirstLeg {
    let Exchange {
        app, ctx, offered, ..
    } = &exchange;
    let mut request = offered.plan(app).first(offered.offer.tooled);
    recording::note_lost(&exchange, &request);
    let mut answered = sender::first(&exchange, &request).await;
    if let (Some(model), Ok(response)) = (&request.model, &answered)
        && refuses_model(response.status())
    {
        let model = model.clone();
        app.refused_models.is_first(&model);
        request = offered.plan(app).first(offered.offer.tooled);
        answered = sender::first(&exchange, &request).await;
        sender::settle_model(&exchange, &model, &answered);
    }
    let response = match answered {
        Ok(response) => response,
        Err(fault) => return FirstLeg::Refused(ctx.refuse(fault.into())),
    };
    ctx.recorder.first_byte();
    let wire = offered.agent.wire;
    let may_retry = wire.facts().binds_prefixes()
        || offered.pin.active.is_some() && wire.facts().may_refuse_thinking()
        || retry::lacks_pairs(offered);
    let refused = response.status() == StatusCode::BAD_REQUEST && may_retry && !app.is_shadow(ctx);
    let sent = Sent {
        exchange,
        request,
        response,
    };
    match refused {
        true => Box::pin(retry::retry(sent)).await,
        false => FirstLeg::Sent(sent),
    }
}
