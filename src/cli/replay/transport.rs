//! Sends the requests of a replay, and reads their answers.

use bytes::Bytes;

use super::request::ReplayRequest;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::log::unread;
use crate::cli::output::visible;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::Upstreams;
use crate::state::config::Config;
use crate::state::journal::{BodySide, JournalReader};

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 << 20;

/// What came then: the answer to the leg.
pub(super) fn recorded(query: &JournalReader, id: &str, leg: u32) -> Result<Bytes, CommandFailure> {
    let body = query.body(id, BodySide::Response(leg)).map_err(unread)?;
    Ok(Bytes::from(body.unwrap_or_default()))
}

/// Sends a request, and reads the whole answer.
pub(super) async fn send(
    config: &Config,
    request: &ReplayRequest,
    headers: http::HeaderMap,
) -> Result<(u16, Bytes), CommandFailure> {
    let unavailable = |detail: String| Exit::UNAVAILABLE.failure(visible(&detail));
    let upstreams = Upstreams::new(config).map_err(|error| unavailable(error.to_string()))?;
    let upstream = upstreams
        .get(&request.upstream)
        .ok_or_else(|| Exit::SOFTWARE.failure("the upstream is gone"))?;
    let again = headers.clone();
    let body = RopeBody::from(request.body.clone());
    let response = upstream.send(&request.method, &request.target, headers, || again, body);
    let response = response.await.map_err(|fault| {
        unavailable(format!(
            "{}: {}: {}",
            request.upstream, fault.code.name, fault.detail
        ))
    })?;
    let (head, body) = response.into_parts();
    let mut body = body
        .decoded(&head.headers)
        .map_err(|_| unavailable("the answer has an unknown content-encoding".to_owned()))?;
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece.map_err(|fault| unavailable(fault.to_string()))?);
        if all.len() > ANSWER_BYTES {
            return Err(unavailable(format!(
                "the answer is over {} MiB",
                ANSWER_BYTES >> 20
            )));
        }
    }
    Ok((head.status.as_u16(), Bytes::from(all)))
}
