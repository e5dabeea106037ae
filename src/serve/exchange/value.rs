//! The value that the stages of an exchange pass on: the planned request, and the state of its response.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::request::PlannedExchange;
use crate::app::App;
use crate::proxy::RequestContext;
use crate::proxy::answer_form::AnswerForm;
use crate::proxy::waiting::ShownDraft;
use crate::state::config::HandoffMode;
use crate::state::journal::PackedHeaders;
use crate::state::session::{ContextBranch, LiveAnswer};
use crate::state::store::records::ResponseChain;
use baton_core::plan::PlannedRequest;
use baton_core::record::Handoff;
use baton_core::response::AnswerOpening;

/// One agent request from planning on, with the state that its legs share.
///
/// Boxed: each stage of a request owns it while the next one runs, and would otherwise reserve space for a copy.
#[derive(Clone)]
pub(super) struct Exchange(Box<ExchangeState>);

impl Deref for Exchange {
    type Target = ExchangeState;

    fn deref(&self) -> &ExchangeState {
        &self.0
    }
}

impl DerefMut for Exchange {
    fn deref_mut(&mut self) -> &mut ExchangeState {
        &mut self.0
    }
}

/// State of an exchange.
#[derive(Clone)]
pub(super) struct ExchangeState {
    pub(super) app: Arc<App>,
    pub(super) ctx: RequestContext,
    pub(super) offered: Arc<PlannedExchange>,
    /// Whether the current leg follows a handoff in this response.
    pub(super) fresh: bool,
    /// The agent's headers, while the request is spilled.
    pub(super) spilled_headers: Option<PackedHeaders>,
    pub(super) answer: LiveAnswer,
    /// State before this request of a conversation that the provider stores.
    pub(super) chain: Option<Arc<ResponseChain>>,
    /// Text that precedes the model's output.
    pub(super) opening: AnswerOpening,
    /// Progress of a draft as the agent sees it. All clones share it.
    pub(super) shown: Option<Arc<ShownDraft>>,
    /// Branch of the conversation, if notices or cuts may depend on it.
    pub(super) branch: Option<ContextBranch>,
}

impl Exchange {
    pub(super) fn new(app: Arc<App>, ctx: RequestContext, offered: PlannedExchange) -> Self {
        Self(Box::new(ExchangeState {
            app,
            ctx,
            fresh: false,
            offered: Arc::new(offered),
            spilled_headers: None,
            answer: LiveAnswer::default(),
            chain: None,
            opening: AnswerOpening::None,
            shown: None,
            branch: None,
        }))
    }

    /// Whether the request upstream offers the tool.
    pub(super) fn tooled(&self) -> bool {
        self.offered.offer.tooled
    }

    /// Form of the response that the request expects.
    pub(super) fn form(&self) -> AnswerForm {
        let facts = self.offered.wire();
        AnswerForm::from_target(&self.ctx.target, facts.framing, self.offered.view().facts.stream)
    }

    /// Whether responses stop at a handoff.
    pub(super) fn stops(&self) -> bool {
        self.app.config.handoff.mode == HandoffMode::Stop
    }

    /// Sentinel of a handoff as the agent sees it.
    pub(super) fn sentinel(&self, handoff: &Handoff) -> String {
        self.plan().sentinel(handoff, || self.app.seals.now())
    }

    /// Returns the plan under the current policy.
    pub(super) fn plan(&self) -> PlannedRequest<'_> {
        self.offered.plan(&self.app)
    }

    /// Spills the request while its response streams. Only a later leg needs it, and most responses have none.
    pub(super) fn spill(&mut self) {
        let state = &mut *self.0;
        Arc::make_mut(&mut state.offered).spill(&state.app.spill);
        // Packed, because the headers are idle until a later leg.
        self.spilled_headers = Some(PackedHeaders::new(&std::mem::take(&mut self.ctx.headers)));
    }

    /// Reloads a spilled request into memory.
    ///
    /// # Errors
    /// The request cannot be read back, or has changed.
    pub(super) async fn reclaim(&mut self) -> io::Result<()> {
        let Some(headers) = self.spilled_headers.take() else {
            return Ok(());
        };
        self.ctx.headers = headers.map();
        self.offered_mut().reclaim().await
    }

    /// The planned request, to change it by one of its methods. Other clones of this exchange keep theirs.
    pub(super) fn offered_mut(&mut self) -> &mut PlannedExchange {
        Arc::make_mut(&mut self.offered)
    }
}
