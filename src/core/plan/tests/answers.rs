//! Responders to requests.

use super::*;
use crate::bill::{CutLedger, PriceQuery, PriceTable, RequestCosts, TokenCounts};
use crate::handoffs::draft::DraftMethod;
use crate::nudge::{ContextUse, Thresholds};
use crate::wire::Usage;

const HOUR: u64 = 3_600_000;

/// A request without any known state.
const PLAIN: RespondInput<'static> = RespondInput {
    repeated: None,
    branch: None,
    draft: None,
    free: FreeCutPolicy::Off,
    now_ms: HOUR,
};

impl PlannedRequest<'_> {
    fn by(&self, now: RespondInput<'_>) -> Responder {
        self.answered_by(&now).by
    }
}

/// A branch with notices from 1,000 tokens and handoffs from 2,000, whose context has this many.
fn branch(tokens: u64) -> BranchState<'static> {
    let thresholds = Thresholds {
        nudge_tokens: 1_000,
        auto_at: 0.002,
        ..Thresholds::default()
    };
    let limits = thresholds.of(Some(1_000_000));
    let mut context = ContextUse::default();
    let usage = Usage {
        input: tokens,
        ..Usage::default()
    };
    context.measured(None, usage, &limits);
    BranchState {
        context,
        limits,
        ..BranchState::default()
    }
}

/// Cost of a request an hour after the last one.
fn bill() -> RequestCosts {
    let price =
        json!({"input": 4.0, "cache_read": 0.2, "cache_write": 5.0, "cache_write_long": 8.0, "output": 20.0});
    let model = json!({"id": "m", "names": ["m"], "price": [price]});
    let provider = json!([{"id": "p", "model": [model]}]);
    let table: PriceTable =
        serde_json::from_value(json!({"source": "test", "date": "2026-11-23", "provider": provider}))
            .unwrap();
    let query = PriceQuery {
        model: "m",
        ..PriceQuery::default()
    };
    RequestCosts {
        rates: table.rates(&query).unwrap(),
        model: "m".to_owned(),
        effort: String::new(),
        at_ms: HOUR,
        fixed_bytes: 0,
        limit: None,
        lifetime_ms: None,
    }
}

/// A branch whose long history has gone cold.
fn cold(bill: &RequestCosts) -> BranchState<'_> {
    let mut ledger = CutLedger::default();
    let last = RequestCosts {
        at_ms: 0,
        fixed_bytes: 80_000,
        ..bill.clone()
    };
    let counts = TokenCounts {
        cache_read: 180_000,
        ..TokenCounts::default()
    };
    ledger.answered(&last, counts, None, 720_000);
    BranchState {
        bill: Some(bill),
        nudge_pays: true,
        costs: BranchCosts {
            ledger,
            before: Some(1),
            ..BranchCosts::default()
        },
        ..BranchState::default()
    }
}

/// The model's response in between, and the user's next message.
fn next() -> Vec<Value> {
    after(&["Done.".to_owned()])
}

#[test]
fn a_command_and_an_unknown_line_are_for_baton_alone() {
    let script = Script::new();
    let pin = |messages: &[Value]| script.plan(messages).plan.pin;
    assert_eq!(pin(&next()).answered_by(), None);
    let status = [&next()[..], &[model("Yes."), user("::handoff status")]].concat();
    let command = Responder::Command("::handoff status".to_owned());
    assert_eq!(pin(&status).answered_by(), Some(command));
    let line = [user(&format!("[[handoff-resume:{}]]\n\nGo on.", Uuid::now_v7()))];
    let unknown = Responder::Unresolved(Unresolved::Unknown);
    assert_eq!(pin(&line).answered_by(), Some(unknown));
}

#[test]
fn a_full_context_is_told_or_handed_over_where_the_conversation_may_be_cut() {
    let script = Script::new();
    let planned = script.plan(&next());
    planned.with(|plan| {
        let at = |tokens, draft| {
            let branch = branch(tokens);
            plan.answered_by(&RespondInput {
                branch: Some(&branch),
                draft,
                ..PLAIN
            })
        };
        assert_eq!((at(900, None).by, at(900, None).nudge), (Responder::Model, None));
        let told = at(1_500, None);
        assert!(told.by == Responder::Model && told.nudge.is_some());
        let full = DueHandoff {
            reason: "the context had 2500 tokens".to_owned(),
            ..DueHandoff::default()
        };
        assert_eq!(at(2_500, None).by, Responder::HandOff(full));
        // Only one draft at a time. The pending one is made with this request, whether the model is notified
        // or not.
        assert_eq!(at(2_500, Some(OpenDraft::Elsewhere)).by, Responder::Model);
        assert_eq!(at(2_500, Some(OpenDraft::Waits)).by, Responder::WaitingDraft);
        let told = at(1_500, Some(OpenDraft::Waits));
        assert!(told.by == Responder::WaitingDraft && told.nudge.is_some());
    });
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}]});
    let open = [&next()[..], &[call, user("Stop.")]].concat();
    script.plan(&open).with(|plan| {
        let branch = branch(2_500);
        let situation = RespondInput {
            branch: Some(&branch),
            draft: Some(OpenDraft::Waits),
            ..PLAIN
        };
        assert_eq!(
            plan.by(situation),
            Responder::Model,
            "a call waits for its result"
        );
    });
}

#[test]
fn what_is_sent_again_goes_on_after_its_handoff_and_is_told_nothing_new() {
    let id = Uuid::now_v7();
    let (script, branch) = (Script::new(), branch(2_500));
    script.plan(&next()).with(|plan| {
        let decision = plan.answered_by(&RespondInput {
            repeated: Some(id),
            branch: Some(&branch),
            draft: Some(OpenDraft::Waits),
            ..PLAIN
        });
        assert_eq!((decision.by, decision.nudge), (Responder::AfterHandoff(id), None));
    });
}

#[test]
fn a_cut_that_costs_nothing_is_made_or_offered_once_and_never_where_it_is_off() {
    let (script, bill) = (Script::new(), bill());
    script.plan(&next()).with(|plan| {
        let by = |free, branch: &BranchState<'_>| {
            plan.by(RespondInput {
                branch: Some(branch),
                free,
                ..PLAIN
            })
        };
        let mut branch = cold(&bill);
        assert_eq!(by(FreeCutPolicy::Off, &branch), Responder::Model);
        let Responder::HandOff(due) = by(FreeCutPolicy::On, &branch) else {
            panic!("no handoff");
        };
        assert_eq!(due.method, Some(DraftMethod::Bundle));
        assert!(due.cut.is_some_and(|cut| cut.saved > 0.0), "{:?}", due.cut);
        let Responder::Offer(text) = by(FreeCutPolicy::Ask, &branch) else {
            panic!("no question");
        };
        assert!(text.contains("`::handoff`"), "{text}");
        branch.costs.offered = true;
        assert_eq!(by(FreeCutPolicy::Ask, &branch), Responder::Model, "offered once");
        branch.costs.before = Some(0);
        assert_ne!(by(FreeCutPolicy::On, &branch), Responder::Model);
        // Another replica had requests of the conversation since.
        branch.costs.before = Some(3);
        assert_eq!(by(FreeCutPolicy::On, &branch), Responder::Model);
        let unpriced = BranchState {
            bill: None,
            ..cold(&bill)
        };
        assert_eq!(by(FreeCutPolicy::On, &unpriced), Responder::Model);
    });
}
