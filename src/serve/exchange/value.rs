//! The value that the stages of an exchange pass on: what is known of the request, and what its answer has shown.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use uuid::Uuid;

use super::app::App;
use super::request::Offered;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::answer_form::AnswerForm;
use crate::state::config::HandoffMode;
use crate::state::journal::PackedHeaders;
use crate::state::session::{AnswerId, ContextThread};
use crate::state::sync::locked;
use baton_core::course::ShownLine;
use baton_core::plan::Planned;
use baton_core::record::{Handoff, HandoffId};

/// One agent request from its offer on, and what its legs share.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) app: Arc<App>,
    pub(super) ctx: RequestContext,
    pub(super) offered: Arc<Offered>,
    pub(super) leg: LegState,
    /// The agent's headers, while the request is spilled.
    pub(super) spilled_headers: Option<PackedHeaders>,
    pub(super) record: AnswerRecord,
    /// What the answer begins with.
    pub(super) opening: AnswerOpening,
    /// What the agent sees while a draft is made.
    pub(super) shown: Option<Arc<ShownDraft>>,
    /// The conversation's thread, where the model may get notices of how full its context is.
    pub(super) thread: Option<ContextThread>,
}

/// What the agent sees while a draft is made. All clones of an exchange share it.
pub(super) struct ShownDraft {
    line: Mutex<ShownLine>,
    begun: Notify,
}

impl ShownDraft {
    pub(super) fn new(line: ShownLine) -> Self {
        Self {
            line: Mutex::new(line),
            begun: Notify::new(),
        }
    }

    pub(super) fn line(&self) -> MutexGuard<'_, ShownLine> {
        locked(&self.line)
    }

    /// Shows the line, where it is not shown yet.
    pub(super) fn begin(&self) {
        if self.line().begin(Uuid::now_v7()) {
            self.begun.notify_one();
        }
    }

    /// Is done when the line is shown.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Shows the draft's result, its note, and `rest`.
    pub(super) fn end(&self, result: &str, rest: &str) {
        self.line().end(result, rest, Uuid::now_v7());
    }
}

/// The present leg.
#[derive(Clone, Copy)]
pub(super) struct LegState {
    /// Whether the tool was offered in what upstream answered.
    pub(super) tooled: bool,
    /// Whether the leg starts after a handoff of this very answer.
    pub(super) fresh: bool,
}

/// The answer as it is recorded.
#[derive(Clone, Default)]
pub(super) struct AnswerRecord {
    /// Identifies this answer among those to the same request.
    pub(super) id: AnswerId,
    /// The handoffs that the answer shows.
    pub(super) fired: Fired,
}

/// The handoffs of one answer, shared by all clones of its exchange.
#[derive(Clone, Default)]
pub(super) struct Fired(Arc<Mutex<Vec<HandoffId>>>);

impl Fired {
    /// The handoffs, in the order in which they are shown.
    pub(super) fn list(&self) -> MutexGuard<'_, Vec<HandoffId>> {
        locked(&self.0)
    }
}

/// The text of baton's own that an answer begins with. One answer begins with one at most.
#[derive(Clone, Default)]
pub(super) enum AnswerOpening {
    /// The model's own words, or a handoff's sentinel alone.
    #[default]
    None,
    /// The report of a handoff, in front of its sentinel.
    Report(Arc<str>),
    /// A notice for the person, in front of the model's own words.
    Notice(Arc<str>),
}

impl AnswerOpening {
    /// The text in front of the model's own words, where no sentinel begins the answer.
    pub(super) fn before_model(&self) -> Option<&str> {
        match self {
            Self::Notice(text) => Some(text),
            Self::None | Self::Report(_) => None,
        }
    }

    /// The sentinel that begins the answer, with the report in front of it.
    pub(super) fn with_sentinel(&self, sentinel: &str) -> String {
        match self {
            Self::Report(report) if sentinel.starts_with('\n') => format!("{report}{sentinel}"),
            Self::Report(report) => format!("{report}\n\n{sentinel}"),
            Self::None | Self::Notice(_) => sentinel.to_owned(),
        }
    }
}

impl Exchange {
    pub(super) fn new(app: Arc<App>, ctx: RequestContext, offered: Offered) -> Self {
        Self {
            app,
            ctx,
            leg: LegState {
                tooled: offered.offer.tooled,
                fresh: false,
            },
            offered: Arc::new(offered),
            spilled_headers: None,
            record: AnswerRecord::default(),
            opening: AnswerOpening::None,
            shown: None,
            thread: None,
        }
    }

    /// The form in which the answer is expected.
    pub(super) fn form(&self) -> AnswerForm {
        let agent = &self.offered.agent;
        let wants_stream = agent.request.view().facts.stream;
        AnswerForm::of(&self.ctx.target, agent.wire().facts().framing, wants_stream)
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
    pub(super) fn plan(&self) -> Planned<'_> {
        self.offered.plan(&self.app)
    }

    /// Spills the request while its response streams: only a later leg needs it, and most responses have none.
    pub(super) fn spill(&mut self) {
        Arc::make_mut(&mut self.offered)
            .agent
            .request
            .spill(&self.app.spill);
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
        offered.agent.request.reclaim().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_only_before_a_sentinel_and_a_notice_only_before_the_model() {
        let report = AnswerOpening::Report("handed over".into());
        assert_eq!(
            (&*report.with_sentinel("[[s]]"), report.before_model()),
            ("handed over\n\n[[s]]", None)
        );
        assert_eq!(report.with_sentinel("\n\n[[s]]"), "handed over\n\n[[s]]");
        let notice = AnswerOpening::Notice("a draft is open".into());
        assert_eq!(
            (&*notice.with_sentinel("[[s]]"), notice.before_model()),
            ("[[s]]", Some("a draft is open"))
        );
        let none = AnswerOpening::default();
        assert_eq!(
            (&*none.with_sentinel("[[s]]"), none.before_model()),
            ("[[s]]", None)
        );
    }
}
