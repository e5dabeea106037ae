//! The requests to a model for a draft, and their answers. The agent sees none of them.

use crate::serve::exchange::{record_writer, send, value::Exchange};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::route;
use crate::state::files::repository;
use baton_core::handoffs::draft::{
    DraftEnd, DraftFailure, DraftIndex, DraftMethod, DraftRequest, DraftSpec, draft_of,
};
use baton_core::limits;
use baton_core::rewrite::RewriteOutcome;
use baton_core::tools::ToolNames;
use baton_core::wire::{self, LoneText, TextOnly};

/// Bytes of an error's body that are read.
const ERROR_BYTES: usize = 64 << 10;

/// What a draft is made of.
pub(super) struct DraftInput<'a> {
    pub(super) request: &'a DraftRequest,
    pub(super) index: &'a DraftIndex,
    pub(super) repository: &'a str,
}

impl<'a> DraftInput<'a> {
    /// The specification without a size, which is the method's.
    pub(super) fn spec(&self) -> DraftSpec<'a> {
        DraftSpec {
            focus: &self.request.focus,
            preset: self.request.preset,
            tokens: 0,
            repository: self.repository,
            git: self.request.git,
            commands: self.request.commands,
            why: self.request.why,
        }
    }
}

/// Requests the document from the model after its own history: the live request, and one message more.
pub(super) async fn oneshot(exchange: &Exchange, input: &DraftInput<'_>) -> DraftEnd {
    let offered = &exchange.offered;
    let text = input.index.after_history(&input.spec(), &exchange.app.prompts);
    let more = [offered.agent.wire.user_text(&text)];
    let max_tokens = exchange.app.config.draft.max_tokens;
    let ask = async |forbids_calls| {
        let how = TextOnly {
            forbids_calls,
            max_tokens,
        };
        let leg = offered.plan(&exchange.app).for_a_text(&more, how);
        draft_leg(exchange, &leg, &exchange.ctx.target, DraftMethod::Oneshot).await
    };
    let end = ask(true).await;
    let Some((status, why)) = end.refused_form() else {
        return end;
    };
    tracing::warn!(
        exchange = exchange.ctx.id,
        status,
        why,
        "a draft without calls was refused: requested again"
    );
    ask(false).await
}

/// Requests the document from a model with a selection of the transcript, and nothing else.
pub(super) async fn bundle(exchange: &Exchange, input: &DraftInput<'_>) -> DraftEnd {
    let config = &exchange.app.config.draft;
    let model = input.request.model.as_deref().or(config.model.as_deref());
    let spec = DraftSpec {
        tokens: config.bundle_tokens,
        ..input.spec()
    };
    let text = match input.index.with_bundle(&spec, &exchange.app.prompts) {
        Ok(text) => text,
        Err(why) => return DraftEnd::Failed(DraftFailure::TooSmall(why)),
    };
    let leg = exchange.plan().for_a_lone_text(LoneText {
        text: &text,
        model,
        max_tokens: config.max_tokens,
    });
    let target = model.and_then(|model| route::with_model(&exchange.ctx.target, model));
    let target = target.as_deref().unwrap_or(&exchange.ctx.target);
    draft_leg(exchange, &leg, target, DraftMethod::Bundle).await
}

/// Sends one such request and reads the answer to its end.
async fn draft_leg(exchange: &Exchange, leg: &RewriteOutcome, target: &str, method: DraftMethod) -> DraftEnd {
    exchange.ctx.recorder.note(|e| {
        let at = e.sent_bytes.len();
        e.draft_legs.push(u32::try_from(at).unwrap_or(u32::MAX));
        e.draft_methods.push(method.name());
    });
    let response = match send::later_to(exchange, leg, target, true).await {
        Ok(response) => response,
        Err(fault) => return DraftEnd::Failed(DraftFailure::Unreached(fault.code.message.to_owned())),
    };
    let status = response.status();
    let (parts, body) = response.into_parts();
    let Ok(body) = send::readable(exchange, &parts, body) else {
        return DraftEnd::Failed(DraftFailure::Unreached("its answer cannot be decoded".to_owned()));
    };
    if !status.is_success() {
        let body = body
            .whole(ERROR_BYTES, &exchange.app.bodies.budget)
            .await
            .unwrap_or_default();
        return DraftEnd::Failed(DraftFailure::of_answer(status.as_u16(), &body));
    }
    match exchange.form().streams(&parts.headers) {
        Some(true) => read_streamed_draft(exchange, body).await,
        _ => read_whole_draft(exchange, body).await,
    }
}

async fn read_streamed_draft(exchange: &Exchange, mut body: UpstreamBody) -> DraftEnd {
    // No call is hidden, since none is examined.
    let mut merge = exchange.merge_hiding(ToolNames::NONE, false);
    let (mut raw, mut out) = (Vec::new(), Vec::new());
    loop {
        match body.next().await {
            None => {
                merge.finish_leg(&mut out);
                break;
            }
            Some(Err(fault)) => return DraftEnd::Failed(DraftFailure::Unreached(fault.to_string())),
            Some(Ok(piece)) if raw.len() + piece.len() > limits::LEG_LOG => {
                return DraftEnd::Failed(DraftFailure::TooLong);
            }
            Some(Ok(piece)) => {
                raw.extend_from_slice(&piece);
                merge.feed(piece, &mut out);
                out.clear();
            }
        }
        if merge.leg_ended() {
            body.drained();
            break;
        }
    }
    record_writer::count_draft(exchange, merge.report());
    draft_of(&raw, merge.report())
}

async fn read_whole_draft(exchange: &Exchange, body: UpstreamBody) -> DraftEnd {
    let body = match body.whole(limits::LEG_LOG, &exchange.app.bodies.budget).await {
        Ok(body) => body,
        Err(fault) => return DraftEnd::Failed(DraftFailure::Unreached(fault.message().to_owned())),
    };
    match exchange.read_reply(&body, ToolNames::NONE) {
        _ if wire::is_error(&body) => DraftEnd::Failed(DraftFailure::of_event(&body)),
        Some(report) => {
            record_writer::count_draft(exchange, &report);
            draft_of(&body, &report)
        }
        None => DraftEnd::Failed(DraftFailure::Unreached("its answer cannot be read".to_owned())),
    }
}

/// The state of the repository, where the config names one.
pub(super) async fn repository(exchange: &Exchange, wanted: bool) -> String {
    let Some(dir) = exchange.app.config.draft.git_dir.clone().filter(|_| wanted) else {
        return String::new();
    };
    let state = tokio::task::spawn_blocking(move || repository::state(&dir));
    state.await.unwrap_or_default()
}
