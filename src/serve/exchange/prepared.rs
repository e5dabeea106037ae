//! A request with all that is known of it, and what is sent upstream in its place.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::active_handoff::{Active, Unresolved, fresh_preamble};
use super::heavy;
use super::request::Request;
use crate::serve::proxy::App;
use crate::state::session::LiveConversation;
use baton_core::commands::pinned_text;
use baton_core::handoffs::draft::TokenCounter;
use baton_core::record::{HandoffId, HiddenPair, ResponseOrigin};
use baton_core::rewrite::notes::UndoneHandoffs;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::rewrite::{
    ChangeReason, ContinuedResponse, Cut, PlacedInsertion, RequestReading, Rewrite, RewriteOutcome,
    SizeChange, lost, preamble, rewrite,
};
use baton_core::text::Span;
use baton_core::tools::ToolTable;
use baton_core::transcript::Transcript;
use baton_core::wire::{Role, TextOnly, Turn, Wire};

/// A transcript as the agent sent it, where commands and answers were taken out of it.
#[derive(Clone)]
pub(super) struct Received {
    pub(super) text: Bytes,
    pub(super) list: Span,
    pub(super) turns: Vec<Turn>,
}

impl Received {
    pub(super) fn of(reading: RequestReading) -> Self {
        let view = reading.view;
        Self {
            text: view.body,
            list: view.list,
            turns: view.turns,
        }
    }
}

/// A request, read, with what the store knows of it.
#[derive(Clone)]
pub(super) struct Prepared {
    /// Its wire.
    pub(super) wire: &'static dyn Wire,
    /// The request.
    pub(super) request: Request,
    /// How much work it is.
    pub(super) weight: usize,
    /// Whether the agent named its session: no other conversation has its key.
    pub(super) named: bool,
    /// Its conversation; `None` while the store cannot be reached.
    pub(super) live: Option<Arc<LiveConversation>>,
    /// What it is pinned to.
    pub(super) active: Option<Active>,
    /// Hidden pairs that may have their place in it.
    pub(super) pairs: Vec<HiddenPair>,
    /// Those of them that stand beside calls of this very transcript: others are of branches that it may not have.
    pub(super) beside_calls: Vec<Uuid>,
    /// Searches that were made behind a handoff which was undone: left out on purpose.
    pub(super) without_searches: Vec<Uuid>,
    /// Texts of ours that have their place in it.
    pub(super) insertions: Vec<PlacedInsertion>,
    /// The turn up to which thinking behind the cut is left out, since upstream has refused it.
    pub(super) omitted: Option<usize>,
    /// Whether it gets the tool.
    pub(super) tooled: bool,
    /// Whether it gets the tool that searches what was cut, too.
    pub(super) recall: bool,
    /// Whether requests behind a cut that is made now get that one.
    pub(super) recall_next: bool,
    /// Why not.
    pub(super) untooled: Option<ToolOmission>,
    /// The tool is ruled out, by the config or for this request.
    pub(super) forbidden: Option<ToolOmission>,
    /// A summary, or another request beside the conversation: no handoff fires in its answer.
    pub(super) side_call: bool,
    /// What upstream has behind the response that the request goes on from, where that is not what the agent knows.
    pub(super) previous: Option<ResponseOrigin>,
    /// The results, as elements, that calls of ours in that response wait for.
    pub(super) owed: Vec<String>,
    /// The conversation was pinned before and this transcript holds no sentinel, or none that can be read.
    pub(super) unpinned: bool,
    /// A sentinel of ours in form, whose handoff is neither in the store nor under its seal.
    pub(super) lost: Option<HandoffId>,
    /// What was taken out of the transcript as the agent sent it, in bytes; `None`: nothing was.
    pub(super) noted: Option<usize>,
    /// The transcript as the agent sent it then, until it is in the journal.
    pub(super) received: Option<Received>,
    /// What was undone in the chat.
    pub(super) undone: UndoneHandoffs,
    /// A person's line makes this request the first behind its handoff.
    pub(super) resumed: bool,
    /// Hash of the whole request, where the command that it ends with was taken out.
    pub(super) asked_hash: Option<u64>,
    /// The user's last text, which is a command.
    pub(super) command: Option<String>,
    /// The agent's last message begins with the line of a handoff that cannot be told: it is told so.
    pub(super) unresolved: Option<Unresolved>,
}

impl Prepared {
    /// Who counts tokens for the model that was asked.
    pub(super) fn count(&self) -> TokenCounter {
        let model = self.request.view().facts.model.as_deref();
        model.map_or(TokenCounter::default(), TokenCounter::of_model)
    }

    /// The request as it goes upstream for the first leg.
    pub(super) fn first(&self, app: &App, tooled: bool) -> RewriteOutcome {
        let tools = tooled.then(|| app.tools_with(self.recall));
        self.rewritten(app, self.cut(), tools, &[])
            .cut_at(self.active.as_ref().map(|active| active.id))
    }

    /// The request as it goes upstream for the first leg, with `more` behind it, for an answer in text alone.
    pub(super) fn for_a_text(&self, app: &App, more: &[String], how: TextOnly) -> RewriteOutcome {
        let what = Rewrite {
            more,
            text_only: Some(how),
            ..self.what(app, self.cut(), self.tooled.then(|| app.tools_with(self.recall)))
        };
        self.rewrite(&what)
            .cut_at(self.active.as_ref().map(|active| active.id))
    }

    /// Whether nothing waits for an answer but the last message: the model's last turn is answered, with all its calls.
    pub(super) fn is_at_rest(&self) -> bool {
        let view = self.request.view();
        let of_model = |turn: &Turn| turn.role == Role::Assistant;
        let mut back = view.turns.iter().rev();
        let last = back.find(|turn| !matches!(turn.role, Role::System | Role::Tools));
        if last.is_none_or(of_model) {
            return false;
        }
        let Some(end) = view.turns.iter().rposition(of_model) else {
            return true;
        };
        let before = view.turns[..end].iter().rposition(|turn| !of_model(turn));
        let begin = before.map_or(0, |before| before + 1);
        let uses = Transcript::of(view).tool_uses();
        let mut last = uses.iter().filter(|call| call.turn >= begin);
        last.all(|call| call.answer.is_some())
    }

    /// How many pairs found no place in the request, though it was theirs before.
    pub(super) fn lost(&self, first: &RewriteOutcome) -> usize {
        let (pairs, here) = (&self.pairs, &self.beside_calls);
        let lost = || {
            lost(
                self.wire,
                self.request.reading(),
                self.cut(),
                pairs,
                here,
                &first.placed,
            )
            .iter()
            .filter(|id| !self.without_searches.contains(id))
            .count()
        };
        heavy::work(self.weight, lost)
    }

    /// Where the transcript is cut.
    pub(super) fn cut(&self) -> Cut<'_> {
        let Some(active) = &self.active else {
            return Cut::None;
        };
        let head = &active.head;
        if let Some(edits) = &active.text {
            return Cut::Text { edits };
        }
        match (&active.candidate, active.before) {
            (Some(candidate), _) => Cut::At {
                candidate,
                prompt: Some(&*active.prompt).filter(|_| active.spelled_out),
                head,
            },
            (None, Some(turn)) => Cut::BeforeTurn { turn, head },
            (None, None) => Cut::Before { head },
        }
    }

    /// Where in the request that stands which the model does not see any more: in front of this offset. What a provider
    /// holds, and what was flattened into one text, is not in it.
    pub(super) fn cut_end(&self) -> usize {
        let view = self.request.view();
        match self.cut() {
            Cut::At { candidate, .. } => candidate.sentinel.at,
            Cut::BeforeTurn { turn, .. } => {
                view.turns.get(turn).map_or(view.list.end, |turn| turn.span.start)
            }
            Cut::Fresh { .. } => view.list.end,
            Cut::None | Cut::Text { .. } | Cut::Before { .. } => view.list.start,
        }
    }

    /// The request with `head` in place of everything before, and `more` behind.
    pub(super) fn rewritten(
        &self,
        app: &App,
        cut: Cut<'_>,
        tools: Option<&ToolTable>,
        more: &[String],
    ) -> RewriteOutcome {
        let what = Rewrite {
            more,
            ..self.what(app, cut, tools)
        };
        self.rewrite(&what)
    }

    fn rewrite(&self, what: &Rewrite<'_>) -> RewriteOutcome {
        let mut rewritten = heavy::work(self.weight, || rewrite(self.wire, self.request.reading(), what));
        if let Some(removed) = self.noted {
            let change = SizeChange {
                why: ChangeReason::Note,
                removed,
                added: 0,
                handoff: None,
            };
            rewritten.changes.insert(0, change);
        }
        rewritten
    }

    fn what<'a>(&'a self, app: &'a App, cut: Cut<'a>, tools: Option<&'a ToolTable>) -> Rewrite<'a> {
        Rewrite {
            cut,
            tools,
            pairs: &self.pairs,
            insertions: &self.insertions,
            omitted: self.omitted,
            more: &[],
            previous: self.goes_on(),
            tags: &app.config.handoff.preamble_tags,
            text_only: None,
        }
    }

    /// The response that the request goes on from, as upstream knows it.
    fn goes_on(&self) -> Option<ContinuedResponse<'_>> {
        let id = self.previous.as_ref()?.response()?;
        Some(ContinuedResponse { id, owed: &self.owed })
    }

    /// Carry-over prompt and reason of a handoff that waits for the end of a turn which began in a response that upstream
    /// holds.
    pub(super) fn held_pending(&self) -> Option<(String, Option<String>)> {
        let open = self.previous.as_ref()?.open()?;
        open.pending.clone().filter(|_| self.active.is_none())
    }

    /// Preamble, pins and carry-over prompt for a new handoff: the active one's preamble where there is one, so that
    /// a chain keeps what its first cut kept.
    pub(super) fn head_for(&self, app: &App, prompt: &str) -> String {
        let pins = self.live.as_ref().map(|live| live.pins()).unwrap_or_default();
        let prompt = &format!("{}{prompt}", pinned_text(&pins));
        heavy::work(self.weight, || {
            let found = match &self.active {
                Some(active) => preamble::of_head(self.wire, self.request.view(), &active.head),
                None => fresh_preamble(app, self.wire, self.request.reading(), None),
            };
            preamble::head(self.wire, &found, prompt)
        })
    }
}
