//! Requests to a model for a draft, and their responses. The agent sees none of them.

use bytes::Bytes;

use crate::exchange::send::{self, LegKind};
use crate::exchange::{recording, value::Exchange};
use crate::proxy::download::UpstreamBody;
use crate::proxy::route;
use baton_core::handoffs::draft::{DraftEnd, DraftMethod, DraftRequest, DraftSpec, draft_of};
use baton_core::limits;
use baton_core::rewrite::RewriteOutcome;
use baton_core::tools::ToolNames;
use baton_core::wire::{self, LegReport, LoneText, TextOnly};
use baton_core::work::DraftIndex;

/// Maximum bytes of an error body that are read.
const ERROR_BYTES: usize = 64 << 10;

/// Inputs for writing the document of a draft.
pub(super) struct DraftInput<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) request: &'a DraftRequest,
    pub(super) index: DraftIndex,
    pub(super) repository: String,
}

impl DraftInput<'_> {
    /// Specification of the draft. `tokens` limits the part that baton assembles without a model.
    pub(super) fn spec(&self, tokens: usize) -> DraftSpec<'_> {
        self.request.spec(tokens, &self.repository)
    }

    /// Writes the document by this method.
    ///
    /// # Errors
    /// The response is incomplete or not a document, or the required pieces do not fit.
    pub(super) async fn written(&self, method: DraftMethod) -> Result<String, DraftEnd> {
        match method {
            DraftMethod::Oneshot => self.oneshot().await,
            DraftMethod::Bundle => self.bundle().await,
            DraftMethod::Local => {
                let spec = self.spec(self.exchange.app.config.draft.facts_tokens);
                self.index.local(&spec).map_err(DraftEnd::TooSmall)
            }
        }
    }

    /// Requests the document from the model after its own history: the live request with one more message.
    async fn oneshot(&self) -> Result<String, DraftEnd> {
        let exchange = self.exchange;
        let text = self.index.after_history(&self.spec(0), &exchange.app.prompts);
        let more = [exchange.offered.wire().user_text(&text)];
        let max_tokens = exchange.app.config.draft.max_tokens;
        let ask = async |forbids_calls| {
            let how = TextOnly {
                forbids_calls,
                max_tokens,
            };
            let leg = exchange.plan().for_a_text(&more, how);
            draft_leg(exchange, &leg, &exchange.ctx.target, DraftMethod::Oneshot).await
        };
        // A model that cannot call tools writes the document. Some upstreams refuse that form.
        let end = ask(true).await;
        let Some((status, why)) = end.as_ref().err().and_then(DraftEnd::refused_form) else {
            return end;
        };
        tracing::warn!(
            exchange = exchange.ctx.id,
            status,
            why,
            "upstream refused a draft request that forbids calls; retrying without that"
        );
        ask(false).await
    }

    /// Requests the document from a model that gets only a selection of the transcript.
    async fn bundle(&self) -> Result<String, DraftEnd> {
        let exchange = self.exchange;
        let config = &exchange.app.config.draft;
        let model = self.request.model.as_deref().or(config.model.as_deref());
        let spec = self.spec(config.bundle_tokens);
        let text = self.index.with_bundle(&spec, &exchange.app.prompts);
        let leg = exchange.plan().for_a_lone_text(LoneText {
            text: &text.map_err(DraftEnd::TooSmall)?,
            model,
            max_tokens: config.max_tokens,
        });
        let target = model.and_then(|model| route::with_model(&exchange.ctx.target, model));
        let target = target.as_deref().unwrap_or(&exchange.ctx.target);
        draft_leg(exchange, &leg, target, DraftMethod::Bundle).await
    }
}

/// Sends a request for a draft and reads its response to the end.
///
/// # Errors
/// The response is incomplete or not a document.
async fn draft_leg(
    exchange: &Exchange,
    leg: &RewriteOutcome,
    target: &str,
    method: DraftMethod,
) -> Result<String, DraftEnd> {
    exchange.ctx.recorder.note(|e| {
        // The index of the leg that is about to be sent. Its tokens do not count as the conversation's context.
        let at = e.sent_bytes.len();
        e.draft_legs.push(u32::try_from(at).unwrap_or(u32::MAX));
        e.draft_methods.push(method.name());
    });
    let budget = &exchange.app.bodies;
    let kind = LegKind::Later { target, added: true };
    let response = send::once(exchange, leg, kind).await;
    let response = response.map_err(|fault| unreached(fault.code.message))?;
    let status = response.status();
    let (parts, body) = response.into_parts();
    let body = send::readable(exchange, &parts, body);
    let body = body.map_err(|_| unreached("its answer cannot be decoded"))?;
    if !status.is_success() {
        let body = body.whole(ERROR_BYTES, budget).await.unwrap_or_default();
        return Err(DraftEnd::from_error(Some(status.as_u16()), &body));
    }
    let (raw, report) = match exchange.form().streams(&parts.headers) {
        Some(true) => streamed(exchange, body).await?,
        _ => {
            let body = body.whole(limits::LEG_LOG, budget).await;
            let body = body.map_err(|fault| unreached(fault.message()))?;
            if wire::is_error(&body) {
                return Err(DraftEnd::from_error(None, &body));
            }
            let report = exchange.read_reply(&body, ToolNames::NONE);
            let report = report.ok_or_else(|| unreached("its answer cannot be read"))?;
            (body, report)
        }
    };
    recording::count_unmeasured(exchange, &report);
    draft_of(&raw, &report)
}

/// Reads a stream to its end.
async fn streamed(exchange: &Exchange, mut body: UpstreamBody) -> Result<(Bytes, LegReport), DraftEnd> {
    // No call is hidden, because none is examined.
    let mut merge = exchange.merge_hiding(ToolNames::NONE, false);
    let (mut raw, mut out) = (Vec::new(), Vec::new());
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|fault| unreached(fault.to_string()))?;
        if raw.len() + piece.len() > limits::LEG_LOG {
            return Err(DraftEnd::TooLong);
        }
        raw.extend_from_slice(&piece);
        merge.feed(piece, &mut out);
        out.clear();
        // The last event was seen, so the draft does not wait for the end of the body.
        if merge.leg_ended() {
            body.drained();
            return Ok((raw.into(), merge.report().clone()));
        }
    }
    merge.finish_leg(&mut out);
    Ok((raw.into(), merge.report().clone()))
}

fn unreached(why: impl Into<String>) -> DraftEnd {
    DraftEnd::Unreached(why.into())
}
