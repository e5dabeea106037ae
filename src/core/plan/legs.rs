//! The upstream requests of an answer's legs, built of a plan. Each is a value: its bytes, and what was changed.

use std::sync::Arc;

use super::{Active, PlannedRequest};
use crate::agents::{goals, loaded_tools, wordings};
use crate::commands::pinned_text;
use crate::handoffs::carry::{self, LeftOut, RuleSources, UserMessages, UsersWords};
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
use crate::wire::{LoneText, TextOnly};

/// A handoff before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHandoff {
    /// Carry-over prompt, normalised.
    pub prompt: String,
    /// Why, in the words of whoever started it.
    pub reason: Option<String>,
    /// The currently active handoff.
    pub parent: Option<HandoffId>,
    pub origin: HandoffOrigin,
    /// The model that later requests go to, where one was named.
    pub to: Option<String>,
    /// The turns that stay, of a reviewed draft.
    pub kept: Option<KeptTurns>,
}

impl NewHandoff {
    /// One that the model has started.
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

/// Whose rules are looked for.
pub struct RuleQuery<'a> {
    /// The handoff before.
    pub earlier: Option<&'a Handoff>,
    /// Whether the user's texts are a user's: a subagent's are its parent model's.
    pub by_user: bool,
    /// What was pinned or dropped: carried otherwise, or not at all.
    pub without: &'a [String],
    /// Further words that make a rule.
    pub markers: &'a [String],
    pub redactor: &'a Redactor,
}

/// Whose a handoff is, and when it was made.
pub struct HandoffSource<'a> {
    pub id: HandoffId,
    pub principal: &'a str,
    /// Key of the conversation.
    pub conversation: &'a str,
    /// What the user has pinned.
    pub pins: &'a [String],
    /// The model of the first route that the handoff matches.
    pub route: Option<&'a str>,
    /// Bytes of the agent's request.
    pub history_bytes: u64,
    pub now_ms: u64,
}

impl<'a> PlannedRequest<'a> {
    /// The request as it goes upstream for the first leg.
    pub fn first(&self, tooled: bool) -> RewriteOutcome {
        self.rewritten(&self.as_received(tooled))
            .cut_at(self.pin.active_id())
    }

    /// Our tools that a leg is offered. `fresh`: it starts after a handoff of this very answer.
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

    /// The model that the request goes to; empty where it names none.
    pub fn model(self) -> &'a str {
        let requested = self.reading.view.facts.model.as_deref();
        self.known_model(self.pin.routed())
            .or(requested)
            .unwrap_or_default()
    }

    /// The sentinel of a handoff as it is shown; `keys` are asked for where its prompt is in it.
    pub fn sentinel(&self, handoff: &Handoff, keys: impl FnOnce() -> Arc<SealKeys>) -> String {
        let (id, reason) = (handoff.id, handoff.reason.as_deref());
        let mark = match handoff.spelled_out.unwrap_or(self.policy.spelled_out) {
            true => {
                let seal = keys().seal(&handoff.principal, id, &handoff.prompt);
                sentinel::full(id, reason, &handoff.prompt, &seal)
            }
            false => sentinel::short(id, reason),
        };
        self.reading.view.wire().sentinel_text(&mark)
    }

    /// The request as it goes upstream for the first leg, with `more` appended, for an answer in text alone.
    pub fn for_a_text(&self, more: &[String], how: TextOnly) -> RewriteOutcome {
        let what = Rewrite {
            more,
            text_only: Some(how),
            ..self.as_received(self.offer.tooled)
        };
        self.rewritten(&what).cut_at(self.pin.active_id())
    }

    /// A request for an answer in text alone to this text, without the conversation.
    pub fn for_a_lone_text(&self, lone: LoneText<'_>) -> RewriteOutcome {
        lone_text(self.reading, lone)
    }

    /// How many pairs found no place in the request, though it was theirs before.
    pub fn lost(&self, first: &RewriteOutcome) -> usize {
        let (pairs, here) = (&self.places.pairs, &self.places.beside_calls);
        lost(self.reading, self.pin.cut(), pairs, here, &first.placed)
            .iter()
            .filter(|id| !self.places.without_searches.contains(id))
            .count()
    }

    /// The part of the request that the model does not see any more. What a provider holds, and what was flattened into one
    /// text, is not in it. `fresh`: the leg starts after a handoff of this very answer.
    pub fn cut_part(&self, fresh: bool) -> CutPart<'a> {
        let view = &self.reading.view;
        let end = match self.pin.cut() {
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
            rewritten.changes.insert(0, change);
        }
        rewritten
    }

    /// The received request as the model sees it: cut at the active handoff.
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

    /// The response that the request continues, as upstream knows it.
    fn goes_on(&self) -> Option<ContinuedResponse<'_>> {
        let id = self.pin.previous.as_ref()?.response()?;
        Some(ContinuedResponse {
            id,
            owed: &self.pin.owed,
        })
    }

    /// The model of a route, unless upstream is known to refuse it.
    pub(super) fn known_model<'b>(&self, routed: Option<&'b str>) -> Option<&'b str> {
        routed.filter(|model| !self.policy.refused_models.has(model))
    }
}

/// What is written.
impl PlannedRequest<'_> {
    /// What the user said in the whole history that the agent sends, with the rules of the handoff before.
    pub fn users_words(&self, query: &RuleQuery<'_>) -> UsersWords {
        let active = self.pin.active.as_ref();
        let earlier = match query.earlier {
            Some(earlier) => carry::rules_of(earlier),
            // Known by its seal alone.
            None => active.map_or_else(Vec::new, |active| carry::rules_behind(&active.prompt)),
        };
        let said = match query.by_user {
            true => {
                let transcript = Transcript::from_view(&self.reading.view);
                UserMessages::from_transcript(
                    &transcript,
                    self.policy.look.tags,
                    self.pin.carry_over().as_deref(),
                )
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
        let transcript = Transcript::from_view(&self.reading.view);
        let left_out = self
            .offer
            .recall_next
            .then(|| LeftOut::from_transcript(&transcript));
        UsersWords {
            left_out: left_out.flatten(),
            todos: carry::todo_list(&transcript, query.redactor),
            ..words
        }
    }

    /// A handoff of this request, which is yet to be written.
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

    /// The model that requests after a handoff go to: the named one, else that of a route, else that of the handoff before.
    fn routed_after(&self, named: Option<String>, route: Option<&str>) -> Option<String> {
        let model = self.reading.view.facts.model.as_deref()?;
        let routed = || route.or(self.pin.routed()).map(str::to_owned);
        named.or_else(routed).filter(|to| to != model && to != OWN_MODEL)
    }

    /// Where a handoff is in the agent's transcript: after all that this request has. `None` where the request has only a
    /// system prompt, the rest being upstream: that place could not be found again.
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
            created_ms: handoff.created_ms,
        })
    }

    /// Preamble, pins, goal, carry-over prompt and loaded tools for a new handoff: the agent's current preamble. If the transcript
    /// has none, because the provider holds what came before or the agent has compacted it, the active handoff's.
    fn head_for(&self, new: &NewHandoff, pins: &[String]) -> String {
        let view = &self.reading.view;
        let prompt = &new.prompt;
        let goal = self.goal().map(|goal| goals::stated(&goal)).unwrap_or_default();
        let loaded = loaded_tools::line(&Transcript::from_view(view).loaded_tools());
        let prompt = &format!("{}{goal}{prompt}{loaded}", pinned_text(pins));
        let mut gone = view.clone();
        if let Some(kept) = &new.kept {
            gone.turns.truncate(view.leading() + kept.from.turns);
        }
        let current = self.policy.preamble(&gone, None);
        let found = match &self.pin.active {
            Some(active) if current.is_empty() => preamble::of_head(view, &active.head),
            _ => current,
        };
        preamble::head(view.wire(), &found, prompt)
    }

    /// The goal that the agent still pursues. Where its transcript does not mention one, the active handoff's.
    fn goal(&self) -> Option<String> {
        let view = &self.reading.view;
        match Transcript::from_view(view).goal(self.policy.look.tags) {
            SessionGoal::Active(goal) => Some(goal),
            SessionGoal::Dropped => None,
            SessionGoal::Unmentioned => {
                let head = &self.pin.active.as_ref()?.head;
                let prompt = preamble::prompt_of_head(view, head)?;
                goals::split_stated(wordings::after_pins(&prompt)).map(|(goal, _)| goal.to_owned())
            }
        }
    }
}
