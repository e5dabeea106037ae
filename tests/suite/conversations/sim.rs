//! The conversations of this module with only plan and response machine.
//!
//! The store is a set of maps, and the provider is called directly: no socket, no process, no file. This does
//! not cover the tasks of a whole proxy: notices, handoffs at a threshold, and undos.

use std::sync::Arc;

use baton_core::handoffs::carry::{self, CarryPolicy};
use baton_core::handoffs::recall::RecallIndexSettings;
use baton_core::marker::aside;
use baton_core::plan::{
    self, AgentCall, FreeCutPolicy, HandoffSource, NewHandoff, NextLeg, PlannedRequest, Planner, Policy,
    RefusedModels, RespondInput, Responder, RetryPolicy, RuleQuery, is_model_call, is_retryable, resends,
};
use baton_core::record::{Handoff, HandoffId, HiddenPair, HiddenResult, InsertionPoint, RecordChange};
use baton_core::response::{
    Action, AnsweredCall, JoinedAnswer, LegEvent, LegProgress, ResponseEffect, ResponseEnd, ResponseMachine,
    ResponseOptions, StreamMerge, StreamedAnswer, VerdictInput,
};
use baton_core::rewrite::notes::NoteSearch;
use baton_core::rewrite::{RequestReading, RewriteOutcome};
use baton_core::text::splice;
use baton_core::tools::{OurTools, ToolSettings};
use baton_core::wire::{LegOutput, Operation, ResponseWatch, StopReason, Wire, wire};
use baton_llm::state::config::{Config, HandoffMode};
use baton_llm::state::jobs::recalls::{CallAnswerer, RecallCall, Recaller};
use baton_llm::state::session::{ConversationKey, conversation_key};
use baton_llm::state::telemetry::ExchangeOutcome;
use baton_strict::{DirectAnswer, Strict};
use bytes::Bytes;
use uuid::Uuid;

use super::sim_store::SimStore;
use crate::harness::RawResponse;

/// Plan, response machine and store.
pub struct Sim {
    config: Config,
    tools: OurTools,
    pub store: SimStore,
}

#[derive(Debug)]
struct NoneRefused;

impl RefusedModels for NoneRefused {
    fn has(&self, _: &str) -> bool {
        false
    }
}

/// A request that is being answered.
struct Answering<'a> {
    plan: PlannedRequest<'a>,
    config: &'a Config,
    store: &'a mut SimStore,
    provider: &'a Strict,
    key: &'a str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    text: Bytes,
    tooled: bool,
    /// Whether the current leg starts after a handoff of this response.
    fresh: bool,
    fired: Vec<HandoffId>,
}

/// Result of an effect.
enum Done {
    Event(LegEvent),
    Leg(DirectAnswer),
}

fn whole(status: u16, raw: Vec<u8>) -> RawResponse {
    RawResponse {
        status,
        headers: http::HeaderMap::new(),
        raw,
        broken: false,
    }
}

impl Sim {
    pub fn new(config: Config) -> Self {
        Self {
            tools: OurTools::new(&ToolSettings {
                description: None,
                recalls: config.recall.per_turn,
            }),
            config,
            store: SimStore::default(),
        }
    }

    fn policy(&self) -> Policy<'_> {
        Policy {
            look: NoteSearch {
                prefix: &self.config.commands.prefix,
                tags: &self.config.handoff.preamble_tags,
            },
            keeps_preamble: true,
            spelled_out: true,
            recall: self.config.recall.enabled,
            tools: &self.tools,
            agents_reset: false,
            may_have_insertions: false,
            refused_models: &NoneRefused,
            draft_cost: self.config.draft.cost(),
        }
    }

    /// Answers a request of the agent.
    pub async fn answer(
        &mut self,
        wire: &'static Wire,
        provider: &Strict,
        path: &str,
        headers: &[(&str, &str)],
        text: Bytes,
    ) -> RawResponse {
        let operation = match path.contains("count") || path.contains("input_tokens") {
            true => Operation::Count,
            false => Operation::Generate,
        };
        let mut reading = RequestReading::new(wire, &text, operation).unwrap();
        reading.view.facts.stream |= path.contains(":stream");
        reading.view.facts.ours = self.tools.plain.names();
        let header = |name: &str| {
            headers
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        };
        let session = reading.view.facts.session.clone();
        let opening = || plan::opening(&reading.view);
        let ConversationKey { key, named } =
            conversation_key("local", wire.id(), header, session.as_deref(), &opening);
        let call = AgentCall {
            operation: Some(operation),
            principal: "local".to_owned(),
            key: key.clone(),
            named,
            declared_side: false,
            forbidden: None,
            candidates: reading.candidates(),
            reading,
            edition: 0,
        };
        let mut store = std::mem::take(&mut self.store);
        let policy = self.policy();
        let mut planning = Planner::new(call, &policy);
        let mut records = store.records(&key);
        let mut needs = planning.needs();
        loop {
            for need in needs {
                let found = store.answer(&need, &planning.call);
                records.add(need, found);
            }
            match planning.advance(&records, &policy) {
                Ok(()) => break,
                Err(lacking) => needs = lacking,
            }
        }
        let (call, mut plan) = planning.done();
        for effect in std::mem::take(&mut plan.effects) {
            store.perform(&key, effect, &mut plan.offer);
        }
        let mut answering = Answering {
            plan: PlannedRequest {
                reading: &call.reading,
                call: call.facts(),
                pin: &plan.pin,
                places: &plan.places,
                offer: &plan.offer,
                policy,
            },
            config: &self.config,
            store: &mut store,
            provider,
            key: &key,
            path,
            headers,
            text,
            tooled: plan.offer.tooled,
            fresh: false,
            fired: Vec::new(),
        };
        let mut response = answering.answered().await;
        if plan.pin.active.is_some() {
            response
                .headers
                .insert("x-baton-handoff", http::HeaderValue::from_static("1"));
        }
        self.store = store;
        response
    }
}

impl Answering<'_> {
    fn wire(&self) -> &'static Wire {
        self.plan.reading.view.wire()
    }

    fn stops(&self) -> bool {
        self.config.handoff.mode == HandoffMode::Stop
    }

    async fn answered(&mut self) -> RawResponse {
        let is_model = is_model_call(self.plan.call.operation);
        let repeated = match is_model && !self.stops() {
            true => self.store.take_repeat(self.key, &self.text),
            false => None,
        };
        let situation = RespondInput {
            repeated,
            branch: None,
            draft: None,
            free: FreeCutPolicy::Off,
            now_ms: 0,
        };
        let plan = self.plan;
        let (handoff, sent) = match plan
            .pin
            .answered_by()
            .unwrap_or_else(|| plan.answered_by(&situation).by)
        {
            Responder::Model => (None, plan.first(self.tooled)),
            Responder::AfterHandoff(id) => {
                let handoff = self.store.handoff(id).unwrap();
                (self.fired, self.fresh) = (vec![id], true);
                let sent = plan.fresh(&handoff);
                (Some(handoff), sent)
            }
            other => panic!("{other:?}"),
        };
        let answer = self.sent(&sent).await;
        if answer.status >= 300 || !is_model {
            return RawResponse {
                broken: answer.broken,
                ..whole(answer.status, answer.pieces.concat())
            };
        }
        let max_chain = self.config.handoff.max_chain;
        let verdict = match &handoff {
            None => VerdictInput::new(&plan, &sent, self.tooled, max_chain),
            Some(_) => VerdictInput {
                legs: 2,
                pending: None,
                ..VerdictInput::new(&plan, &plan.first(true), self.tooled, max_chain)
            },
        };
        match plan.reading.view.facts.stream {
            true => self.streamed(verdict, handoff, answer).await,
            false => self.joined(verdict, handoff, answer).await,
        }
    }

    /// Upstream's response to a request.
    async fn sent(&self, request: &RewriteOutcome) -> DirectAnswer {
        let body = request.rope.concat().into();
        self.provider.answer(self.path, self.headers, body).await.unwrap()
    }

    fn machine(&self, first: VerdictInput, handoff: Option<&Handoff>) -> ResponseMachine {
        ResponseMachine::new(ResponseOptions {
            first,
            stops: self.stops(),
            goes_on_by_id: !resends(&self.plan.reading.view),
            records_ids: false,
            retry: RetryPolicy {
                retries: self.config.handoff.retries,
                pauses: self.config.handoff.retry_pauses,
            },
            active: self.plan.pin.active_id(),
            opening: handoff
                .map(|handoff| NextLeg::after(handoff.id, handoff.head.clone(), handoff.routed.clone())),
            opens_with_text: false,
        })
    }

    fn watch(&self) -> ResponseWatch {
        ResponseWatch {
            hide: self.plan.offered(self.tooled, self.fresh),
            buffered_bytes: self.config.limits.tool_arguments_bytes,
        }
    }

    fn sentinel(&self, handoff: &Handoff) -> String {
        self.plan.sentinel(handoff, || self.store.keys())
    }

    async fn streamed(
        &mut self,
        verdict: VerdictInput,
        handoff: Option<Arc<Handoff>>,
        first: DirectAnswer,
    ) -> RawResponse {
        let machine = self
            .plan
            .reading
            .view
            .wire()
            .machine(&self.plan.reading.view, self.watch());
        let mut merge = StreamMerge::new(machine, self.config.limits.frame_bytes, self.tooled);
        if let Some(handoff) = &handoff {
            merge.open_with(self.sentinel(handoff));
        }
        let mut answer = StreamedAnswer::new(self.machine(verdict, handoff.as_deref()), merge);
        let mut response = whole(200, Vec::new());
        read(&mut answer, first, &mut response.raw);
        while let Some(action) = answer.machine.poll_action() {
            match action {
                Action::Say(text) => answer.merge.say(&text, &mut answer.out),
                Action::Perform(effect) => {
                    let spoken = answer.spoken(&effect);
                    match self.perform(effect, spoken).await {
                        Done::Event(event) => answer.machine.handle_event(event),
                        Done::Leg(leg) => {
                            answer.leg_begun(self.plan.offered(self.tooled, self.fresh));
                            read(&mut answer, leg, &mut response.raw);
                        }
                    }
                }
                Action::End(close) => {
                    let size = |leg: &NextLeg| splice::len(&self.plan.later_leg(leg).rope);
                    if let Some(note) = close.note(&self.config.redactor()) {
                        answer.merge.say(&note, &mut answer.out);
                    }
                    answer.merge.close(close.ending(size), &mut answer.out);
                    self.ended(close.is_ours(), answer.merge.report().stop);
                }
                Action::EndAsItIs => self.ended(false, answer.merge.report().stop),
                Action::BreakOff | Action::Refuse(_) => response.broken = true,
            }
            while let Some(piece) = answer.take() {
                response.raw.extend_from_slice(&piece);
            }
        }
        response
    }

    async fn joined(
        &mut self,
        verdict: VerdictInput,
        handoff: Option<Arc<Handoff>>,
        first: DirectAnswer,
    ) -> RawResponse {
        let view = &self.plan.reading.view;
        if first.broken {
            return whole(502, Vec::new());
        }
        let body: Bytes = first.pieces.concat().into();
        let Some(report) = view.wire().reply(view, &body, self.watch()) else {
            return whole(200, body.to_vec());
        };
        let mut answer = JoinedAnswer::new(self.machine(verdict, handoff.as_deref()));
        answer.leg_over(body, report);
        let close = loop {
            let effect = match answer.poll_action() {
                Some(Action::Say(text)) => {
                    answer.say(text);
                    continue;
                }
                Some(Action::Perform(effect)) => effect,
                Some(Action::End(close)) => break close,
                Some(Action::EndAsItIs | Action::BreakOff | Action::Refuse(_)) | None => {
                    break ResponseEnd::Own;
                }
            };
            let spoken = answer.spoken(&effect);
            match self.perform(effect, spoken).await {
                Done::Event(event) => answer.performed(event),
                Done::Leg(leg) => {
                    answer.performed(LegEvent::LegBegun);
                    let body: Bytes = leg.pieces.concat().into();
                    match view
                        .wire()
                        .reply(view, &body, self.watch())
                        .filter(|_| !leg.broken)
                    {
                        Some(report) if report.stop != StopReason::Error => answer.leg_over(body, report),
                        _ => answer.leg_broken(true, String::new()),
                    }
                }
            }
        };
        if let Some(note) = close.note(&self.config.redactor()) {
            answer.say(note);
        }
        self.ended(close.is_ours(), answer.stop());
        let size = |leg: &NextLeg| splice::len(&self.plan.later_leg(leg).rope);
        let opening = handoff.as_deref().map(|handoff| self.sentinel(handoff));
        let raw = answer.joined(view, opening.as_deref(), close.ending(size));
        whole(200, raw.to_vec())
    }

    /// Records that the agent has read the end of the response.
    fn ended(&mut self, is_ours: bool, stop: StopReason) {
        if is_ours || ExchangeOutcome::of_end(stop) == ExchangeOutcome::Complete {
            self.store.forget_repeat(self.key, &self.text);
            if !self.fired.is_empty() {
                let shown = RecordChange::Shown(std::mem::take(&mut self.fired));
                self.store.change(self.key, &shown);
            }
        }
    }

    async fn perform(&mut self, effect: ResponseEffect, spoken: Option<LegOutput>) -> Done {
        Done::Event(match effect {
            ResponseEffect::WriteHandoff(new) => {
                let handoff = self.write_handoff(new);
                LegEvent::HandoffWritten {
                    sentinel: self.sentinel(&handoff),
                    next: NextLeg::after(handoff.id, handoff.head, handoff.routed),
                }
            }
            ResponseEffect::WritePairs(all) => {
                let placed = all.into_iter().filter_map(|(call, place)| Some((call, place?)));
                for (call, place) in placed {
                    self.write_pair(call, place);
                }
                LegEvent::Written
            }
            ResponseEffect::AnswerCall(call) => {
                let pair = self.write_pair(call, InsertionPoint::Aside);
                let ours = self.plan.offered(self.tooled, self.fresh);
                let more =
                    (self.wire().functions.ask_again)(&spoken.unwrap(), std::slice::from_ref(&pair), ours);
                LegEvent::CallAnswered {
                    mark: self.wire().sentinel_text(&aside::line(pair.id)),
                    more: more.unwrap(),
                    answer: pair.answer,
                }
            }
            ResponseEffect::WriteId { shown, origin } => {
                self.store.responses.insert(shown, origin.written());
                LegEvent::Written
            }
            ResponseEffect::Send { leg, .. } => {
                self.fresh = leg.head.is_some();
                let answer = self.sent(&self.plan.later_leg(&leg)).await;
                if answer.status < 300 {
                    return Done::Leg(answer);
                }
                LegEvent::LegRefused {
                    retry: is_retryable(answer.status),
                    pause: None,
                    cause: answer.status.to_string(),
                }
            }
        })
    }

    fn write_handoff(&mut self, new: NewHandoff) -> Handoff {
        let before = new.parent.or(self.plan.pin.active_id());
        let earlier = before.and_then(|id| self.store.handoff(id));
        let subagent = self
            .headers
            .iter()
            .any(|(name, _)| *name == "x-claude-code-agent-id");
        let words = self.plan.users_words(&RuleQuery {
            earlier: earlier.as_deref(),
            kept: new.kept.as_ref(),
            by_user: !subagent,
            without: &[],
            markers: &self.config.draft.markers,
            redactor: &self.config.redactor(),
        });
        let policy = CarryPolicy {
            scope: self.config.handoff.append_missing,
            tokens: self.config.handoff.append_tokens,
        };
        let carried = carry::carry(&new.prompt, &words, None, policy);
        let new = NewHandoff {
            prompt: carried.prompt,
            ..new
        };
        let source = HandoffSource {
            id: Uuid::now_v7(),
            principal: "local",
            conversation: self.key,
            pins: &[],
            route: None,
            history_bytes: self.text.len() as u64,
            now_ms: self.store.now(),
        };
        let handoff = Handoff {
            carried: carried.items,
            ..self.plan.handoff(new, &source)
        };
        let point = self.plan.cut_point(&handoff);
        self.store.fire(handoff.clone(), point, &self.text);
        self.fired.push(handoff.id);
        handoff
    }

    fn write_pair(&mut self, answered: AnsweredCall, place: InsertionPoint) -> HiddenPair {
        let answer = answered.answer.clone().unwrap_or_else(|| self.search(&answered));
        let pair = HiddenPair {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: self.key.to_owned(),
            wire: self.plan.reading.view.wire,
            tool: answered.call.name().to_owned(),
            call: (self.wire().functions.hidden_call)(&answered.call),
            call_id: answered.call.id,
            answer,
            place: self.plan.reading.view.placed(place),
            pending: answered.pending,
            created_ms: self.store.now(),
        };
        self.store.add_pair(pair.clone());
        pair
    }

    /// Result of a search of the removed history.
    fn search(&self, answered: &AnsweredCall) -> HiddenResult {
        let settings = RecallIndexSettings {
            tags: self.config.handoff.preamble_tags.clone(),
            redactor: self.config.redactor(),
        };
        let call = RecallCall {
            tool: answered.call.name(),
            arguments: answered.call.put_back(),
            cut: self.plan.cut_part(self.fresh),
        };
        Recaller { settings }.answer(&call).0
    }
}

/// Reads a leg as far as possible.
fn read(answer: &mut StreamedAnswer, leg: DirectAnswer, raw: &mut Vec<u8>) {
    let mut progress = LegProgress::Open;
    for piece in leg.pieces {
        progress = answer.feed(piece);
        while let Some(piece) = answer.take() {
            raw.extend_from_slice(&piece);
        }
        if progress != LegProgress::Open {
            break;
        }
    }
    match progress {
        LegProgress::Over => answer.leg_over(),
        LegProgress::TooLarge => answer.leg_broken(false, String::new()),
        LegProgress::Open if leg.broken => answer.leg_broken(true, String::new()),
        LegProgress::Open => {
            answer.merge.finish_leg(&mut answer.out);
            answer.leg_over();
        }
    }
}

/// Wire of a request path.
pub fn wire_of(path: &str) -> &'static Wire {
    use baton_core::record::WireId::{Anthropic, Gemini, Ollama, OpenaiChat, OpenaiResponses};
    let rows = [
        ("/messages", Anthropic),
        ("/chat/completions", OpenaiChat),
        ("/responses", OpenaiResponses),
        ("/models/", Gemini),
        ("/api/chat", Ollama),
    ];
    wire(rows.iter().find(|(part, _)| path.contains(part)).unwrap().1)
}
