//! Plans over a scripted store: the decisions, the writes, and the number of reads.

mod answers;
mod decisions;
mod reading;
mod retrying;
mod undoing;
mod waiting;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::bill::DraftCost;
use crate::marker::seal::{SealKey, SealKeys};
use crate::marker::{note, sentinel};
use crate::record::{
    CutPoint, Handoff, HandoffId, HiddenPair, HiddenResult, Insertion, InsertionContent, InsertionPoint,
    ThinkingOmission, WireId,
};
use crate::rewrite::notes::NoteSearch;
use crate::rewrite::untooled::ToolOmission;
use crate::rewrite::{RequestReading, positions};
use crate::text::testing::assert_contains;
use crate::tools::{OurTools, ToolSettings};
use crate::wire::{Operation, View, wire};

const PROMPT: &str = "Go on with the importer.";
const BEFORE: &str = "Mend the importer.";

#[derive(Debug)]
struct NoneRefused;

impl RefusedModels for NoneRefused {
    fn has(&self, _: &str) -> bool {
        false
    }
}

/// Content of the store, and the facts in memory about the conversation.
struct Script {
    handoffs: Vec<Handoff>,
    cut_points: Vec<CutPoint>,
    /// Handoffs that other conversations list as left out.
    left_out_elsewhere: Vec<HandoffId>,
    pairs: Vec<HiddenPair>,
    insertions: Vec<Insertion>,
    live: Option<KnownConversation>,
    spelled_out: bool,
    recall: bool,
    agents_reset: bool,
    named: bool,
}

impl Script {
    fn new() -> Self {
        let live = KnownConversation {
            key: "c".to_owned(),
            listed: Some(ListedRecords::default()),
            ..KnownConversation::default()
        };
        Self {
            handoffs: Vec::new(),
            cut_points: Vec::new(),
            left_out_elsewhere: Vec::new(),
            pairs: Vec::new(),
            insertions: Vec::new(),
            live: Some(live),
            spelled_out: false,
            recall: true,
            agents_reset: false,
            named: true,
        }
    }

    fn live(&mut self) -> &mut KnownConversation {
        self.live.as_mut().unwrap()
    }

    fn handoff(&mut self, parent: Option<HandoffId>) -> HandoffId {
        let handoff = Handoff {
            id: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            prompt: PROMPT.to_owned(),
            head: format!("{{\"role\":\"user\",\"content\":\"{PROMPT}\"}}"),
            parent,
            model: Some("m".to_owned()),
            created_ms: 1,
            history_bytes: 1,
            recall: true,
            routed: Some("small".to_owned()),
            ..Handoff::default()
        };
        self.handoffs.push(handoff);
        self.handoffs.last().unwrap().id
    }

    fn answer(&self, need: &Need) -> Answer {
        let handoff = |id: &HandoffId| self.handoffs.iter().find(|h| h.id == *id);
        match need {
            Need::Handoff(id) => Answer::Handoffs(handoff(id).cloned().map(Arc::new).into_iter().collect()),
            Need::HandoffsBetween(first, last) => {
                let ids = self.handoffs.iter().map(|handoff| handoff.id);
                Answer::Ids(ids.filter(|id| (first..=last).contains(&id)).take(2).collect())
            }
            Need::Line(id) => {
                let line = std::iter::successors(handoff(id), |before| handoff(&before.parent?));
                Answer::Handoffs(line.cloned().map(Arc::new).collect())
            }
            Need::ActiveIn(_) | Need::NewestActive | Need::Listed => Answer::Ids(Vec::new()),
            Need::Response(_) => Answer::Response(None),
            Need::CutPoints(ids) => Answer::CutPoints(self.points(|p| ids.contains(&p.handoff))),
            Need::CutPointsAt(at) => Answer::CutPoints(self.points(|p| at.contains(&p.position.digest))),
            Need::LeftOutIn(_) => Answer::Ids(self.left_out_elsewhere.clone()),
            Need::PairsAfter { .. } => Answer::PairsAfter(PairsAfter {
                known: Vec::new(),
                found: self.pairs.clone(),
            }),
            Need::Pairs(ids) => {
                let found = self.pairs.iter().filter(|pair| ids.contains(&pair.id));
                Answer::Pairs(found.cloned().collect())
            }
            Need::InsertionsAt(_) => Answer::Insertions(self.insertions.clone()),
            Need::SealKeys => Answer::SealKeys(Arc::new(keys())),
        }
    }

    fn points(&self, wanted: impl Fn(&CutPoint) -> bool) -> Vec<CutPoint> {
        self.cut_points.iter().filter(|p| wanted(p)).cloned().collect()
    }

    fn plan(&self, messages: &[Value]) -> Outcome {
        self.plan_of(request(messages), Operation::Generate)
    }

    fn plan_of(&self, body: Value, operation: Operation) -> Outcome {
        self.plan_with(body, operation, true)
    }

    fn policy(&self) -> Policy<'static> {
        static TOOLS: LazyLock<OurTools> = LazyLock::new(|| {
            OurTools::new(&ToolSettings {
                recalls: 3,
                ..ToolSettings::default()
            })
        });
        Policy {
            look: NoteSearch {
                prefix: "::",
                tags: &[],
            },
            keeps_preamble: true,
            spelled_out: self.spelled_out,
            recall: self.recall,
            tools: &TOOLS,
            agents_reset: self.agents_reset,
            may_have_insertions: true,
            refused_models: &NoneRefused,
            draft_cost: DraftCost::Cheapest(9_000),
        }
    }

    /// With `ahead`, the most likely records are read first, and missing ones together; otherwise one record
    /// after the other.
    fn plan_with(&self, body: Value, operation: Operation, ahead: bool) -> Outcome {
        let policy = self.policy();
        let wire = wire(WireId::Anthropic);
        let reading = RequestReading::new(wire, &body.to_string().into(), operation).unwrap();
        let call = AgentCall {
            operation: Some(operation),
            principal: "local".to_owned(),
            key: "c".to_owned(),
            named: self.named,
            declared_side: false,
            forbidden: None,
            candidates: reading.candidates(),
            reading,
            edition: 0,
        };
        let mut planning = Planner::new(call, &policy);
        let mut records = Records {
            conversation: self.live.clone(),
            ..Records::default()
        };
        let mut reads = Vec::new();
        let mut asked = if ahead {
            planning.needs()
        } else {
            MissingRecords::new()
        };
        loop {
            asked.truncate(if ahead { usize::MAX } else { 1 });
            for need in &asked {
                assert!(!records.has(need), "asked for twice: {need:?}");
                records.add(need.clone(), self.answer(need));
            }
            reads.push(asked);
            match planning.advance(&records, &policy) {
                Ok(()) => break,
                Err(needs) => asked = needs,
            }
        }
        let (call, plan) = planning.done();
        Outcome {
            call,
            plan,
            reads,
            policy,
        }
    }
}

struct Outcome {
    call: AgentCall,
    plan: Plan,
    /// Records read, in the order of the reads.
    reads: Vec<MissingRecords>,
    policy: Policy<'static>,
}

impl Outcome {
    /// Runs a check on the planned request.
    fn with(&self, check: impl FnOnce(PlannedRequest<'_>)) {
        check(PlannedRequest {
            reading: &self.call.reading,
            call: self.call.facts(),
            pin: &self.plan.pin,
            places: &self.plan.places,
            offer: &self.plan.offer,
            policy: self.policy,
        });
    }

    fn active(&self) -> Option<HandoffId> {
        self.plan.pin.active_id()
    }
}

fn keys() -> SealKeys {
    SealKey::new(*b"key").into()
}

fn request(messages: &[Value]) -> Value {
    json!({
        "model": "m", "max_tokens": 32000, "system": "s",
        "tools": [{"name": "run", "input_schema": {"type": "object"}}],
        "messages": messages,
    })
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn model(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

/// The transcript after responses that showed these strings.
fn after(shown: &[String]) -> Vec<Value> {
    let mut messages = vec![user(BEFORE)];
    for text in shown {
        messages.extend([model(text), user("Go on.")]);
    }
    messages
}

fn short(id: HandoffId) -> String {
    sentinel::short(id, None)
}

fn view(messages: &[Value]) -> View {
    let body = request(messages).to_string();
    wire(WireId::Anthropic)
        .read(&body.into(), Operation::Generate)
        .unwrap()
}

fn pair(conversation: &str, sibling: &str) -> HiddenPair {
    HiddenPair {
        id: Uuid::now_v7(),
        principal: "local".to_owned(),
        conversation: conversation.to_owned(),
        wire: WireId::Anthropic,
        tool: "session_handoff".to_owned(),
        call_id: "toolu_hidden".to_owned(),
        call: r#"{"type":"tool_use","id":"toolu_hidden","name":"session_handoff","input":{}}"#.to_owned(),
        answer: HiddenResult::QUEUED,
        place: InsertionPoint::Beside {
            sibling: sibling.to_owned(),
            offset: 0,
        },
        pending: None,
        created_ms: 1,
    }
}
