//! A planned request, of which the upstream requests are built.

use super::read::AgentRequest;
use crate::serve::exchange::app::App;
use baton_core::agents::{goals, loaded_tools, wordings};
use baton_core::commands::pinned_text;
use baton_core::course::NextLeg;
use baton_core::mark::sentinel;
use baton_core::plan::{CutPlace, Pin, Places, ToolOffer};
use baton_core::record::{Handoff, HandoffId, OpenResponse};
use baton_core::rewrite::{
    ChangeReason, ContinuedResponse, Cut, Rewrite, RewriteOutcome, SizeChange, lost, preamble, rewrite,
};
use baton_core::transcript::{SessionGoal, Transcript};
use baton_core::wire::TextOnly;

/// A request with all that is known of it before it is sent.
#[derive(Clone)]
pub(super) struct Offered {
    pub(super) agent: AgentRequest,
    pub(super) pin: Pin,
    pub(super) places: Places,
    pub(super) offer: ToolOffer,
}

/// The model of a route, unless upstream is known to refuse it.
fn known_model<'a>(app: &App, routed: Option<&'a str>) -> Option<&'a str> {
    routed.filter(|model| !app.refused_models.contains(model))
}

impl Offered {
    /// The request as it goes upstream for the first leg.
    pub(super) fn first(&self, app: &App, tooled: bool) -> RewriteOutcome {
        self.rewritten(&self.as_received(app, tooled))
            .cut_at(self.active_id())
    }

    /// The request of a leg that starts afresh after a handoff.
    pub(super) fn fresh(&self, app: &App, handoff: &Handoff) -> RewriteOutcome {
        self.rewritten(&self.after(app, &handoff.head, handoff.routed.as_deref()))
    }

    /// The request of a later leg: afresh after a handoff, or the first one's, with more appended.
    pub(super) fn later_leg(&self, app: &App, leg: &NextLeg) -> RewriteOutcome {
        let fired = leg.after.and_then(|id| app.sessions.known_handoff(id));
        let routed = fired.as_ref().and_then(|fired| fired.routed.as_deref());
        let view = match &leg.head {
            Some(head) => self.after(app, head, routed),
            None => self.as_received(app, true),
        };
        let what = Rewrite {
            more: &leg.more,
            ..view
        };
        self.rewritten(&what).cut_at(leg.after.or(self.active_id()))
    }

    /// The model that the active handoff names in place of the requested one.
    pub(super) fn routed(&self) -> Option<&str> {
        self.pin.active.as_ref()?.routed.as_deref()
    }

    /// The model that the request goes to; empty where it names none.
    pub(super) fn model(&self, app: &App) -> &str {
        let requested = self.agent.request.view().facts.model.as_deref();
        known_model(app, self.routed()).or(requested).unwrap_or_default()
    }

    /// The handoff that the request is cut at.
    pub(super) fn active_id(&self) -> Option<HandoffId> {
        self.pin.active_id()
    }

    /// The carry-over prompt that the transcript begins with.
    pub(super) fn carry_over(&self) -> Option<String> {
        self.pin.active.as_ref().map(|active| active.prompt.clone())
    }

    /// The first turn that the model sees.
    pub(super) fn kept_from(&self) -> usize {
        let Some(active) = &self.pin.active else {
            return 0;
        };
        let after = usize::from(active.candidate().is_some());
        active.turn().map_or(0, |turn| turn + after)
    }

    /// The sentinel of a handoff as it is shown.
    pub(super) fn sentinel(&self, app: &App, handoff: &Handoff) -> String {
        let (id, reason) = (handoff.id, handoff.reason.as_deref());
        let mark = match handoff.spelled_out.unwrap_or(app.policy().spelled_out) {
            true => {
                let seal = app.seals.now().seal(&handoff.principal, id, &handoff.prompt);
                sentinel::full(id, reason, &handoff.prompt, &seal)
            }
            false => sentinel::short(id, reason),
        };
        self.agent.wire.sentinel_text(&mark)
    }

    /// The request as it goes upstream for the first leg, with `more` appended, for an answer in text alone.
    pub(super) fn for_a_text(&self, app: &App, more: &[String], how: TextOnly) -> RewriteOutcome {
        let what = Rewrite {
            more,
            text_only: Some(how),
            ..self.as_received(app, self.offer.tooled)
        };
        self.rewritten(&what).cut_at(self.active_id())
    }

    /// How many pairs found no place in the request, though it was theirs before.
    pub(super) fn lost(&self, first: &RewriteOutcome) -> usize {
        let (pairs, here) = (&self.places.pairs, &self.places.beside_calls);
        lost(
            self.agent.wire,
            self.agent.request.reading(),
            self.cut(),
            pairs,
            here,
            &first.placed,
        )
        .iter()
        .filter(|id| !self.places.without_searches.contains(id))
        .count()
    }

    /// Where the transcript is cut.
    pub(super) fn cut(&self) -> Cut<'_> {
        let Some(active) = &self.pin.active else {
            return Cut::None;
        };
        let head = &active.head;
        match &active.place {
            CutPlace::Sentinel(candidate) => Cut::At {
                candidate,
                prompt: Some(&*active.prompt).filter(|_| active.spelled_out),
                head,
            },
            CutPlace::BeforeTurn(turn) => Cut::BeforeTurn { turn: *turn, head },
            CutPlace::Upstream => Cut::Before { head },
            CutPlace::Text(edits) => Cut::Text { edits },
        }
    }

    /// The offset in the request before which the model sees nothing any more. What a provider holds, and what was
    /// flattened into one text, is not in it.
    pub(super) fn cut_end(&self) -> usize {
        let view = self.agent.request.view();
        match self.cut() {
            Cut::At { candidate, .. } => candidate.sentinel.at,
            Cut::BeforeTurn { turn, .. } => {
                view.turns.get(turn).map_or(view.list.end, |turn| turn.span.start)
            }
            Cut::Fresh { .. } => view.list.end,
            Cut::None | Cut::Text { .. } | Cut::Before { .. } => view.list.start,
        }
    }

    fn rewritten(&self, what: &Rewrite<'_>) -> RewriteOutcome {
        let mut rewritten = rewrite(self.agent.wire, self.agent.request.reading(), what);
        if let Some(removed) = self.pin.taken_out.removed {
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

    /// What the model sees after a handoff of this answer with this head, which may name another model.
    fn after<'a>(&'a self, app: &'a App, head: &'a str, routed: Option<&'a str>) -> Rewrite<'a> {
        Rewrite {
            cut: Cut::Fresh { head },
            tools: Some(app.tools_with(self.offer.recall_next, self.offer.recall_next)),
            model: known_model(app, routed),
            ..self.as_received(app, true)
        }
    }

    /// The received request as the model sees it: cut at the active handoff.
    fn as_received<'a>(&'a self, app: &'a App, tooled: bool) -> Rewrite<'a> {
        Rewrite {
            cut: self.cut(),
            tools: tooled.then(|| app.tools_with(self.offer.recall, self.offer.searchable)),
            pairs: &self.places.pairs,
            insertions: &self.places.insertions,
            omitted: self.places.omitted,
            more: &[],
            previous: self.goes_on(),
            tags: &app.config.handoff.preamble_tags,
            text_only: None,
            model: known_model(app, self.routed()),
        }
    }

    /// The response that the request continues, as upstream knows it.
    fn goes_on(&self) -> Option<ContinuedResponse<'_>> {
        let id = self.pin.previous.as_ref()?.response()?;
        Some(ContinuedResponse {
            id,
            owed: &self.pin.owed,
        })
    }

    /// The turn that began in a response which upstream stores, and that this request continues with. A handoff may be pending
    /// until its end.
    pub(super) fn stored_turn(&self) -> Option<&OpenResponse> {
        let open = self.pin.previous.as_ref()?.open()?;
        self.pin.active.is_none().then_some(open)
    }

    /// Preamble, pins, goal, carry-over prompt and loaded tools for a new handoff: the active one's preamble where there is one, so that
    /// a chain keeps what its first cut kept.
    pub(super) fn head_for(&self, app: &App, prompt: &str) -> String {
        let live = self.agent.live.as_ref();
        let pins = live.map(|live| live.pins()).unwrap_or_default();
        let goal = self
            .goal(app)
            .map(|goal| goals::stated(&goal))
            .unwrap_or_default();
        let loaded = Transcript::of(self.agent.request.view()).loaded_tools();
        let loaded = loaded_tools::line(&loaded);
        let prompt = &format!("{}{goal}{prompt}{loaded}", pinned_text(&pins));
        let found = match &self.pin.active {
            Some(active) => preamble::of_head(self.agent.wire, self.agent.request.view(), &active.head),
            None => app
                .policy()
                .preamble(self.agent.wire, self.agent.request.reading(), None),
        };
        preamble::head(self.agent.wire, &found, prompt)
    }

    /// The goal that the agent still pursues. Where its transcript does not mention one, the active handoff's.
    fn goal(&self, app: &App) -> Option<String> {
        let view = self.agent.request.view();
        match Transcript::of(view).goal(&app.config.handoff.preamble_tags) {
            SessionGoal::Active(goal) => Some(goal),
            SessionGoal::Dropped => None,
            SessionGoal::Unmentioned => {
                let head = &self.pin.active.as_ref()?.head;
                let prompt = preamble::prompt_of_head(self.agent.wire, view, head)?;
                goals::split_stated(wordings::after_pins(&prompt)).map(|(goal, _)| goal.to_owned())
            }
        }
    }
}
