//! The value that the stages of an exchange pass on: what is known of the request, and what its answer has shown.

use std::io;
use std::sync::Arc;

use super::request::PlannedExchange;
use crate::app::App;
use crate::proxy::RequestContext;
use crate::proxy::answer_form::AnswerForm;
use crate::proxy::waiting::ShownDraft;
use crate::state::config::HandoffMode;
use crate::state::journal::PackedHeaders;
use crate::state::session::{ContextThread, LiveAnswer};
use baton_core::plan::PlannedRequest;
use baton_core::record::Handoff;
use baton_core::response::AnswerOpening;

/// One agent request from its offer on, and what its legs share.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) app: Arc<App>,
    pub(super) ctx: RequestContext,
    pub(super) offered: Arc<PlannedExchange>,
    /// Whether the tool was offered in what upstream answered.
    pub(super) tooled: bool,
    /// Whether the present leg starts after a handoff of this very answer.
    pub(super) fresh: bool,
    /// The agent's headers, while the request is spilled.
    pub(super) spilled_headers: Option<PackedHeaders>,
    pub(super) answer: LiveAnswer,
    /// What the answer begins with.
    pub(super) opening: AnswerOpening,
    /// What the agent sees while a draft is made. All clones share it.
    pub(super) shown: Option<Arc<ShownDraft>>,
    /// The conversation's thread, where the model may get notices of how full its context is.
    pub(super) thread: Option<ContextThread>,
}

impl Exchange {
    pub(super) fn new(app: Arc<App>, ctx: RequestContext, offered: PlannedExchange) -> Self {
        Self {
            app,
            ctx,
            tooled: offered.offer.tooled,
            fresh: false,
            offered: Arc::new(offered),
            spilled_headers: None,
            answer: LiveAnswer::default(),
            opening: AnswerOpening::None,
            shown: None,
            thread: None,
        }
    }

    /// The form in which the answer is expected.
    pub(super) fn form(&self) -> AnswerForm {
        let facts = self.offered.wire().facts();
        AnswerForm::from_target(&self.ctx.target, facts.framing, self.offered.view().facts.stream)
    }

    /// Whether responses stop at a handoff.
    pub(super) fn stops(&self) -> bool {
        self.app.config.handoff.mode == HandoffMode::Stop
    }

    /// The sentinel of a handoff as it is shown.
    pub(super) fn sentinel(&self, handoff: &Handoff) -> String {
        self.plan().sentinel(handoff, || self.app.seals.now())
    }

    /// The plan, under the present policy.
    pub(super) fn plan(&self) -> PlannedRequest<'_> {
        self.offered.plan(&self.app)
    }

    /// Spills the request while its response streams: only a later leg needs it, and most responses have none.
    pub(super) fn spill(&mut self) {
        let offered = Arc::make_mut(&mut self.offered);
        offered.spill(&self.app.spill);
        self.spilled_headers = Some(PackedHeaders::new(&std::mem::take(&mut self.ctx.headers)));
    }

    /// Has the request again.
    ///
    /// # Errors
    /// It cannot be read back, or has changed.
    pub(super) async fn reclaim(&mut self) -> io::Result<()> {
        let Some(headers) = self.spilled_headers.take() else {
            return Ok(());
        };
        self.ctx.headers = headers.map();
        let offered = Arc::make_mut(&mut self.offered);
        offered.reclaim().await
    }
}
