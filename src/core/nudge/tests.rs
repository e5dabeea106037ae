//! Compares the state machine with a second, slow implementation of its rules, which reads the whole history
//! each time.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::wire::Usage;

const WINDOW: u64 = 200_000;

/// An event of a branch.
#[derive(Debug, Clone)]
enum BranchEvent {
    Exchange {
        cut: Option<u8>,
        notified: bool,
    },
    Measured {
        cut: Option<u8>,
        tokens: u64,
        output: u64,
    },
    HandedOver(u8),
    /// A decision on a request, which is then carried out.
    Decide {
        step_done: bool,
    },
    /// The failure of a handoff that was decided on.
    Failed,
}

fn id(cut: u8) -> Uuid {
    Uuid::from_u128(u128::from(cut) + 1)
}

fn happens() -> impl Strategy<Value = BranchEvent> {
    let cut = || prop::option::weighted(0.7, 0u8..3);
    prop_oneof![
        4 => (cut(), prop::bool::weighted(0.05)).prop_map(|(cut, notified)| BranchEvent::Exchange { cut, notified }),
        6 => (cut(), 0u64..400_000, 0u64..9_000)
            .prop_map(|(cut, tokens, output)| BranchEvent::Measured { cut, tokens, output }),
        1 => (0u8..3).prop_map(BranchEvent::HandedOver),
        6 => prop::bool::weighted(0.3).prop_map(|step_done| BranchEvent::Decide { step_done }),
        1 => Just(BranchEvent::Failed),
    ]
}

/// A typical session: growing requests of one cut, with an occasional handoff.
fn session() -> impl Strategy<Value = Vec<BranchEvent>> {
    let turn = (
        1_000u64..30_000,
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.12),
        5_000u64..150_000,
    );
    prop::collection::vec(turn, 1..60).prop_map(|turns| {
        let (mut all, mut cut, mut tokens) = (Vec::new(), None, 5_000);
        for (grows, step_done, hands_over, left) in turns {
            all.push(BranchEvent::Exchange { cut, notified: false });
            all.push(BranchEvent::Decide { step_done });
            tokens += grows;
            all.push(BranchEvent::Measured {
                cut,
                tokens,
                output: 500,
            });
            if hands_over {
                let next = cut.map_or(0, |cut: u8| cut.wrapping_add(1));
                (cut, tokens) = (Some(next), left);
                all.push(BranchEvent::HandedOver(next));
                all.push(BranchEvent::Measured {
                    cut,
                    tokens,
                    output: 500,
                });
            }
        }
        all
    })
}

/// State at one point of a history.
#[derive(Debug, Default)]
struct HistoryPoint {
    cut: Option<Uuid>,
    measured: Option<u64>,
    nudged_at: Option<u64>,
    notified: bool,
    tried_at: Option<u64>,
    awaited: bool,
    treadmill: bool,
    exchanges: Option<u32>,
}

/// The rules, one per line, over all events.
fn known(history: &[(BranchEvent, NudgeDecision)], room: Option<u64>) -> HistoryPoint {
    let mut known = HistoryPoint::default();
    for (what, decision) in history {
        match what {
            BranchEvent::Exchange { cut, notified } => {
                let cut = cut.map(id);
                if cut != known.cut {
                    known = HistoryPoint {
                        cut,
                        exchanges: known.exchanges,
                        ..HistoryPoint::default()
                    };
                }
                known.exchanges = known.exchanges.map(|n| n + 1);
                known.notified |= *notified;
            }
            BranchEvent::Measured { cut, tokens, output } => {
                let input = tokens.saturating_sub(*output);
                if cut.map(id) == known.cut && input > 0 {
                    known.measured = Some(*tokens);
                    known.treadmill |= known.awaited && room.is_some_and(|n| input >= n);
                    known.awaited = false;
                }
            }
            BranchEvent::HandedOver(cut) => {
                let close = known.exchanges.is_some_and(|n| n <= 10);
                known = HistoryPoint {
                    cut: Some(id(*cut)),
                    awaited: true,
                    treadmill: close,
                    exchanges: Some(0),
                    ..HistoryPoint::default()
                };
            }
            BranchEvent::Decide { .. } => {
                if matches!(decision, NudgeDecision::Nudge(_)) {
                    known.nudged_at = known.measured;
                }
            }
            BranchEvent::Failed => known.tried_at = known.measured,
        }
        if known.notified && known.nudged_at.is_none() {
            known.nudged_at = known.measured;
        }
    }
    known
}

fn expected(
    known: &HistoryPoint,
    thresholds: &Thresholds,
    window: Option<u64>,
    step_done: bool,
) -> NudgeDecision {
    let Some(tokens) = known.measured.filter(|_| !known.treadmill) else {
        return NudgeDecision::Nothing;
    };
    let auto = window
        .map(|w| (w as f64 * thresholds.auto_at) as u64)
        .filter(|at| *at > 0);
    if auto.is_some_and(|at| tokens >= at) && known.tried_at.is_none_or(|at| tokens >= at + 20_000) {
        return NudgeDecision::HandOff(tokens);
    }
    let Some(nudge) = nudge_of(thresholds, window) else {
        return NudgeDecision::Nothing;
    };
    let from = known.nudged_at.map_or(nudge, |at| nudge.max(at + 100_000));
    // A tenth of the window, or the same share of the threshold in tokens.
    let share = if thresholds.nudge_at > 0.0 {
        thresholds.nudge_at
    } else {
        0.5
    };
    let ten_points = (nudge as f64 * 0.1 / share) as u64;
    match tokens >= from && (step_done || tokens >= from + ten_points) {
        true => NudgeDecision::Nudge(tokens),
        false => NudgeDecision::Nothing,
    }
}

fn nudge_of(thresholds: &Thresholds, window: Option<u64>) -> Option<u64> {
    let share = window
        .map(|w| (w as f64 * thresholds.nudge_at) as u64)
        .filter(|n| *n > 0);
    [share, Some(thresholds.nudge_tokens).filter(|n| *n > 0)]
        .into_iter()
        .flatten()
        .min()
}

/// Context above this size after a handoff leaves no room for work.
fn room(thresholds: &Thresholds, window: Option<u64>) -> Option<u64> {
    let auto = window
        .map(|w| (w as f64 * thresholds.auto_at) as u64)
        .filter(|_| thresholds.auto_at > 0.0);
    [nudge_of(thresholds, window), auto].into_iter().flatten().min()
}

fn holds(all: Vec<BranchEvent>, thresholds: Thresholds, window: Option<u64>) -> Result<usize, TestCaseError> {
    let limits = thresholds.of(window);
    let mut machine = ContextUse::default();
    let mut history: Vec<(BranchEvent, NudgeDecision)> = Vec::new();
    let mut nudges = 0;
    for what in all {
        let mut decision = NudgeDecision::Nothing;
        match &what {
            BranchEvent::Exchange {
                cut,
                notified: decided,
            } => machine.exchange(cut.map(id), *decided),
            BranchEvent::Measured { cut, tokens, output } => {
                let before = machine.treadmill;
                let input = tokens.saturating_sub(*output);
                let decided = machine.measured(cut.map(id), usage(input, tokens - input), &limits);
                prop_assert_eq!(decided.is_some(), before.is_none() && machine.treadmill.is_some());
            }
            BranchEvent::HandedOver(cut) => {
                prop_assert_eq!(machine.handed_over(id(*cut)), machine.treadmill)
            }
            BranchEvent::Decide { step_done } => {
                decision = machine.decide(&limits, || *step_done);
                let known = known(&history, room(&thresholds, window));
                prop_assert_eq!(
                    decision,
                    expected(&known, &thresholds, window, *step_done),
                    "{:?}",
                    known
                );
                if matches!(decision, NudgeDecision::Nudge(_)) {
                    machine.nudged();
                    nudges += 1;
                }
            }
            BranchEvent::Failed => machine.tried(),
        }
        history.push((what, decision));
    }
    Ok(nudges)
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let share = || prop_oneof![Just(0.0), Just(0.5), 0.05f64..0.95];
    let tokens = prop_oneof![Just(0u64), Just(200_000), 1u64..300_000];
    (share(), tokens, share()).prop_map(|(nudge_at, nudge_tokens, auto_at)| Thresholds {
        nudge_at,
        nudge_tokens,
        auto_at,
        nudge_pays: false,
    })
}

fn window() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.8, prop_oneof![Just(WINDOW), Just(1_000_000), 1_000u64..300_000])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold(
        all in prop::collection::vec(happens(), 0..80),
        thresholds in thresholds(),
        window in window(),
    ) {
        holds(all, thresholds, window)?;
    }

    #[test]
    fn the_rules_hold_in_sessions(all in session(), thresholds in thresholds(), window in window()) {
        holds(all, thresholds, window)?;
    }
}

const DEFAULT: Thresholds = Thresholds {
    nudge_at: 0.5,
    nudge_tokens: 200_000,
    auto_at: 0.0,
    nudge_pays: false,
};

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::default()
    }
}

/// A branch measured at `tokens`, on a model with a window of 200,000.
fn at(tokens: u64) -> ContextUse {
    let mut machine = ContextUse::default();
    machine.exchange(None, false);
    machine.measured(None, usage(tokens, 0), &DEFAULT.of(Some(WINDOW)));
    machine.exchange(None, false);
    machine
}

#[test]
fn the_model_is_notified_at_the_end_of_a_step_or_ten_points_later() {
    let limits = DEFAULT.of(Some(WINDOW));
    let notifies = |tokens, step_done| at(tokens).decide(&limits, || step_done) != NudgeDecision::Nothing;
    assert!(!notifies(99_999, true));
    assert!(notifies(100_000, true) && !notifies(100_000, false));
    assert!(!notifies(119_999, false) && notifies(120_000, false));
    assert!(notifies(190_000, false), "a jump over both");
    // A window of a million. The threshold in tokens comes first, and a fifth of it is ten points of that
    // scale.
    let limits = DEFAULT.of(Some(1_000_000));
    let notifies_at = |tokens, step_done| at(tokens).decide(&limits, || step_done) != NudgeDecision::Nothing;
    assert!(!notifies_at(199_999, true) && notifies_at(200_000, true));
    assert!(!notifies_at(239_999, false) && notifies_at(240_000, false));
    let limits = DEFAULT.of(None);
    assert_eq!(
        at(240_000).decide(&limits, || false),
        NudgeDecision::Nudge(240_000)
    );
}

#[test]
fn a_finished_step_is_looked_up_only_where_that_matters() {
    let limits = DEFAULT.of(Some(WINDOW));
    at(50_000).decide(&limits, || panic!("far from it"));
    at(150_000).decide(&limits, || panic!("late enough"));
    Thresholds::default().of(Some(WINDOW));
    at(150_000).decide(&Thresholds::default().of(Some(WINDOW)), || panic!("off"));
}

#[test]
fn the_model_is_notified_once_a_task_and_again_after_much_more() {
    let limits = DEFAULT.of(Some(1_000_000));
    let mut machine = at(250_000);
    let grow = |machine: &mut ContextUse, tokens| {
        machine.measured(None, usage(tokens, 0), &limits);
        machine.exchange(None, true);
    };
    assert_ne!(machine.decide(&limits, || false), NudgeDecision::Nothing);
    machine.nudged();
    grow(&mut machine, 349_999);
    assert_eq!(machine.decide(&limits, || true), NudgeDecision::Nothing);
    grow(&mut machine, 350_000);
    assert_eq!(machine.decide(&limits, || true), NudgeDecision::Nudge(350_000));
    machine.nudged();
    // The next task starts without that state.
    assert_eq!(machine.handed_over(id(1)), None);
    assert_eq!(
        machine.decide(&limits, || true),
        NudgeDecision::Nothing,
        "usage from before the cut"
    );
    machine.measured(None, usage(300_000, 0), &limits);
    assert_eq!(
        machine.decide(&limits, || true),
        NudgeDecision::Nothing,
        "a late answer to what was cut"
    );
    machine.measured(Some(id(1)), usage(8_000, 1_000), &limits);
    machine.exchange(Some(id(1)), false);
    machine.measured(Some(id(1)), usage(209_000, 1_000), &limits);
    assert_ne!(machine.decide(&limits, || true), NudgeDecision::Nothing);
}

#[test]
fn after_a_restart_nudges_in_the_transcript_count() {
    let limits = DEFAULT.of(Some(1_000_000));
    let mut machine = ContextUse::default();
    machine.exchange(Some(id(7)), true);
    assert_eq!(
        machine.decide(&limits, || true),
        NudgeDecision::Nothing,
        "not known yet"
    );
    for (tokens, notified) in [(260_000, false), (359_000, false), (360_000, true)] {
        machine.measured(Some(id(7)), usage(tokens, 0), &limits);
        machine.exchange(Some(id(7)), true);
        assert_eq!(
            machine.decide(&limits, || true) != NudgeDecision::Nothing,
            notified,
            "{tokens}"
        );
    }
}

#[test]
fn a_treadmill_stops_it_until_there_is_room_again() {
    let limits = DEFAULT.of(Some(WINDOW));
    let mut machine = at(150_000);
    assert_eq!(machine.handed_over(id(1)), None);
    assert_eq!(
        machine.measured(Some(id(1)), usage(110_000, 0), &limits),
        Some(NudgeOutcome::LargeCut)
    );
    machine.exchange(Some(id(1)), false);
    machine.measured(Some(id(1)), usage(180_000, 0), &limits);
    assert_eq!(machine.decide(&limits, || true), NudgeDecision::Nothing);
    // Two handoffs within ten exchanges.
    assert_eq!(machine.handed_over(id(2)), Some(NudgeOutcome::CloseHandoffs));
    machine.measured(Some(id(2)), usage(9_000, 0), &limits);
    for _ in 0..11 {
        machine.exchange(Some(id(2)), false);
    }
    machine.measured(Some(id(2)), usage(150_000, 0), &limits);
    assert_eq!(machine.decide(&limits, || true), NudgeDecision::Nothing);
    assert_eq!(machine.handed_over(id(3)), None, "eleven exchanges later");
    machine.measured(Some(id(3)), usage(9_000, 0), &limits);
    machine.exchange(Some(id(3)), false);
    machine.measured(Some(id(3)), usage(150_000, 0), &limits);
    assert_ne!(machine.decide(&limits, || true), NudgeDecision::Nothing);
}

#[test]
fn a_handoff_that_fails_is_tried_again_later() {
    let limits = Thresholds {
        auto_at: 0.75,
        ..DEFAULT
    }
    .of(Some(WINDOW));
    let mut machine = at(150_000);
    assert_eq!(machine.decide(&limits, || false), NudgeDecision::HandOff(150_000));
    machine.tried();
    assert_eq!(machine.decide(&limits, || false), NudgeDecision::Nudge(150_000));
    machine.nudged();
    for (tokens, decision) in [
        (169_999, NudgeDecision::Nothing),
        (170_000, NudgeDecision::HandOff(170_000)),
    ] {
        machine.measured(None, usage(tokens, 0), &limits);
        assert_eq!(machine.decide(&limits, || false), decision);
    }
    assert_eq!(
        at(150_000).decide(
            &Thresholds {
                auto_at: 0.75,
                ..DEFAULT
            }
            .of(None),
            || false
        ),
        NudgeDecision::Nothing,
        "a share of nothing known"
    );
}

#[test]
fn all_of_a_prompt_counts_whether_it_was_cached_or_not() {
    let measured = |usage| {
        let mut machine = ContextUse::default();
        machine.measured(None, usage, &DEFAULT.of(None));
        machine.tokens
    };
    let answer = Usage {
        cache_read: 20,
        cache_write: 300,
        ..usage(1, 4_000)
    };
    assert_eq!(measured(answer), Some(4_321));
    let absurd = Usage {
        input: u64::MAX,
        output: u64::MAX,
        ..answer
    };
    assert_eq!(measured(absurd), Some(u64::MAX));
}
