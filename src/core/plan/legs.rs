//! Builds the upstream requests of a response's legs from a plan. Each is a value: its bytes, and a record of
//! the changes.

use std::sync::Arc;

use super::{Active, PlannedRequest};
use crate::agents::{goals, tools, wordings};
use crate::commands::pinned_text;
use crate::handoffs::carry::{self, EarlierWords, LeftOut, RuleSources, UserMessages, UsersWords};
use crate::handoffs::draft::OWN_MODEL;
use crate::handoffs::recall::CutPart;
use crate::marker::seal::SealKeys;
use crate::marker::sentinel;
use crate::record::{CutPoint, Handoff, HandoffId, HandoffOrigin, KeptTurns};
use crate::redact::Redactor;
use crate::rewrite::{
    ChangeReason, ContinuedResponse, Cut, Rewrite, RewriteOutcome, SizeChange, lone_text, lost, positions,
    preamble, rewrite, text_fingerprints,
};
use crate::tools::ToolNames;
use crate::transcript::{SessionGoal, Transcript};
use crate::wire::{LoneText, TextOnly, View};

/// A handoff that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHandoff {
    /// Normalized carry-over prompt.
    pub prompt: String,
    /// Reason, in the words of whoever started the handoff.
    pub reason: Option<String>,
    /// Handoff that is active at present.
    pub parent: Option<HandoffId>,
    pub origin: HandoffOrigin,
    /// Model for later requests, if one was named.
    pub to: Option<String>,
    /// Turns that stay after the cut of a reviewed draft.
    pub kept: Option<KeptTurns>,
}

impl NewHandoff {
    /// Creates a handoff that the model has started.
    pub fn of_model(prompt: String, reason: Option<String>, parent: Option<HandoffId>) -> Self {
        Self {
            prompt,
            reason,
            parent,
            origin: HandoffOrigin::Model,
            to: None,
            kept: None,
        }
    }
}

/// Query for the rules that a handoff carries.
pub struct RuleQuery<'a> {
    /// Previous handoff.
    pub earlier: Option<&'a Handoff>,
    /// Turns that stay after the cut of a reviewed draft, with the user's words in them.
    pub kept: Option<&'a KeptTurns>,
    /// Whether user messages come from the user. A subagent's come from its parent model.
    pub by_user: bool,
    /// Rules that the user pinned or dropped. They are carried otherwise, or not at all.
    pub without: &'a [String],
    /// Further words that mark a rule.
    pub markers: &'a [String],
    pub redactor: &'a Redactor,
}

/// Owner and time of a handoff.
pub struct HandoffSource<'a> {
    pub id: HandoffId,
    pub principal: &'a str,
    /// Key of the conversation.
    pub conversation: &'a str,
    /// The user's pins.
    pub pins: &'a [String],
    /// Model of the first route that the handoff matches.
    pub route: Option<&'a str>,
    /// Size of the agent's request in bytes.
    pub history_bytes: u64,
    pub now_ms: u64,
}

impl<'a> PlannedRequest<'a> {
    /// Builds the upstream request of the first leg.
    pub fn first(&self, tooled: bool) -> RewriteOutcome {
        self.rewritten(&self.as_received(tooled))
            .cut_at(self.pin.active_id())
    }

    /// Tools of baton that a leg offers. `fresh` means that the leg starts after a handoff of this response.
    pub fn offered(&self, tooled: bool, fresh: bool) -> ToolNames {
        let recall = match fresh {
            true => self.offer.recall_next,
            false => self.offer.recall,
        };
        match tooled {
            true => self.policy.tools.with(recall, recall).names(),
            false => ToolNames::NONE,
        }
    }

    /// Model that the request goes to; empty if it names none.
    pub fn model(self) -> &'a str {
        let requested = self.reading.view.facts.model.as_deref();
        let routed = self.known_model(self.pin.routed());
        routed.or(requested).unwrap_or_default()
    }

    /// Formats the sentinel of a handoff. `keys` is called only if the sentinel contains the prompt, which
    /// must be sealed.
    pub fn sentinel(&self, handoff: &Handoff, keys: impl FnOnce() -> Arc<SealKeys>) -> String {
        let (id, reason) = (handoff.id, handoff.reason.as_deref());
        // Stored with the handoff, so that a changed config does not change its sentinel.
        let mark = match handoff.spelled_out.unwrap_or(self.policy.spelled_out) {
            true => {
                let seal = keys().seal(&handoff.principal, id, &handoff.prompt);
                sentinel::full(id, reason, &handoff.prompt, &seal)
            }
            false => sentinel::short(id, reason),
        };
        self.reading.view.wire().sentinel_text(&mark)
    }

    /// Builds the first leg's request with `more` appended, for a response that is only text.
    pub fn for_a_text(&self, more: &[String], how: TextOnly) -> RewriteOutcome {
        let what = Rewrite {
            more,
            text_only: Some(how),
            ..self.as_received(self.offer.tooled)
        };
        self.rewritten(&what).cut_at(self.pin.active_id())
    }

    /// Builds a request for a plain-text response to a single message, without the conversation.
    pub fn for_a_lone_text(&self, lone: LoneText<'_>) -> RewriteOutcome {
        lone_text(self.reading, lone)
    }

    /// Counts pairs that were not placed in the request although they belong to it.
    pub fn lost(&self, first: &RewriteOutcome) -> usize {
        let (pairs, here) = (&self.places.pairs, &self.places.beside_calls);
        let lost = lost(self.reading, self.pin.cut(), pairs, here, &first.placed);
        let is_told = |id: &&uuid::Uuid| !self.places.without_searches.contains(id);
        lost.iter().filter(is_told).count()
    }

    /// The part of the request that the model does not see.
    ///
    /// History stored by a provider, and a flattened transcript, are not in it. `fresh` means that the leg
    /// starts after a handoff of this response.
    pub fn cut_part(&self, fresh: bool) -> CutPart<'a> {
        let view = &self.reading.view;
        let end = match self.pin.cut() {
            // After a handoff in this response, the whole request is history.
            _ if fresh => view.list.end,
            Cut::At { candidate, .. } => candidate.sentinel.at,
            Cut::BeforeTurn { turn, .. } => {
                view.turns.get(turn).map_or(view.list.end, |turn| turn.span.start)
            }
            Cut::Fresh { .. } => view.list.end,
            Cut::None | Cut::Text { .. } | Cut::Before { .. } => view.list.start,
        };
        let transcript = Transcript::from_view(view);
        CutPart { transcript, end }
    }

    pub(super) fn rewritten(&self, what: &Rewrite<'_>) -> RewriteOutcome {
        let mut rewritten = rewrite(self.reading, what);
        if let Some(removed) = self.pin.taken_out.removed {
            let change = SizeChange {
                why: ChangeReason::Note,
                removed,
                added: 0,
                handoff: None,
            };
            // Listed first, because the commands were removed before all other changes.
            rewritten.changes.insert(0, change);
        }
        rewritten
    }

    /// The received request in the model's view, cut at the active handoff.
    pub(super) fn as_received(&self, tooled: bool) -> Rewrite<'_> {
        Rewrite {
            cut: self.pin.cut(),
            tools: tooled.then(|| self.policy.tools.with(self.offer.recall, self.offer.searchable)),
            pairs: &self.places.pairs,
            insertions: &self.places.insertions,
            omitted: self.places.omitted,
            more: &[],
            previous: self.goes_on(),
            tags: self.policy.look.tags,
            text_only: None,
            model: self.known_model(self.pin.routed()),
        }
    }

    /// The response that the request continues, by its id at upstream.
    fn goes_on(&self) -> Option<ContinuedResponse<'_>> {
        let id = self.pin.previous.as_ref()?.response()?;
        Some(ContinuedResponse {
            id,
            owed: &self.pin.owed,
        })
    }

    /// Model of a route, unless upstream has refused it before.
    pub(super) fn known_model<'b>(&self, routed: Option<&'b str>) -> Option<&'b str> {
        routed.filter(|model| !self.policy.refused_models.has(model))
    }
}

/// Records that baton writes.
impl PlannedRequest<'_> {
    /// Collects the statements that a carry-over prompt should contain: the user's words in the whole history that
    /// the agent sends, the rules of the previous handoff, and the to-do list.
    pub fn users_words(&self, query: &RuleQuery<'_>) -> UsersWords {
        let active = self.pin.active.as_ref();
        let earlier = match query.earlier {
            Some(earlier) => EarlierWords::of_handoff(earlier),
            // The store has lost the previous handoff, so its rules are read from the prompt.
            None => active.map_or_else(EarlierWords::default, |active| {
                EarlierWords::behind_prompt(&active.prompt)
            }),
        };
        let said = match query.by_user {
            true => {
                let gone = self.before_kept(query.kept);
                let carry_over = self.pin.carry_over();
                let gone = Transcript::from_view(&gone);
                UserMessages::from_transcript(&gone, self.policy.look.tags, carry_over.as_deref())
            }
            false => UserMessages::default(),
        };
        let words = carry::users_words(&RuleSources {
            earlier: &earlier,
            said: &said,
            since: active.and_then(Active::turn),
            without: query.without,
            markers: query.markers,
            redactor: query.redactor,
        });
        let uses = Transcript::from_view(&self.reading.view).tool_uses();
        UsersWords {
            left_out: LeftOut::from_uses(&uses).filter(|_| self.offer.recall_next),
            has_recall: self.offer.recall_next,
            todos: carry::todo_list(&uses, query.redactor),
            ..words
        }
    }

    /// Creates a handoff of this request, which is not stored yet.
    pub fn handoff(&self, new: NewHandoff, source: &HandoffSource<'_>) -> Handoff {
        Handoff {
            id: source.id,
            principal: source.principal.to_owned(),
            conversation: source.conversation.to_owned(),
            wire: self.reading.view.wire,
            head: self.head_for(&new, source.pins),
            prompt: new.prompt,
            parent: new.parent,
            model: self.reading.view.facts.model.clone(),
            created_ms: source.now_ms,
            history_bytes: source.history_bytes,
            origin: new.origin,
            recall: self.offer.recall_next,
            archived: false,
            spelled_out: Some(self.policy.spelled_out),
            routed: self.routed_after(new.to, source.route),
            reason: new.reason,
            carried: Vec::new(),
            kept: new.kept,
        }
    }

    /// Model for requests after a handoff: the named one, else the route's, else the previous handoff's.
    fn routed_after(&self, named: Option<String>, route: Option<&str>) -> Option<String> {
        let model = self.reading.view.facts.model.as_deref()?;
        let routed = || route.or(self.pin.routed()).map(str::to_owned);
        // The agent's own model needs no override.
        named.or_else(routed).filter(|to| to != model && to != OWN_MODEL)
    }

    /// Position of a handoff in the agent's transcript, after everything in this request.
    ///
    /// `None` if the request has only a system prompt because the rest is stored upstream: that position
    /// could not be found again.
    pub fn cut_point(&self, handoff: &Handoff) -> Option<CutPoint> {
        let view = &self.reading.view;
        let since = self.pin.active.as_ref().and_then(Active::turn);
        let position = positions::of(view);
        let texts = text_fingerprints::texts(view, since.unwrap_or_default()..view.turns.len());
        (position.turns > 0).then(|| CutPoint {
            handoff: handoff.id,
            principal: handoff.principal.clone(),
            conversation: handoff.conversation.clone(),
            position,
            texts,
            before_command: self.pin.taken_out.is_last,
            created_ms: handoff.created_ms,
        })
    }

    /// Assembles preamble, pins, goal, carry-over prompt and loaded tools of a new handoff.
    ///
    /// The preamble is the agent's current one. If the transcript has none, because the provider stores the
    /// history or the agent has compacted it, the active handoff's is used.
    fn head_for(&self, new: &NewHandoff, pins: &[String]) -> String {
        let view = &self.reading.view;
        let prompt = &new.prompt;
        let goal = self.goal().map(|goal| goals::stated(&goal)).unwrap_or_default();
        // The results that load deferred tools are cut, so the next context must be told of them.
        let loaded = tools::line(&Transcript::from_view(view).loaded_tools());
        let prompt = &format!("{}{goal}{prompt}{loaded}", pinned_text(pins));
        // Turns that stay bring their own reminders.
        let gone = self.before_kept(new.kept.as_ref());
        // Without the command, the harness's last message before it would count as the user's.
        let is_commanded = self.pin.taken_out.is_last && new.kept.is_none();
        let until = is_commanded.then_some((gone.turns.len(), 0));
        let current = self.policy.preamble(&gone, until);
        let found = match &self.pin.active {
            Some(active) if current.is_empty() => preamble::of_head(view, &active.head),
            _ => current,
        };
        preamble::head(view.wire(), &found, prompt)
    }

    /// The transcript before the turns that stay after a cut.
    pub(super) fn before_kept(&self, kept: Option<&KeptTurns>) -> View {
        let mut view = self.reading.view.clone();
        let stays = kept.map(|kept| view.leading() + kept.from.turns);
        view.turns.truncate(stays.unwrap_or(usize::MAX));
        view
    }

    /// Goal that the agent still pursues. If its transcript does not mention one, the active handoff's
    /// counts.
    fn goal(&self) -> Option<String> {
        let view = &self.reading.view;
        match Transcript::from_view(view).goal(self.policy.look.tags) {
            SessionGoal::Active(goal) => Some(goal),
            // A goal that was dropped after the previous handoff must not come back from its head.
            SessionGoal::Dropped => None,
            SessionGoal::Unmentioned => {
                let head = &self.pin.active.as_ref()?.head;
                let prompt = preamble::prompt_of_head(view, head)?;
                goals::split_stated(wordings::after_pins(&prompt)).map(|(goal, _)| goal.to_owned())
            }
        }
    }
}
