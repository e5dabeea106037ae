//! Requests for responses that upstream stores: `GET` and `DELETE /v1/responses/{id}`, and the paths below.
//!
//! The agent knows a response of several legs by the first leg's id. Upstream stores the last leg under another id.

use bytes::Bytes;
use http::{Method, Response};
use memchr::memmem;

use super::download::whole;
use super::fault::{Code, Fault};
use super::min_rate::MinRateBody;
use super::response_body::{AgentResponse, ResponseBody};
use super::route::stored_response;
use super::{Gateway, RequestContext, headers, relay};
use crate::state::store::StoreResult;
use baton_core::record::ResponseOrigin;
use baton_core::wire::wire;

/// Target with upstream's id, and both ids.
struct Mapped {
    target: String,
    shown: String,
    upstream: String,
}

/// Relays a request without a transcript, and translates the id of a stored response in both directions.
pub(super) async fn run(gateway: &Gateway, mut ctx: RequestContext, body: MinRateBody) -> AgentResponse {
    if let Some((_, id, _)) = stored_response(&ctx.target)
        && let Err(fault) = ctx.check_response(&*gateway.parts.store, id).await
    {
        return ctx.refuse(fault);
    }
    let mapped = match mapped(gateway, &ctx).await {
        Ok(Some(mapped)) => mapped,
        Ok(None) => return relay::run(ctx, body).await,
        Err(error) => {
            // Upstream has another response, or none, under the agent's id: the wrong one would be read or deleted.
            tracing::error!(exchange = ctx.id, %error, "failed to look up the id of a stored response; refusing the request");
            let why = "upstream's id of the response cannot be looked up";
            return ctx.refuse(Fault::because(Code::STORE, why));
        }
    };
    ctx.target.clone_from(&mapped.target);
    let limit = gateway.parts.config.limits.body_bytes;
    let plain = ctx.method == Method::GET || ctx.method == Method::DELETE;
    let response = relay::run(ctx.clone(), body).await;
    let (parts, body) = response.into_parts();
    // Other methods, streams and encoded bodies are relayed with upstream's id.
    if !plain
        || headers::is_stream(&parts.headers)
        || parts.headers.contains_key(http::header::CONTENT_ENCODING)
    {
        return Response::from_parts(parts, body);
    }
    match whole(body, limit, &gateway.parts.bodies).await {
        Ok(all) => {
            let text = renamed(&all, &mapped.upstream, &mapped.shown);
            relay::headed(&parts, true, ResponseBody::whole(text))
        }
        Err(fault) => ctx.refuse(fault),
    }
}

async fn mapped(gateway: &Gateway, ctx: &RequestContext) -> StoreResult<Option<Mapped>> {
    if ctx.wire.is_none_or(|id| wire(id).items.is_none()) {
        return Ok(None);
    }
    let Some((before, id, rest)) = stored_response(&ctx.target) else {
        return Ok(None);
    };
    let found = gateway.parts.store.response_id(&ctx.principal, id).await?;
    // A response that ended with its handoff has the same id upstream.
    let found = found.map(|found| ResponseOrigin::read(&found));
    let upstream = found.as_ref().and_then(ResponseOrigin::response);
    let other = upstream.filter(|upstream| *upstream != id);
    Ok(other.map(|upstream| Mapped {
        target: format!("{before}{upstream}{rest}"),
        shown: id.to_owned(),
        upstream: upstream.to_owned(),
    }))
}

/// Replaces upstream's id in a body with the one that the agent knows.
fn renamed(body: &Bytes, from: &str, to: &str) -> Bytes {
    // With quotes, so that a longer id that begins with this one does not match.
    let (from, to) = (format!("\"{from}\""), format!("\"{to}\""));
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for hit in memmem::find_iter(body, &from) {
        out.extend_from_slice(&body[at..hit]);
        out.extend_from_slice(to.as_bytes());
        at = hit + from.len();
    }
    out.extend_from_slice(&body[at..]);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_reads_the_id_it_knows() {
        let body = Bytes::from_static(b"{\"id\":\"resp_2\",\"text\":\"resp_2\",\"x\":\"resp_22\"}");
        let wanted = b"{\"id\":\"resp_1\",\"text\":\"resp_1\",\"x\":\"resp_22\"}";
        assert_eq!(renamed(&body, "resp_2", "resp_1"), &wanted[..]);
    }
}
