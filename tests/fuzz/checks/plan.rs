//! Whatever a store has: a plan asks for each record once, is the same where all are read at once, and its requests are JSON that
//! is read again.

use std::sync::{Arc, LazyLock};

use super::{is_json, wire_of};
use baton_core::bill::DraftCost;
use baton_core::marker::seal::{SealKey, SealKeys};
use baton_core::plan::{
    AgentCall, Answer, KnownConversation, ListedRecords, Need, PairsAfter, Plan, PlannedRequest, Planner,
    Policy, Records, RefusedModels,
};
use baton_core::record::{
    CutPoint, Handoff, HiddenPair, HiddenResult, Insertion, InsertionContent, InsertionPoint, Position,
};
use baton_core::rewrite::notes::NoteSearch;
use baton_core::rewrite::{RequestReading, RewriteOutcome, positions};
use baton_core::text::splice;
use baton_core::tools::{OurTools, TOOL_NAME, ToolSettings};
use baton_core::wire::{HiddenCall, Operation, Wire};
use bytes::Bytes;
use uuid::Uuid;

const HANDOFF: Uuid = Uuid::from_u128(0x0189_0000_0000_7000_8000_0000_0000_0002);

/// Reads of a plan at most: as many as there are kinds of records, and as many again after a change of the transcript.
const READS: usize = 32;

#[derive(Debug)]
struct Refused(bool);

impl RefusedModels for Refused {
    fn has(&self, _: &str) -> bool {
        self.0
    }
}

/// A store whose contents the input chooses.
struct Store<'a> {
    wire: &'static Wire,
    /// A bit for each kind of record: whether it is there.
    has: u16,
    /// The end of a transcript that is known.
    position: Position,
    /// Ids of calls in the request.
    calls: &'a [String],
}

impl Store<'_> {
    fn handoff(&self, id: Uuid) -> Arc<Handoff> {
        let prompt = "Go on.".to_owned();
        Arc::new(Handoff {
            id,
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: self.wire.id(),
            head: (self.wire.functions.carry_over)(&[], &prompt),
            prompt,
            parent: (id != HANDOFF).then_some(HANDOFF),
            created_ms: 1,
            history_bytes: 1,
            recall: self.has & 1 == 0,
            routed: Some("small".to_owned()),
            ..Handoff::default()
        })
    }

    fn pair(&self, id: Uuid, place: InsertionPoint) -> HiddenPair {
        let call = HiddenCall::whole("hidden".to_owned(), TOOL_NAME, 0, "{}", 100);
        HiddenPair {
            id,
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: self.wire.id(),
            tool: TOOL_NAME.to_owned(),
            call_id: "hidden".to_owned(),
            call: (self.wire.functions.hidden_call)(&call),
            answer: HiddenResult::QUEUED,
            place,
            pending: (self.has & 2 == 0).then(|| ("Go on.".to_owned(), None)),
            created_ms: 1,
        }
    }

    fn pairs_beside(&self) -> Vec<HiddenPair> {
        let beside = |(n, call): (usize, &String)| {
            let place = InsertionPoint::Beside {
                sibling: call.clone(),
                offset: [0, 1, -1][n % 3],
            };
            self.pair(Uuid::from_u128(n as u128), place)
        };
        self.calls.iter().enumerate().map(beside).collect()
    }

    fn insertion(&self) -> Insertion {
        Insertion {
            id: Uuid::from_u128(9),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            wire: self.wire.id(),
            place: InsertionPoint::After(self.position.clone()),
            content: InsertionContent::Text("hello".to_owned()),
            created_ms: 1,
        }
    }

    fn cut_point(&self) -> CutPoint {
        CutPoint {
            handoff: HANDOFF,
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            position: self.position.clone(),
            texts: Vec::new(),
            before_command: false,
            created_ms: 1,
        }
    }

    fn listed(&self) -> ListedRecords {
        let has = |bit| self.has & bit != 0;
        ListedRecords {
            pairs: self
                .pairs_beside()
                .into_iter()
                .filter(|_| has(4))
                .map(Arc::new)
                .collect(),
            cut_points: has(8).then(|| Arc::new(self.cut_point())).into_iter().collect(),
            insertions: has(16).then(|| Arc::new(self.insertion())).into_iter().collect(),
            lost_insertions: Vec::new(),
        }
    }

    /// What is there for a need, and whether anything is, by its kind.
    fn answer(&self, need: &Need) -> Answer {
        let has = |bit| self.has & bit != 0;
        match need {
            Need::Handoff(id) => Answer::Handoffs(has(32).then(|| self.handoff(*id)).into_iter().collect()),
            Need::HandoffsBetween(first, last) => {
                let all = [*first, *last];
                Answer::Ids(all[..usize::from(self.has & 3).min(2)].to_vec())
            }
            Need::Line(id) => {
                let line = [self.handoff(*id), self.handoff(HANDOFF)];
                Answer::Handoffs(line.into_iter().filter(|_| has(64)).collect())
            }
            Need::ActiveIn(_) | Need::NewestActive | Need::LeftOutIn(_) => {
                Answer::Ids(has(128).then_some(HANDOFF).into_iter().collect())
            }
            Need::Response(_) => Answer::Response(has(256).then(|| "resp_2".to_owned())),
            // The conversation's record is in memory.
            Need::Listed => Answer::Ids(Vec::new()),
            Need::CutPoints(_) | Need::CutPointsAt(_) => {
                Answer::CutPoints(has(512).then(|| self.cut_point()).into_iter().collect())
            }
            Need::PairsAfter { .. } => Answer::PairsAfter(PairsAfter {
                known: Vec::new(),
                found: self.pairs_beside().into_iter().filter(|_| has(1024)).collect(),
            }),
            Need::Pairs(ids) => {
                let asides = ids.iter().map(|id| self.pair(*id, InsertionPoint::Aside));
                Answer::Pairs(asides.filter(|_| has(2048)).collect())
            }
            Need::InsertionsAt(_) => {
                Answer::Insertions(has(8192).then(|| self.insertion()).into_iter().collect())
            }
            Need::SealKeys => Answer::SealKeys(Arc::new(SealKeys::from(SealKey::new(*b"key")))),
        }
    }
}

fn call(reading: &RequestReading, named: bool) -> AgentCall {
    AgentCall {
        operation: Some(Operation::Generate),
        principal: "local".to_owned(),
        key: "c".to_owned(),
        named,
        declared_side: false,
        forbidden: None,
        candidates: reading.candidates(),
        reading: reading.clone(),
        edition: 0,
    }
}

/// The plan, with what was read for it. `records`: what is known before.
fn planned(
    store: &Store<'_>,
    call: AgentCall,
    mut records: Records,
    policy: &Policy<'_>,
) -> (AgentCall, Plan, Records) {
    let mut planning = Planner::new(call, policy);
    let mut needs = planning.needs();
    for _ in 0..READS {
        for need in needs {
            assert!(!records.has(&need), "asked for twice: {need:?}");
            if need == Need::Listed
                && let Some(live) = &mut records.conversation
            {
                live.listed = Some(store.listed());
            }
            let answer = store.answer(&need);
            records.add(need, answer);
        }
        match planning.advance(&records, policy) {
            Ok(()) => {
                let (call, plan) = planning.done();
                return (call, plan, records);
            }
            Err(lacking) => needs = lacking,
        }
        assert!(!needs.is_empty(), "it waits for nothing");
    }
    panic!("it asks on and on: {needs:?}");
}

pub fn check(input: &[u8]) {
    static TOOLS: LazyLock<OurTools> = LazyLock::new(|| {
        OurTools::new(&ToolSettings {
            recalls: 3,
            ..ToolSettings::default()
        })
    });
    let [wire, flags, low, high, text @ ..] = input else {
        return;
    };
    let wire = wire_of(*wire);
    let flag = |bit: u8| flags & bit != 0;
    let body = Bytes::copy_from_slice(text);
    let Ok(reading) = RequestReading::new(wire, &body, Operation::Generate) else {
        return;
    };
    let calls = reading.call_names();
    let store = Store {
        wire,
        has: u16::from_le_bytes([*low, *high]),
        position: positions::of(&reading.view),
        calls: &calls,
    };
    let refused = Refused(flag(1));
    let policy = Policy {
        look: NoteSearch {
            prefix: "::",
            tags: &[],
        },
        keeps_preamble: flag(2),
        spelled_out: flag(4),
        recall: flag(8),
        tools: &TOOLS,
        agents_reset: flag(16),
        may_have_insertions: true,
        refused_models: &refused,
        draft_cost: DraftCost::Cheapest(9_000),
    };
    let conversation = (!flag(32)).then(|| KnownConversation {
        key: "c".to_owned(),
        tooled: flag(64).then_some(true),
        may_be_copy: flag(128),
        ..KnownConversation::default()
    });
    let mut records = Records::default();
    records.conversation = conversation;
    let (call_after, plan, records) = planned(&store, call(&reading, flag(128)), records, &policy);
    // Nothing is asked for that was read: the plan is made in one step.
    let mut again = Planner::new(call(&reading, flag(128)), &policy);
    assert!(again.advance(&records, &policy).is_ok());
    let (_, same) = again.done();
    assert_eq!(plan.effects, same.effects);
    assert_eq!(plan.pin.active_id(), same.pin.active_id());

    let planned = PlannedRequest {
        reading: &call_after.reading,
        call: call_after.facts(),
        pin: &plan.pin,
        places: &plan.places,
        offer: &plan.offer,
        policy,
    };
    let valid = is_json(&body);
    let check = |request: &RewriteOutcome| {
        let sent = splice::flat(request.rope.clone());
        let text = String::from_utf8_lossy(&sent);
        assert!(!valid || is_json(&sent), "{text}");
        assert!(
            !valid || RequestReading::new(wire, &sent, Operation::Generate).is_ok(),
            "{text}"
        );
    };
    let first = planned.first(plan.offer.tooled);
    check(&first);
    check(&planned.fresh(&store.handoff(HANDOFF)));
    if let Some(retry) = planned.retry(br#"{"error":{"message":"thinking"}}"#, &first) {
        check(&retry.request);
    }
    planned.is_safe_point();
}
