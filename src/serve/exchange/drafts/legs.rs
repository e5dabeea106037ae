//! The requests to a model for a draft, and their answers. The agent sees none of them.

use bytes::Bytes;
use http::Response;

use super::answer_text::draft_of;
use super::drafter::{DraftInput, Drafter};
use crate::serve::exchange::answer_form::AnswerForm;
use crate::serve::exchange::facts::lend_index;
use crate::serve::exchange::send::LegSender;
use crate::serve::exchange::shown::TextExtractor;
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::route;
use crate::state::files::repository;
use crate::state::jobs::drafts::LentIndex;
use baton_core::handoffs::draft::{DraftEnd, DraftFailure, DraftMethod, DraftSpec, TokenCounter};
use baton_core::limits;
use baton_core::rewrite::{ChangeReason, RewriteOutcome, SizeChange};
use baton_core::text::splice;
use baton_core::tools::ToolNames;
use baton_core::transcript::Transcript;
use baton_core::wire::{self, LoneText, Operation, ResponseWatch, TextOnly};

/// Statuses by which a server refuses such a request.
const REFUSES: [u16; 2] = [400, 422];

/// Bytes of an error's body that are read.
const ERROR_BYTES: usize = 64 << 10;

impl Drafter<'_> {
    /// Requests the document from the model after its own history: the live request, and one message more.
    pub(super) async fn oneshot(&self, input: &DraftInput<'_>) -> DraftEnd {
        let offered = &self.offered;
        let text = self.app.prompts.after_history(&input.request.focus);
        let more = [offered.agent.wire.user_text(&text)];
        let max_tokens = self.app.config.draft.max_tokens;
        for forbids_calls in [true, false] {
            let how = TextOnly {
                forbids_calls,
                max_tokens,
            };
            let leg = offered.for_a_text(self.app, &more, how);
            match self.draft_leg(&leg, &self.ctx.target, DraftMethod::Oneshot).await {
                DraftEnd::Failed(DraftFailure::Provider(Some(status), why))
                    if forbids_calls && REFUSES.contains(&status) =>
                {
                    tracing::warn!(
                        exchange = self.ctx.id,
                        status,
                        why,
                        "a draft without calls was refused: requested again"
                    );
                }
                end => return end,
            }
        }
        DraftEnd::Failed(DraftFailure::Internal)
    }

    /// Requests the document from a model with a selection of the transcript, and nothing else.
    pub(super) async fn bundle(&self, input: &DraftInput<'_>) -> DraftEnd {
        let config = &self.app.config.draft;
        let model = input.request.model.as_deref().or(config.model.as_deref());
        let spec = DraftSpec {
            tokens: config.bundle_tokens,
            count: model.map_or(input.count, TokenCounter::of_model),
            ..input.spec()
        };
        let bundle = match input.index.bundle(&spec) {
            Ok(bundle) => bundle,
            Err(why) => return DraftEnd::Failed(DraftFailure::TooSmall(why)),
        };
        let text = self.app.prompts.with_bundle(&bundle, &input.request.focus);
        let view = self.offered.agent.request.view();
        let lone = LoneText {
            text: &text,
            model,
            max_tokens: config.max_tokens,
        };
        let edits = self.offered.agent.wire.lone_text(view, lone);
        let leg = RewriteOutcome {
            changes: SizeChange::of(ChangeReason::Draft, &edits).into_iter().collect(),
            rope: splice::splice(&view.body, edits),
            messages: 1,
            placed: Vec::new(),
            pending: None,
            model: None,
        };
        let target = model.and_then(|model| route::with_model(&self.ctx.target, model));
        let target = target.as_deref().unwrap_or(&self.ctx.target);
        self.draft_leg(&leg, target, DraftMethod::Bundle).await
    }

    /// Sends one such request and reads the answer to its end.
    async fn draft_leg(&self, leg: &RewriteOutcome, target: &str, method: DraftMethod) -> DraftEnd {
        let response = match self.send_draft(leg, target, method).await {
            Ok(response) => response,
            Err(fault) => return DraftEnd::Failed(DraftFailure::Unreached(fault.code.message.to_owned())),
        };
        let status = response.status();
        let (parts, body) = response.into_parts();
        let Ok(body) = self.sender().readable(&parts, body) else {
            return DraftEnd::Failed(DraftFailure::Unreached("its answer cannot be decoded".to_owned()));
        };
        if !status.is_success() {
            let body = body
                .whole(ERROR_BYTES, &self.app.bodies.budget)
                .await
                .unwrap_or_default();
            return DraftEnd::Failed(DraftFailure::of_answer(status.as_u16(), &body));
        }
        match self.form().is_stream(&parts.headers) {
            true => self.read_streamed_draft(body).await,
            false => self.read_whole_draft(body).await,
        }
    }

    fn sender(&self) -> LegSender<'_> {
        LegSender {
            app: self.app,
            ctx: self.ctx,
        }
    }

    fn form(&self) -> AnswerForm {
        self.offered.agent.form(&self.ctx.target)
    }

    /// No call is hidden, since none is examined.
    fn watch_nothing(&self) -> ResponseWatch {
        ResponseWatch {
            hide: ToolNames::NONE,
            buffered_bytes: self.app.config.limits.held_bytes,
        }
    }

    async fn read_streamed_draft(&self, mut body: UpstreamBody) -> DraftEnd {
        let (agent, form) = (&self.offered.agent, self.form());
        let limit = self.app.config.limits.frame_bytes;
        let mut shown = self
            .shown
            .map(|shown| (shown, TextExtractor::new(form.framing(), limit)));
        let mut merge = agent.merge(form, self.watch_nothing(), limit, false);
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
                    if let Some((shown, pieces)) = &mut shown {
                        shown.piece(&pieces.feed(piece.clone()));
                    }
                    merge.feed(piece, &mut out);
                    out.clear();
                }
            }
            if merge.leg_ended() {
                body.drained();
                break;
            }
        }
        self.writer.count_draft(merge.report());
        draft_of(&raw, merge.report())
    }

    async fn read_whole_draft(&self, body: UpstreamBody) -> DraftEnd {
        let offered = &self.offered;
        let body = match body.whole(limits::LEG_LOG, &self.app.bodies.budget).await {
            Ok(body) => body,
            Err(fault) => return DraftEnd::Failed(DraftFailure::Unreached(fault.message().to_owned())),
        };
        let view = offered.agent.request.view();
        match offered.agent.wire.reply_to(view, &body, self.watch_nothing()) {
            _ if wire::is_error(&body) => DraftEnd::Failed(DraftFailure::of_event(&body)),
            Some(report) => {
                self.writer.count_draft(&report);
                draft_of(&body, &report)
            }
            None => DraftEnd::Failed(DraftFailure::Unreached("its answer cannot be read".to_owned())),
        }
    }

    /// The index of the transcript as the model sees it.
    pub(super) fn index(&self, rope: Vec<Bytes>) -> Option<LentIndex<'_>> {
        let body = splice::flat(rope);
        let view = self.offered.agent.wire.read(&body, Operation::Generate).ok()?;
        lend_index(self.app, self.offered, &Transcript::of(&view))
    }

    /// The state of the repository, where the config names one.
    pub(super) async fn repository(&self, wanted: bool) -> String {
        let Some(dir) = self.app.config.draft.git_dir.clone().filter(|_| wanted) else {
            return String::new();
        };
        let state = tokio::task::spawn_blocking(move || repository::state(&dir));
        state.await.unwrap_or_default()
    }

    /// Sends a request for a draft.
    async fn send_draft(
        &self,
        leg: &RewriteOutcome,
        target: &str,
        method: DraftMethod,
    ) -> Result<Response<UpstreamBody>, crate::serve::proxy::upstream::UpstreamFault> {
        let sent = self.sender().later_to(leg, target).await;
        self.ctx.recorder.note(|e| {
            let at = e.sent_bytes.len().saturating_sub(1);
            e.draft_legs.push(u32::try_from(at).unwrap_or(u32::MAX));
            e.draft_methods.push(method.name());
        });
        sent
    }
}
